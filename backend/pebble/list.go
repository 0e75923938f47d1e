package pebble

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/index"
	"github.com/cockroachdb/pebble/v2"
)

// List is part of backend.Store.
func (s *Store) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	var res backend.ListResult
	err := s.readAny(ctx, s.wideView, func(v *view) (err error) {
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
	rows, more, err := v.findRows(ctx, sources, req)
	if err != nil {
		return res, err
	}
	n, err := v.readTasks(ctx, rows, req)
	if err != nil {
		return res, err
	}
	res.Rows = make([]backend.Stored, n)
	for i := range res.Rows {
		r := &rows[i]
		res.Rows[i] = backend.Stored{Task: r.task, Version: r.rec.Version, Owner: r.rec.Owner}
	}
	if n > 0 && (more || n < len(rows)) {
		last := &rows[n-1]
		res.Next = &backend.Position{Time: last.rec.Time, TaskID: last.id}
	}
	if req.SkipTotal {
		return res, nil
	}
	res.Total, err = index.Count(sources, req)
	return res, err
}

// listed is a row of a page on its way.
type listed struct {
	id   string
	rec  *record
	task []byte
}

// findRows returns the rows of a page in list order, without their tasks, and whether there are more behind them.
func (v *view) findRows(ctx context.Context, sources []index.Source, req *backend.ListRequest) (rows []listed, more bool, err error) {
	err = index.Walk(sources, req, func(taskID string) (bool, error) {
		if len(rows) == req.Size {
			more = true
			return false, nil
		}
		rows = append(rows, listed{id: taskID})
		return true, ctx.Err()
	})
	if err != nil {
		return nil, false, err
	}
	for _, r := range inKeyOrder(rows) {
		if r.rec, err = v.record(backend.Key{Tenant: req.Tenant, TaskID: r.id}); err != nil {
			return nil, false, err
		}
		if r.rec.Kind != backend.RowTask {
			return nil, false, v.s.fault.corrupt("list index", errMissing)
		}
	}
	return rows, more, nil
}

// readTasks reads the tasks of the first rows, as many as fit on the page, and returns their number.
func (v *view) readTasks(ctx context.Context, rows []listed, req *backend.ListRequest) (n int, err error) {
	page, size := backend.Page{Max: req.Size, MaxBytes: req.MaxBytes}, 0
	for n < len(rows) {
		batch := rows[n : n+fitting(rows[n:], req.MaxBytes-size, req)]
		for _, r := range inKeyOrder(batch) {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if r.task, err = v.task(backend.Key{Tenant: req.Tenant, TaskID: r.id}, r.rec, req.Extent); err != nil {
				return 0, err
			}
		}
		for i := range batch {
			if !page.Take(len(batch[i].task)) {
				return n, nil
			}
			n++
			size += len(batch[i].task)
		}
	}
	return n, nil
}

// fitting returns how many of the rows, at least one, certainly fit into so many bytes: those that can be read together
// without reading more than the page returns.
func fitting(rows []listed, left int, req *backend.ListRequest) int {
	if req.MaxBytes <= 0 {
		return len(rows)
	}
	n := 0
	for ; n < len(rows); n++ {
		size := rows[n].rec.Size
		if req.Extent.OmitArtifacts {
			size -= rows[n].rec.ArtifactBytes
		}
		if left -= int(size); n > 0 && left < 0 {
			break
		}
	}
	return n
}

// inKeyOrder returns the rows in the order of their keys, so that neighbours, which share blocks, are read one after the other.
func inKeyOrder(rows []listed) []*listed {
	order := make([]*listed, len(rows))
	for i := range rows {
		order[i] = &rows[i]
	}
	slices.SortFunc(order, func(a, b *listed) int { return cmp.Compare(a.id, b.id) })
	return order
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
