package memory

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// A round of sweeps goes through the shards of records, then through those of claims. cursor is where a batch starts.
type cursor struct {
	part int // below shards: of records; from there on: of claims
	rest int // how many slots of the part are still to be looked at, from the last of them downwards
}

const wholePart = int(^uint(0) >> 1)

func parseCursor(b []byte) (cursor, error) {
	if b == nil {
		return cursor{rest: wholePart}, nil
	}
	part, n := binary.Uvarint(b)
	rest, m := binary.Uvarint(b[max(n, 0):])
	if n <= 0 || m <= 0 || part >= 2*shards || rest > uint64(wholePart) {
		return cursor{}, backend.Invalid("cursor", "is not one that a sweep returned")
	}
	return cursor{part: int(part), rest: int(rest)}, nil
}

func (c cursor) encode() []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(c.part)), uint64(c.rest))
}

// Sweep removes a batch of what has expired.
func (s *Store) Sweep(ctx context.Context, req *backend.SweepRequest) (backend.SweepResult, error) {
	first := &s.records[0]
	if err := first.enter(ctx); err != nil {
		return backend.SweepResult{}, err
	}
	defer first.leave()
	at, err := parseCursor(req.Cursor)
	if err != nil {
		return backend.SweepResult{}, err
	}
	var result backend.SweepResult
	now := s.now()
	for batch := req.Batch; at.part < 2*shards; at = (cursor{at.part + 1, wholePart}) {
		if at.part < shards {
			at.rest, batch = s.sweepRecords(&s.records[at.part], at.rest, batch, req, now, &result)
		} else {
			at.rest, batch = s.sweepClaims(&s.claims[at.part-shards], at.rest, batch, now, &result)
		}
		if at.rest > 0 {
			result.Cursor = at.encode()
			return result, nil
		}
	}
	return result, nil
}

// sweepRecords looks at the slots below rest, at most batch of them, and returns what is left of both.
func (s *Store) sweepRecords(
	sh *shard, rest, batch int, req *backend.SweepRequest, now time.Time, result *backend.SweepResult,
) (int, int) {
	sh.mu.Lock()
	var changed []backend.Key
	rest = min(rest, len(sh.records.slots))
	for ; rest > 0 && batch > 0; rest, batch = rest-1, batch-1 {
		rec := &sh.records.slots[rest-1].value
		if s.sweepRecord(sh, rec, &req.Retention, now, result) {
			changed = append(changed, rec.key)
		}
	}
	backlog := len(sh.moved)
	sh.mu.Unlock()

	s.relieve(sh, backlog)
	for _, key := range changed {
		s.watchers.Notify(key)
	}
	return rest, batch
}

// sweepRecord does to a record what retention says, and reports whether a reader may notice.
func (s *Store) sweepRecord(
	sh *shard, rec *record, r *backend.Retention, now time.Time, result *backend.SweepResult,
) bool {
	switch backend.Expired(&rec.row, r, now) {
	case backend.Expire:
		tombstone := backend.Bury(&rec.row, now)
		s.bury(sh, rec, &tombstone)
		result.Tasks++
		return true
	case backend.TrimLog:
		result.Events += s.trimLog(rec, r)
		return true
	case backend.Forget:
		_ = s.memory.resize(-rec.size) // giving back cannot fail
		sh.records.remove(rec.key)
		result.Tombstones++
	}
	return false
}

// trimLog drops the oldest events that retention does not keep, and returns their number.
func (s *Store) trimLog(rec *record, r *backend.Retention) int {
	events := rec.log.events.live()
	n := 0
	for n < len(events) && backend.Trim(&rec.row, r, &events[n]) {
		n++
	}
	rec.log.drop(n)
	size := recordSize(rec.key, &rec.row, rec.log.writeIDs)
	_ = s.memory.resize(size - rec.size) // giving back cannot fail
	rec.size = size
	return n
}

// sweepClaims is sweepRecords for claims.
func (s *Store) sweepClaims(
	cs *claimShard, rest, batch int, now time.Time, result *backend.SweepResult,
) (int, int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	rest = min(rest, len(cs.claims.slots))
	for ; rest > 0 && batch > 0; rest, batch = rest-1, batch-1 {
		if e := cs.claims.slots[rest-1]; !e.value.Live(now) {
			s.removeClaim(cs, e.key)
			result.Keys++
		}
	}
	return rest, batch
}
