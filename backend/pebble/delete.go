package pebble

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Delete is part of backend.Store.
func (s *Store) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	var deleted bool
	err := s.update(ctx, req.Key, req.Owner, nil, func(u *update) error {
		next, ok, err := backend.PlanDelete(&u.rec.Row, req, s.now())
		if err != nil || !ok {
			return err
		}
		deleted = true
		u.b = s.db.NewBatch()
		return u.bury(&next)
	})
	return deleted && err == nil, err
}
