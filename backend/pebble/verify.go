package pebble

import (
	"context"
	"errors"
	"fmt"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/index"
)

// Verify reads everything, as of one instant, and returns what does not fit together: tasks and their rows, logs and their
// books, index keys and the rows that they stand for, and keys that belong to nothing. It takes time and memory in
// proportion to the store; calls go on beside it.
func (s *Store) Verify(ctx context.Context) error {
	return s.readAny(ctx, s.currentView, func(v *view) error {
		c := &verifier{view: v, rows: map[backend.Key]*record{}}
		for _, step := range []func(context.Context) error{
			c.readRows, c.checkTasks, c.checkLogs, c.checkAppends, c.checkClaims, c.checkIndex,
		} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return errors.Join(c.faults...)
	}, func() error { return s.settleAll(ctx) })
}

// maxFaults bounds what Verify lists.
const maxFaults = 20

type verifier struct {
	*view
	rows   map[backend.Key]*record
	faults []error
}

func (c *verifier) faultf(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// each calls fn for every key of a keyspace.
func (c *verifier) each(ctx context.Context, space byte, fn func(key, value []byte)) error {
	lower := []byte{space}
	return c.scan(lower, after(lower), func(key, value []byte) (bool, error) {
		fn(key, value)
		return true, ctx.Err()
	})
}

func (c *verifier) readRows(ctx context.Context) error {
	return c.each(ctx, spaceRow, func(key, value []byte) {
		k, ok := parseRowKey(key)
		rec, err := decodeRecord(value)
		if !ok || err != nil || rec.Kind == backend.RowNone {
			c.faultf("row %q cannot be decoded", key)
			return
		}
		c.rows[k] = rec
	})
}

// checkTasks puts each task together and compares it with its row, and counts the keys of the documents.
func (c *verifier) checkTasks(ctx context.Context) error {
	keys := 0
	for k, rec := range c.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if rec.Kind != backend.RowTask {
			if rec.layout != (layout{}) {
				c.faultf("%q has a layout, but no task", k)
			}
			continue
		}
		if err := c.checkTask(k, rec); err != nil {
			return err
		}
		n, err := c.documentKeys(k, rec)
		if err != nil {
			return err
		}
		keys += n
	}
	err := c.each(ctx, spaceDocument, func([]byte, []byte) { keys-- })
	if err == nil && keys != 0 {
		c.faultf("the pieces of documents differ by %d keys from what the rows say", -keys)
	}
	return err
}

func (c *verifier) checkTask(k backend.Key, rec *record) error {
	b, err := c.task(k, rec, backend.All)
	if err != nil {
		return err
	}
	t, err := document.ParseTask(b)
	if err != nil {
		c.faultf("%q: the task is not valid: %w", k, err)
		return nil
	}
	got := backend.Row{
		ContextID: t.ContextID, State: t.State, Time: t.Time, Size: int64(len(b)),
		Artifacts: int64(t.Artifacts.Count), Messages: int64(t.History.Count),
	}
	want := backend.Row{
		ContextID: rec.ContextID, State: rec.State, Time: rec.Time, Size: rec.Size,
		Artifacts: rec.Artifacts, Messages: rec.Messages,
	}
	if got != want || t.ID != k.TaskID {
		c.faultf("%q: the row has %+v, the task %+v", k, want, got)
	}
	if rec.ArtifactBytes != int64(len(t.Artifacts.Bytes)) {
		c.faultf("%q: the row has %d bytes of artifacts, the task %d", k, rec.ArtifactBytes, len(t.Artifacts.Bytes))
	}
	return nil
}

// documentKeys returns how many keys a task's document has by its row.
func (c *verifier) documentKeys(k backend.Key, rec *record) (n int, err error) {
	n = 1 + int(rec.First+rec.Messages-max(rec.First, rec.Listed)) // the head, and messages
	if rec.Listed > 0 {
		n++
	}
	if !rec.Split {
		if rec.Artifacts > 0 {
			n++
		}
		return n, nil
	}
	n += 2 * int(rec.Artifacts)
	prefix := pieceKey(k, pieceInfo)
	held := 0
	err = c.scan(prefix, after(prefix), func(_, value []byte) (bool, error) {
		info, err := decodeInfo(value)
		if err != nil {
			return false, err
		}
		held += info.Holds
		n++
		return true, nil
	})
	if held != int(rec.Artifacts) {
		c.faultf("%q: %d artifacts are known by id, the row has %d", k, held, rec.Artifacts)
	}
	return n, err
}

