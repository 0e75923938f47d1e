package pebble

import (
	"context"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
)

// ReadLog is part of backend.Store.
func (s *Store) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	var page backend.LogPage
	err := s.read(ctx, s.taskStripe(req.Key), func(v *view) (err error) {
		page, err = v.readLog(req)
		return err
	})
	if err != nil {
		return backend.LogPage{}, err
	}
	return page, nil
}

func (v *view) readLog(req *backend.ReadLogRequest) (backend.LogPage, error) {
	rec, err := v.record(req.Key)
	if err != nil {
		return backend.LogPage{}, err
	}
	page, err := backend.PlanRead(&rec.Row, req, func(mark int64) (int64, error) {
		return v.lastMarked(req.Key, rec, mark)
	})
	if err != nil {
		return backend.LogPage{}, err
	}
	if req.Task != nil && rec.Kind == backend.RowTask {
		task, err := v.task(req.Key, rec, *req.Task)
		if err != nil {
			return backend.LogPage{}, err
		}
		page.Task = &backend.Stored{Task: task, Version: rec.Version, Owner: rec.Owner}
	}
	if req.MaxEvents == 0 || page.From >= rec.LastSeq {
		return page, nil
	}
	bounds := backend.Page{Max: req.MaxEvents, MaxBytes: req.MaxBytes}
	err = v.events(req.Key, page.From+1, func(e *backend.Event) (bool, error) {
		if !bounds.Take(e.Size()) {
			return false, nil
		}
		e.Bytes = slices.Clone(e.Bytes)
		page.Events = append(page.Events, *e)
		return true, nil
	})
	return page, err
}

// events calls fn for the events of a log from a position on. Their Bytes are valid during the call.
func (v *view) events(k backend.Key, from int64, fn func(*backend.Event) (bool, error)) error {
	return v.scan(eventKey(k, from), after(taskPrefix(spaceEvent, k)), func(key, value []byte) (bool, error) {
		e, err := decodeEvent(seqOf(key), value)
		if err != nil {
			return false, v.s.fault.corrupt("event", err)
		}
		return fn(&e)
	})
}

// lastMarked returns the position of the last event whose Mark is at most mark, 0 if there is none. Marks never fall along
// a log, so it bisects.
func (v *view) lastMarked(k backend.Key, rec *record, mark int64) (last int64, err error) {
	low, high := rec.FirstSeq, rec.LastSeq+1 // the first event with a larger mark is in [low, high]
	for low < high {
		mid := low + (high-low)/2
		next := high // no event in [mid, high)
		var found backend.Event
		err := v.events(k, mid, func(e *backend.Event) (bool, error) {
			found, next = *e, e.Seq
			return false, nil
		})
		switch {
		case err != nil:
			return 0, err
		case next < high && found.Mark() <= mark:
			low, last = next+1, next
		default:
			high = mid
		}
	}
	return last, nil
}
