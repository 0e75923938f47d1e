package postgres

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Delete implements backend.Store.
func (s *Store) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	p := &deletePlan{req: req}
	if err := s.do(ctx, p, 0, taskName(req.Key)); err != nil {
		return false, err
	}
	return p.deleted, nil
}

// deletePlan plans a Delete.
type deletePlan struct {
	req     *backend.DeleteRequest
	deleted bool
}

func (p *deletePlan) asks() ask { return ask{key: p.req.Key, row: true} }

func (p *deletePlan) guess(*memory) *facts { return nil }

func (p *deletePlan) plan(f *facts) (outcome, error) {
	next, deleted, err := backend.PlanDelete(&f.rec.Row, p.req, f.now)
	p.deleted = deleted
	if err != nil || !deleted {
		return outcome{}, err
	}
	return outcome{change: bury(p.req.Key, &f.rec, next)}, nil
}

// bury makes the change that leaves a tombstone and nothing else.
func bury(key backend.Key, was *record, next backend.Row) *change {
	c := &change{key: key, was: was, next: was.following(next)}
	c.clear()
	return c
}
