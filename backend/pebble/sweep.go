package pebble

import (
	"bytes"
	"context"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/cockroachdb/pebble/v2"
)

// trimStep bounds the events that one step drops, and so its batch.
const trimStep = 1000

// Sweep is part of backend.Store. A round walks over the claims, and then over the rows; a cursor is the key that the next
// batch starts at. What the walk finds expired is looked at again in a critical section of its own.
func (s *Store) Sweep(ctx context.Context, req *backend.SweepRequest) (backend.SweepResult, error) {
	var res backend.SweepResult
	var rows []backend.Key
	var claims [][]byte
	err := s.readAny(ctx, s.currentView, func(v *view) (err error) {
		rows, claims, res.Cursor, err = v.expired(req)
		return err
	}, func() error { return nil }) // nothing is told of what was seen
	if err != nil {
		return backend.SweepResult{}, err
	}
	for _, k := range rows {
		if err := s.sweepRow(ctx, k, &req.Retention, &res); err != nil {
			return backend.SweepResult{}, err
		}
	}
	for _, key := range claims {
		if err := s.sweepClaim(ctx, key, &res); err != nil {
			return backend.SweepResult{}, err
		}
	}
	return res, nil
}

// expired looks at a batch of rows and claims.
func (v *view) expired(req *backend.SweepRequest) (rows []backend.Key, claims [][]byte, cursor []byte, err error) {
	left := max(req.Batch, 1)
	now := v.s.now()
	// visit calls fn for the keys of a keyspace from the cursor on, as long as the batch has room.
	visit := func(space byte, fn func(key, value []byte) error) error {
		lower := []byte{space}
		upper := after(lower)
		if bytes.Compare(req.Cursor, lower) > 0 {
			lower = req.Cursor
		}
		if cursor != nil || bytes.Compare(lower, upper) >= 0 {
			return nil
		}
		return v.scan(lower, upper, func(key, value []byte) (bool, error) {
			if left == 0 {
				cursor = slices.Clone(key)
				return false, nil
			}
			left--
			return true, fn(key, value)
		})
	}
	// In the order of the keyspaces' bytes, as the cursor goes.
	err = visit(spaceClaim, func(key, value []byte) error {
		c, err := decodeClaim(value)
		if err != nil {
			return v.s.fault.corrupt("claim", err)
		}
		if !c.Live(now) {
			claims = append(claims, slices.Clone(key))
		}
		return nil
	})
	if err != nil {
		return nil, nil, nil, err
	}
	err = visit(spaceRow, func(key, value []byte) error {
		rec, err := decodeRecord(value)
		k, ok := parseRowKey(key)
		if err != nil || !ok {
			return v.s.fault.corrupt("row", errEncoding)
		}
		if backend.Expired(&rec.Row, &req.Retention, now) != backend.Keep {
			rows = append(rows, k)
		}
		return nil
	})
	return rows, claims, cursor, err
}

// sweepRow does to a row what retention asks for now.
func (s *Store) sweepRow(ctx context.Context, k backend.Key, r *backend.Retention, res *backend.SweepResult) error {
	for more := true; more; {
		more = false
		var done backend.SweepResult
		err := s.update(ctx, k, backend.Owner{}, nil, func(u *update) error {
			now := s.now()
			switch backend.Expired(&u.rec.Row, r, now) {
			case backend.Expire:
				done.Tasks = 1
				u.b = s.db.NewBatch()
				row := backend.Bury(&u.rec.Row, now)
				return u.bury(&row)
			case backend.Forget:
				done.Tombstones = 1
				u.b = s.db.NewBatch()
				return u.b.Delete(rowKey(k), nil)
			case backend.TrimLog:
				u.b = s.db.NewBatch()
				var err error
				done.Events, more, err = u.trimLog(r)
				return err
			default:
				return nil
			}
		})
		if err != nil {
			return err
		}
		res.Tasks += done.Tasks
		res.Tombstones += done.Tombstones
		res.Events += done.Events
	}
	return nil
}

// trimLog drops the oldest events of a log that is over its limits. more is set if it had to stop before it was within.
func (u *update) trimLog(r *backend.Retention) (dropped int, more bool, err error) {
	v, err := u.s.view(u.s.db)
	if err != nil {
		return 0, false, err
	}
	row := u.rec.Row
	first := row.FirstSeq
	err = v.events(u.key, first, func(e *backend.Event) (bool, error) {
		if dropped == trimStep {
			more = true
			return false, nil
		}
		if !backend.Trim(&row, r, e) {
			return false, nil
		}
		dropped++
		return true, u.dropAppend(e)
	})
	if cerr := v.close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = u.s.clear(u.b, eventKey(u.key, first), eventKey(u.key, row.FirstSeq))
	}
	if err == nil {
		err = u.put(&row, u.rec.layout, nil, nil)
	}
	return dropped, more, err
}

// dropAppend drops the entry of the append whose last event is e. A later append may have taken its write_id.
func (u *update) dropAppend(e *backend.Event) error {
	if e.WriteID == "" {
		return nil
	}
	_, last, _, ok, err := storedLog{s: u.s, key: u.key}.ByWriteID(e.WriteID)
	if err != nil || !ok || last != e.Seq {
		return err
	}
	return u.b.Delete(appendKey(u.key, e.WriteID), nil)
}

// sweepClaim removes a claim that has expired.
func (s *Store) sweepClaim(ctx context.Context, key []byte, res *backend.SweepResult) error {
	k, ok := parseClaimKey(key)
	if !ok {
		return s.fault.corrupt("claim", errEncoding)
	}
	removed := 0
	err := s.updateClaim(ctx, k, func(c *backend.Claim) (*pebble.Batch, error) {
		if c == nil || c.Live(s.now()) {
			return nil, nil
		}
		removed = 1
		b := s.db.NewBatch()
		return b, b.Delete(key, nil)
	})
	if err == nil {
		res.Keys += removed
	}
	return err
}
