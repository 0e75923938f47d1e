package memory

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/index"
)

// List reads a page.
func (s *Store) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	first := &s.records[0]
	if err := first.enter(ctx); err != nil {
		return backend.ListResult{}, err
	}
	defer first.leave()
	rows, total, err := s.find(req)
	if err != nil {
		return backend.ListResult{}, err
	}

	result := backend.ListResult{Total: total, Rows: make([]backend.Stored, 0, min(len(rows), req.Size))}
	page := backend.Page{Max: req.Size, MaxBytes: req.MaxBytes}
	var last *match
	for i := range rows {
		m := &rows[i]
		if !page.Take(m.size(m.id, req.Extent)) {
			result.Next = &backend.Position{Time: last.row.Time, TaskID: last.id}
			break
		}
		result.Rows = append(result.Rows, m.stored(m.id, req.Extent))
		last = m
	}
	return result, nil
}

// match is a row of a list.
type match struct {
	id string
	instant
}

// find returns the rows of the page, and one more if there is one, and the number of all, of one instant.
func (s *Store) find(req *backend.ListRequest) (rows []match, total int, err error) {
	s.order.mu.Lock()
	defer s.order.mu.Unlock()
	for i := range s.records { // most of the work, before all writers are stopped
		s.order.follow(&s.records[i])
	}
	if rows, err = s.pick(req); err != nil || req.SkipTotal {
		return rows, 0, err
	}
	// Writers go on, but the order stays as it was.
	total, err = index.Count(s.order.sources, req)
	return rows, total, err
}

// pick finds the rows while no write can happen.
func (s *Store) pick(req *backend.ListRequest) ([]match, error) {
	s.lockRecords()
	defer s.unlockRecords()
	for i := range s.records {
		s.order.place(&s.records[i])
	}
	rows := make([]match, 0, min(req.Size+1, 128))
	err := index.Walk(s.order.sources, req, func(id string) (bool, error) {
		key := backend.Key{Tenant: req.Tenant, TaskID: id}
		rec := s.shard(key).lookup(key)
		rows = append(rows, match{id: id, instant: instant{row: rec.row, view: rec.body.view(req.Extent)}})
		return len(rows) <= req.Size, nil
	})
	return rows, err
}

func (s *Store) lockRecords() {
	for i := range s.records {
		s.records[i].mu.Lock()
	}
}

func (s *Store) unlockRecords() {
	for i := range s.records {
		s.records[i].mu.Unlock()
	}
}
