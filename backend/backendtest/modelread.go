package backendtest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// extract returns as much of the record's task as the extent names.
func (r *record) extract(x backend.Extent) []byte {
	if r.row.Kind != backend.RowTask {
		return nil
	}
	if x.StateOnly {
		return document.AppendState(nil, r.task.ID, r.row.ContextID, r.row.State, r.row.Time)
	}
	t := *r.task
	if x.OmitArtifacts {
		t.Artifacts = document.List{}
	}
	t.History = document.LastEntries(t.History, x.History)
	return t.AppendTask(nil)
}

// Get reads a task.
func (m *model) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return backend.GetResult{}, err
	}
	defer leave()
	r := m.record(req.Key)
	return r.row.Result(req.Owner, r.extract(req.Extent), m.now())
}

// matching returns the keys of the tasks that a list's filters let pass, in the order of lists.
func (m *model) matching(req *backend.ListRequest) []backend.Key {
	keys := slices.Collect(maps.Keys(m.records))
	keys = slices.DeleteFunc(keys, func(k backend.Key) bool {
		row := &m.records[k].row
		return k.Tenant != req.Tenant || !row.TaskFor(req.Owner) ||
			(req.ContextID != "" && row.ContextID != req.ContextID) || (req.State != 0 && row.State != req.State) ||
			(req.Since.Valid && (!row.Time.Valid || row.Time.Compare(req.Since) < 0))
	})
	slices.SortFunc(keys, func(a, b backend.Key) int {
		return cmp.Or(m.records[b].row.Time.Compare(m.records[a].row.Time), cmp.Compare(b.TaskID, a.TaskID))
	})
	return keys
}

// List reads a page.
func (m *model) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	var res backend.ListResult
	leave, err := m.enter(ctx)
	if err != nil {
		return res, err
	}
	defer leave()
	keys := m.matching(req)
	if !req.SkipTotal {
		res.Total = len(keys)
	}
	page := backend.Page{Max: req.Size, MaxBytes: req.MaxBytes}
	var last *backend.Position
	for _, k := range keys {
		r := m.records[k]
		if a := req.After; a != nil {
			if c := a.Time.Compare(r.row.Time); c < 0 || (c == 0 && k.TaskID >= a.TaskID) {
				continue
			}
		}
		task := r.extract(req.Extent)
		if !page.Take(len(task)) {
			res.Next = last
			break
		}
		res.Rows = append(res.Rows, backend.Stored{Task: task, Version: r.row.Version, Owner: r.row.Owner})
		last = &backend.Position{Time: r.row.Time, TaskID: k.TaskID}
	}
	return res, nil
}

// recordLog is a Log over a record.
type recordLog struct{ *record }

// ByWriteID finds the events of an append.
func (l recordLog) ByWriteID(id string) (first, last, version int64, ok bool, err error) {
	res, ok := l.appends[id]
	return res.FirstSeq, res.LastSeq, res.Version, ok, nil
}

// At finds the event at a position.
func (l recordLog) At(seq int64) (backend.Event, bool, error) {
	for _, e := range l.events {
		if e.Seq == seq {
			return e, true, nil
		}
	}
	return backend.Event{}, false, nil
}

// ReadLog reads a page of a log.
func (m *model) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return backend.LogPage{}, err
	}
	defer leave()
	r := m.record(req.Key)
	res, err := backend.PlanRead(&r.row, req, func(mark int64) (seq int64, err error) {
		for _, e := range r.events {
			if e.Mark() <= mark {
				seq = e.Seq
			}
		}
		return seq, nil
	})
	if err != nil {
		return res, err
	}
	page := backend.Page{Max: req.MaxEvents, MaxBytes: req.MaxBytes}
	for _, e := range r.events {
		if e.Seq <= res.From {
			continue
		}
		if !page.Take(e.Size()) {
			break
		}
		res.Events = append(res.Events, e)
	}
	if req.Task != nil && r.row.Kind == backend.RowTask {
		res.Task = &backend.Stored{Task: r.extract(*req.Task), Version: r.row.Version, Owner: r.row.Owner}
	}
	return res, nil
}
