package pebble

import (
	"errors"
	"io"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/cockroachdb/pebble/v2"
)

// get returns a copy of a value.
func get(r pebble.Reader, key []byte) (value []byte, found bool, err error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return slices.Clone(v), true, closer.Close()
}

// getRecord returns the record under a key, a zero one if there is none.
func (s *Store) getRecord(r pebble.Reader, k backend.Key) (*record, error) {
	value, closer, err := r.Get(rowKey(k))
	if errors.Is(err, pebble.ErrNotFound) {
		return &record{}, nil
	}
	if err != nil {
		return nil, s.fault.read(err)
	}
	rec, err := decodeRecord(value)
	if err != nil {
		return nil, s.fault.corrupt("row", err)
	}
	return rec, closer.Close()
}

// view reads from one instant.
type view struct {
	s  *Store
	it *pebble.Iterator
	// snapshot, unless nil, is where values are looked up, see wideView, and closer that of the one looked up last.
	snapshot *pebble.Snapshot
	closer   io.Closer
}

// view opens a view of what is applied now; the caller closes it.
func (s *Store) view(r pebble.Reader) (*view, error) {
	it, err := r.NewIter(nil)
	if err != nil {
		return nil, s.fault.read(err)
	}
	return &view{s: s, it: it}, nil
}

// currentView is a view of what is applied now.
func (s *Store) currentView() (*view, error) { return s.view(s.db) }

// wideView is one for reading values of many tasks. It looks them up, where other views seek them with their iterator.
// That is faster for a few neighbours, but it goes to the key on every level of the tree, and reads there what later writes
// have replaced. A look-up ends at the first level that has the key.
func (s *Store) wideView() (*view, error) {
	snapshot := s.db.NewSnapshot()
	v, err := s.view(snapshot)
	if err != nil {
		return nil, errors.Join(err, s.fault.read(snapshot.Close()))
	}
	v.snapshot = snapshot
	return v, nil
}

func (v *view) close() error {
	err := errors.Join(v.release(), v.it.Close())
	if v.snapshot != nil {
		err = errors.Join(err, v.snapshot.Close())
	}
	return v.s.fault.read(err)
}

// release gives up the value that was looked up last.
func (v *view) release() error {
	closer := v.closer
	if v.closer = nil; closer == nil {
		return nil
	}
	return closer.Close()
}

// get returns a value, which is valid until the next call.
func (v *view) get(key []byte) (value []byte, found bool, err error) {
	if v.snapshot != nil {
		return v.lookUp(key)
	}
	v.it.SetBounds(nil, nil)
	if v.it.SeekPrefixGE(key) {
		value, err = v.it.ValueAndErr()
		return value, err == nil, v.s.fault.read(err)
	}
	return nil, false, v.s.fault.read(v.it.Error())
}

func (v *view) lookUp(key []byte) (value []byte, found bool, err error) {
	if err := v.release(); err != nil {
		return nil, false, v.s.fault.read(err)
	}
	value, v.closer, err = v.snapshot.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	return value, err == nil, v.s.fault.read(err)
}

// scan calls fn for the keys in [lower, upper), until it returns false or an error. fn does not keep key and value.
func (v *view) scan(lower, upper []byte, fn func(key, value []byte) (bool, error)) error {
	v.it.SetBounds(lower, upper)
	for ok := v.it.First(); ok; ok = v.it.Next() {
		value, err := v.it.ValueAndErr()
		if err != nil {
			return v.s.fault.read(err)
		}
		if more, err := fn(v.it.Key(), value); err != nil || !more {
			return err
		}
	}
	return v.s.fault.read(v.it.Error())
}

// record returns the record under a key, a zero one if there is none.
func (v *view) record(k backend.Key) (*record, error) {
	value, found, err := v.get(rowKey(k))
	if err != nil || !found {
		return &record{}, err
	}
	rec, err := decodeRecord(value)
	if err != nil {
		return nil, v.s.fault.corrupt("row", err)
	}
	return rec, nil
}

// task puts a task together: its record must be of the view's instant. The result is the caller's.
func (v *view) task(k backend.Key, rec *record, extent backend.Extent) ([]byte, error) {
	if extent.StateOnly {
		return document.AppendState(nil, k.TaskID, rec.ContextID, rec.State, rec.Time), nil
	}
	size := int64(0)
	if !extent.OmitArtifacts && extent.History != 0 {
		size = rec.Size
	}
	head, found, err := v.get(pieceKey(k, pieceHead))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, v.s.fault.corrupt("head of a task", errMissing)
	}
	dst := append(make([]byte, 0, max(size, int64(len(head)))), head...)
	if !extent.OmitArtifacts && rec.Artifacts > 0 {
		if dst, err = v.appendArtifacts(dst, k, rec); err != nil {
			return nil, err
		}
	}
	n := rec.Messages
	if extent.History >= 0 {
		n = min(n, int64(extent.History))
	}
	return v.appendHistory(dst, k, rec, n)
}

var errMissing = errors.New("a stored value is missing")

func (v *view) appendArtifacts(dst []byte, k backend.Key, rec *record) ([]byte, error) {
	if !rec.Split {
		list, found, err := v.get(pieceKey(k, pieceArtifacts))
		if err == nil && !found {
			err = v.s.fault.corrupt("artifacts of a task", errMissing)
		}
		return append(dst, list...), err
	}
	prefix := pieceKey(k, pieceArtifact)
	var fields []byte
	err := v.scan(prefix, after(prefix), func(key, value []byte) (bool, error) {
		if _, half := artifactOf(key); half == artifactFields {
			fields = append(fields[:0], value...)
			return true, nil
		}
		dst = document.AppendArtifactTag(dst, len(fields), len(value))
		dst = append(dst, fields...)
		dst = append(dst, value...)
		return true, nil
	})
	return dst, err
}

// appendHistory appends the last n messages.
func (v *view) appendHistory(dst []byte, k backend.Key, rec *record, n int64) ([]byte, error) {
	if n == 0 {
		return dst, nil
	}
	from := rec.First + rec.Messages - n
	if from < rec.Listed {
		list, found, err := v.get(pieceKey(k, pieceHistory))
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, v.s.fault.corrupt("history of a task", errMissing)
		}
		last := document.LastEntries(document.List{Bytes: list, Count: int(rec.Listed)}, int(rec.Listed-from))
		dst = append(dst, last.Bytes...)
		from = rec.Listed
	}
	if rec.Messages+rec.First == from {
		return dst, nil
	}
	err := v.scan(messageKey(k, from), after(pieceKey(k, pieceMessage)), func(_, value []byte) (bool, error) {
		dst = append(dst, value...)
		return true, nil
	})
	return dst, err
}
