package pebble

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// AppendEvents is part of backend.Store.
func (s *Store) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	var res backend.AppendResult
	err := s.update(ctx, req.Key, req.Owner, req.Claim, func(u *update) error {
		plan, err := backend.PlanAppend(&u.rec.Row, req, storedLog{s: s, key: req.Key}, u.claim, s.now())
		if err != nil {
			return err
		}
		res = plan.Result
		if res.Replayed {
			return nil
		}
		u.b = s.db.NewBatch()
		if req.WriteID != "" {
			value := appendAppended(nil, appended{first: res.FirstSeq, last: res.LastSeq, version: res.Version})
			if err := u.b.Set(appendKey(req.Key, req.WriteID), value, nil); err != nil {
				return err
			}
		}
		return u.put(&plan.Row, u.rec.layout, plan.Events, plan.Claim)
	})
	if err != nil {
		return backend.AppendResult{}, err
	}
	return res, nil
}

// storedLog is the log inside a critical section.
type storedLog struct {
	s   *Store
	key backend.Key
}

var _ backend.Log = storedLog{}

// ByWriteID is part of backend.Log.
func (l storedLog) ByWriteID(writeID string) (first, last, version int64, ok bool, err error) {
	value, found, err := get(l.s.db, appendKey(l.key, writeID))
	if err != nil || !found {
		return 0, 0, 0, false, l.s.fault.read(err)
	}
	a, err := decodeAppended(value)
	if err != nil {
		return 0, 0, 0, false, l.s.fault.corrupt("append", err)
	}
	return a.first, a.last, a.version, true, nil
}

// At is part of backend.Log.
func (l storedLog) At(seq int64) (backend.Event, bool, error) {
	value, found, err := get(l.s.db, eventKey(l.key, seq))
	if err != nil || !found {
		return backend.Event{}, false, l.s.fault.read(err)
	}
	e, err := decodeEvent(seq, value)
	if err != nil {
		return backend.Event{}, false, l.s.fault.corrupt("event", err)
	}
	return e, true, nil
}
