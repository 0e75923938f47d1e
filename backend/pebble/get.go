package pebble

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Get is part of backend.Store.
func (s *Store) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	var res backend.GetResult
	err := s.read(ctx, s.taskStripe(req.Key), func(v *view) error {
		rec, err := v.record(req.Key)
		if err != nil {
			return err
		}
		var task []byte
		if rec.TaskFor(req.Owner) {
			if task, err = v.task(req.Key, rec, req.Extent); err != nil {
				return err
			}
		}
		res, err = rec.Result(req.Owner, task, s.now())
		return err
	})
	return res, err
}

// read runs a read of the keys of one stripe, and returns when what it saw is durable.
func (s *Store) read(ctx context.Context, stripe int, fn func(*view) error) error {
	return s.readAny(ctx, s.currentView, fn, func() error { return s.settle(ctx, &s.stripes[stripe]) })
}

// readAny is read for any keys, of the view that open returns; settle waits for the durability of what fn saw.
func (s *Store) readAny(ctx context.Context, open func() (*view, error), fn func(*view) error, settle func() error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	v, err := open()
	if err != nil {
		return err
	}
	err = fn(v)
	if cerr := v.close(); err == nil {
		err = cerr
	}
	if serr := settle(); serr != nil {
		return serr
	}
	return err
}

// Heads is part of backend.Store.
func (s *Store) Heads(ctx context.Context, keys []backend.Key) ([]backend.Head, error) {
	heads := make([]backend.Head, len(keys))
	err := s.readAny(ctx, s.wideView, func(v *view) error {
		for i, k := range keys {
			rec, err := v.record(k)
			if err != nil {
				return err
			}
			heads[i] = rec.Head()
		}
		return nil
	}, func() error {
		stripes := make([]*stripe, len(keys))
		for i, k := range keys {
			stripes[i] = &s.stripes[s.taskStripe(k)]
		}
		return s.settle(ctx, stripes...)
	})
	if err != nil {
		return nil, err
	}
	return heads, nil
}
