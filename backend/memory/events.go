package memory

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// AppendEvents appends to a log.
func (s *Store) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	sh := s.shard(req.Key)
	if err := sh.enter(ctx); err != nil {
		return backend.AppendResult{}, err
	}
	defer sh.leave()
	result, err := s.append(sh, req)
	if err == nil && !result.Replayed {
		s.watchers.Notify(req.Key)
	}
	return result, err
}

func (s *Store) append(sh *shard, req *backend.AppendRequest) (result backend.AppendResult, err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	claim := s.holdClaim(req.Key, req.Owner, req.Claim)
	defer claim.release()

	rec := sh.lookup(req.Key)
	plan, err := backend.PlanAppend(&rec.row, req, &rec.log, claim.record, s.now())
	if err != nil {
		return result, err
	}
	if plan.Result.Replayed {
		return plan.Result, nil
	}
	size := recordSize(req.Key, &plan.Row, rec.log.writeIDs+writeIDsSize(plan.Events))
	if err := s.memory.resize(size - rec.size); err != nil {
		return result, err
	}

	rec = sh.change(rec, req.Key, &plan.Row, size)
	rec.log.add(plan.Events)
	claim.bind(plan.Claim)
	return plan.Result, nil
}

// ReadLog reads a page of a log, and the task if it is asked for.
func (s *Store) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	sh := s.shard(req.Key)
	if err := sh.enter(ctx); err != nil {
		return backend.LogPage{}, err
	}
	defer sh.leave()
	extent := backend.Extent{StateOnly: true} // reads no body
	if req.Task != nil {
		extent = *req.Task
	}
	at := sh.read(req.Key, extent)

	page, err := backend.PlanRead(&at.row, req, func(mark int64) (int64, error) { return lastMarked(at.events, mark), nil })
	if err != nil {
		return page, err
	}
	first := behind(at.events, page.From)
	end := first
	for take := (backend.Page{Max: req.MaxEvents, MaxBytes: req.MaxBytes}); end < len(at.events); end++ {
		if !take.Take(at.events[end].Size()) {
			break
		}
	}
	if end > first {
		page.Events = append(make([]backend.Event, 0, end-first), at.events[first:end]...)
	}
	if req.Task != nil && at.row.Kind == backend.RowTask {
		stored := at.stored(req.Key.TaskID, extent)
		page.Task = &stored
	}
	return page, nil
}
