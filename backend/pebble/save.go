package pebble

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Save is part of backend.Store.
func (s *Store) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	var res backend.SaveResult
	err := s.update(ctx, req.Key, req.Owner, req.Claim, func(u *update) error {
		doc := &stored{s: s, key: req.Key, rec: u.rec}
		plan, err := backend.PlanSave(&u.rec.Row, req, doc, u.claim, s.limits, s.now())
		if err != nil {
			return err
		}
		res = plan.Result
		if res.Replayed {
			return nil
		}
		return u.save(doc, plan)
	})
	if err != nil {
		return backend.SaveResult{}, err
	}
	return res, nil
}

func (u *update) save(doc *stored, plan *backend.SavePlan) error {
	whole := plan.Change.Whole
	if whole == nil && len(plan.Snapshots) > 0 {
		u.b = u.s.db.NewIndexedBatch() // the snapshot is read back from it
	} else {
		u.b = u.s.db.NewBatch()
	}
	l, err := doc.write(u.b, &plan.Change)
	if err != nil {
		return err
	}
	if len(plan.Snapshots) > 0 {
		var task []byte
		if whole != nil {
			task = whole.AppendTask(make([]byte, 0, whole.Size()))
		} else if task, err = u.readBack(&record{Row: plan.Row, layout: l}); err != nil {
			return err
		}
		plan.FillSnapshots(task)
	}
	return u.put(&plan.Row, l, plan.Events, plan.Claim)
}

// readBack returns the task as the batch leaves it.
func (u *update) readBack(rec *record) ([]byte, error) {
	v, err := u.s.view(u.b)
	if err != nil {
		return nil, err
	}
	task, err := v.task(u.key, rec, backend.All)
	if cerr := v.close(); err == nil {
		err = cerr
	}
	return task, err
}
