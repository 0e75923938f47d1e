package pebble

import (
	"context"
	"errors"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/index"
	"github.com/cockroachdb/pebble/v2"
)

// List is part of backend.Store.
func (s *Store) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	var res backend.ListResult
	err := s.readAny(ctx, func(v *view) (err error) {
		res, err = v.list(ctx, req)
		return err
	}, func() error { return s.settleAll(ctx) })
	if err != nil {
		return backend.ListResult{}, err
	}
	return res, nil
}

func (v *view) list(ctx context.Context, req *backend.ListRequest) (res backend.ListResult, err error) {
	sources := []index.Source{indexSource{v}}
	page := backend.Page{Max: req.Size, MaxBytes: req.MaxBytes}
	var last backend.Position
	err = index.Walk(sources, req, func(taskID string) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		k := backend.Key{Tenant: req.Tenant, TaskID: taskID}
		if len(res.Rows) == req.Size {
			res.Next = &last
			return false, nil
		}
		rec, err := v.record(k)
		if err != nil {
			return false, err
		}
		if rec.Kind != backend.RowTask {
			return false, v.s.fault.corrupt("list index", errMissing)
		}
		task, err := v.task(k, rec, req.Extent)
		if err != nil {
			return false, err
		}
		if !page.Take(len(task)) {
			res.Next = &last
			return false, nil
		}
		last = backend.Position{Time: rec.Time, TaskID: taskID}
		res.Rows = append(res.Rows, backend.Stored{Task: task, Version: rec.Version, Owner: rec.Owner})
		return true, nil
	})
	if err != nil || req.SkipTotal {
		return res, err
	}
	res.Total, err = index.Count(sources, req)
	return res, err
}

// indexSource is the list index of a view.
type indexSource struct{ v *view }

// NewIter is part of index.Source.
func (x indexSource) NewIter(lower, upper []byte) (index.Iterator, error) {
	it, err := x.v.it.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{
		LowerBound: indexKey(lower), UpperBound: indexKey(upper),
	}})
	if err != nil {
		return nil, x.v.s.fault.read(err)
	}
	return &indexIterator{it: it, s: x.v.s}, nil
}

func indexKey(k []byte) []byte { return append([]byte{spaceIndex}, k...) }

type indexIterator struct {
	it  *pebble.Iterator
	s   *Store
	key []byte // for SeekGE
}

func (i *indexIterator) SeekGE(key []byte) bool {
	i.key = append(append(i.key[:0], spaceIndex), key...)
	return i.it.SeekGE(i.key)
}

func (i *indexIterator) Next() bool   { return i.it.Next() }
func (i *indexIterator) Key() []byte  { return i.it.Key()[1:] }
func (i *indexIterator) Error() error { return i.s.fault.read(i.it.Error()) }
func (i *indexIterator) Close() error { return i.s.fault.read(i.it.Close()) }

// moveIndex changes the index keys of a task. Each key is set only when it is absent and deleted only when it is there, so
// that SingleDelete is sound: the pair vanishes in the first compaction in which it meets, instead of sinking through all
// levels.
func moveIndex(b *pebble.Batch, k backend.Key, before, after *backend.Row) error {
	if before.Kind == after.Kind && before.Owner == after.Owner && before.ContextID == after.ContextID &&
		before.State == after.State && before.Time == after.Time {
		return nil
	}
	var err error
	for _, key := range index.AppendKeys(nil, k, before) {
		err = errors.Join(err, b.SingleDelete(indexKey(key), nil))
	}
	for _, key := range index.AppendKeys(nil, k, after) {
		err = errors.Join(err, b.Set(indexKey(key), nil, nil))
	}
	return err
}
