package memory

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// Save writes a task, whole or as a delta, and appends its events.
func (s *Store) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	sh := s.shard(req.Key)
	if err := sh.enter(ctx); err != nil {
		return backend.SaveResult{}, err
	}
	defer sh.leave()
	var snapshot []byte
	if req.Task != nil && hasSnapshot(req.Events) {
		snapshot = snapshotOf(&view{head: req.Task.Head, artifacts: artifacts{whole: req.Task.Artifacts}, whole: req.Task.History})
	}
	result, backlog, err := s.save(sh, req, snapshot)
	if err != nil || result.Replayed {
		return result, err
	}
	s.relieve(sh, backlog)
	s.watchers.Notify(req.Key)
	return result, nil
}

// save does the Save. backlog is the number of the shard's moved records.
func (s *Store) save(sh *shard, req *backend.SaveRequest, snapshot []byte) (result backend.SaveResult, backlog int, err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	claim := s.holdClaim(req.Key, req.Owner, req.Claim)
	defer claim.release()

	rec := sh.lookup(req.Key)
	plan, err := backend.PlanSave(&rec.row, req, &rec.body, claim.record, s.limits, s.now())
	if err != nil {
		return result, 0, err
	}
	if plan.Result.Replayed {
		return plan.Result, 0, nil
	}
	size := recordSize(req.Key, &plan.Row, rec.log.writeIDs)
	if err := s.memory.resize(size - rec.size); err != nil {
		return result, 0, err
	}

	rec = sh.change(rec, req.Key, &plan.Row, size)
	rec.body.apply(&plan.Change)
	if len(plan.Snapshots) > 0 && snapshot == nil {
		v := rec.body.view(backend.All)
		snapshot = snapshotOf(&v)
	}
	for _, i := range plan.Snapshots {
		plan.Events[i].Bytes = snapshot
	}
	rec.log.add(plan.Events)
	claim.bind(plan.Claim)
	return plan.Result, len(sh.moved), nil
}

func hasSnapshot(events []backend.EventInput) bool {
	for i := range events {
		if events[i].Snapshot {
			return true
		}
	}
	return false
}

// snapshotOf returns the event that shows the task.
func snapshotOf(v *view) []byte {
	size := v.size()
	event := make([]byte, 0, document.SnapshotSize(size))
	return v.appendTo(document.AppendSnapshotTag(event, size))
}
