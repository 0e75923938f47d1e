package pebble

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/a2a-taskstore/taskstore/backend"
)

// watchers are the functions that hear of commits.
type watchers struct {
	mu   sync.Mutex
	next int
	fns  map[int]func(backend.Key)
	// list holds the same functions for notify, which takes no lock.
	list atomic.Pointer[[]func(backend.Key)]
}

func (w *watchers) add(fn func(backend.Key)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fns == nil {
		w.fns = map[int]func(backend.Key){}
	}
	id := w.next
	w.next++
	w.fns[id] = fn
	w.publish()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.fns, id)
		w.publish()
	}
}

func (w *watchers) publish() {
	list := slices.Collect(maps.Values(w.fns))
	w.list.Store(&list)
}

func (w *watchers) notify(keys []backend.Key) {
	list := w.list.Load()
	if list == nil {
		return
	}
	for _, k := range keys {
		for _, fn := range *list {
			fn(k)
		}
	}
}

// Watch is part of backend.Store. It misses nothing: fn is called once each commit is durable.
func (s *Store) Watch(fn func(backend.Key)) (stop func()) { return s.watchers.add(fn) }