// checkLogs compares each log with the books of its row, and counts the events.
func (c *verifier) checkLogs(ctx context.Context) error {
	events := 0
	for k, rec := range c.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		var got backend.Row
		mark := int64(0)
		err := c.events(k, 0, func(e *backend.Event) (bool, error) {
			got.LogEvents++
			got.LogBytes += int64(e.Size())
			if e.Seq < rec.FirstSeq || e.Seq > rec.LastSeq || e.Mark() < mark || e.Version > rec.Version {
				c.faultf("%q: event %d does not belong to the log", k, e.Seq)
			}
			if _, err := document.ParseEvent(e.Bytes); err != nil {
				c.faultf("%q: event %d is not valid: %w", k, e.Seq, err)
			}
			mark = e.Mark()
			return true, nil
		})
		if err != nil {
			return err
		}
		if got.LogEvents != rec.LogEvents || got.LogBytes != rec.LogBytes {
			c.faultf("%q: the row has %d events of %d bytes, the log %d of %d",
				k, rec.LogEvents, rec.LogBytes, got.LogEvents, got.LogBytes)
		}
		events += int(got.LogEvents)
	}
	err := c.each(ctx, spaceEvent, func([]byte, []byte) { events-- })
	if err == nil && events != 0 {
		c.faultf("%d events belong to no log", -events)
	}
	return err
}

// checkAppends looks for the last event of each append that is known by its write_id.
func (c *verifier) checkAppends(ctx context.Context) error {
	want := map[string]int64{} // by key, the position of the last event
	err := c.each(ctx, spaceAppend, func(key, value []byte) {
		a, err := decodeAppended(value)
		if err != nil {
			c.faultf("append %q cannot be decoded", key)
			return
		}
		want[string(key)] = a.last
	})
	if err != nil {
		return err
	}
	for key, last := range want {
		tenant, rest, ok := cutString([]byte(key)[1:])
		id, writeID, ok2 := cutString(rest)
		k := backend.Key{Tenant: tenant, TaskID: id}
		if !ok || !ok2 {
			c.faultf("append %q has a malformed key", key)
			continue
		}
		e, found, err := c.event(k, last)
		if err != nil {
			return err
		}
		if !found || e.WriteID != string(writeID) {
			c.faultf("%q: append %q names event %d, which is not its own", k, writeID, last)
		}
	}
	return nil
}

func (v *view) event(k backend.Key, seq int64) (e backend.Event, found bool, err error) {
	value, found, err := v.get(eventKey(k, seq))
	if err != nil || !found {
		return e, false, err
	}
	e, err = decodeEvent(seq, value)
	return e, err == nil, err
}

func (c *verifier) checkClaims(ctx context.Context) error {
	return c.each(ctx, spaceClaim, func(key, value []byte) {
		if _, err := decodeClaim(value); err != nil {
			c.faultf("claim %q cannot be decoded", key)
		}
		if _, ok := parseClaimKey(key); !ok {
			c.faultf("claim %q has a malformed key", key)
		}
	})
}

// checkIndex compares the index keys that are there with those that the rows ask for.
func (c *verifier) checkIndex(ctx context.Context) error {
	want := map[string]struct{}{}
	for k, rec := range c.rows {
		for _, key := range index.AppendKeys(nil, k, &rec.Row) {
			want[string(indexKey(key))] = struct{}{}
		}
	}
	err := c.each(ctx, spaceIndex, func(key, _ []byte) {
		if _, ok := want[string(key)]; !ok {
			c.faultf("index key %q stands for no row", key)
		}
		delete(want, string(key))
	})
	if err != nil {
		return err
	}
	for key := range want {
		c.faultf("index key %q is missing", key)
	}
	return nil
}
