package memory

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Delete removes a task or a log.
func (s *Store) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	sh := s.shard(req.Key)
	if err := sh.enter(ctx); err != nil {
		return false, err
	}
	defer sh.leave()
	deleted, backlog, err := s.delete(sh, req)
	if err != nil || !deleted {
		return false, err
	}
	s.relieve(sh, backlog)
	s.watchers.Notify(req.Key)
	return true, nil
}

func (s *Store) delete(sh *shard, req *backend.DeleteRequest) (deleted bool, backlog int, err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rec := sh.lookup(req.Key)
	next, deleted, err := backend.PlanDelete(&rec.row, req, s.now())
	if err != nil || !deleted {
		return false, 0, err
	}
	s.bury(sh, rec, &next)
	return true, len(sh.moved), nil
}

// bury removes the task and the log of a record and leaves the tombstone, which is never larger.
func (s *Store) bury(sh *shard, rec *record, tombstone *backend.Row) {
	size := recordSize(rec.key, tombstone, 0)
	_ = s.memory.resize(size - rec.size) // giving back cannot fail
	sh.change(rec, rec.key, tombstone, size)
	rec.body, rec.log = body{}, eventLog{}
}
