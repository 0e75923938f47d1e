package backend

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Watchers are the functions that Store.Watch was given. Engines keep one and call Notify after each commit. The zero value
// is ready, and all methods are safe for concurrent use.
type Watchers struct {
	mu  sync.Mutex
	all atomic.Pointer[[]*watcher] // never changed in place, so that Notify takes no lock
}

type watcher struct{ fn func(Key) }

// Add adds fn until stop is called. A Notify that runs meanwhile may still call it.
func (w *Watchers) Add(fn func(Key)) (stop func()) {
	added := &watcher{fn}
	w.change(func(all []*watcher) []*watcher { return append(all, added) })
	return func() {
		w.change(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(all, func(other *watcher) bool { return other == added })
		})
	}
}

func (w *Watchers) change(change func([]*watcher) []*watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var next []*watcher
	if all := w.all.Load(); all != nil {
		next = slices.Clone(*all)
	}
	next = change(next)
	w.all.Store(&next)
}

// Notify calls each function with each key.
func (w *Watchers) Notify(keys ...Key) {
	all := w.all.Load()
	if all == nil {
		return
	}
	for _, watcher := range *all {
		for _, key := range keys {
			watcher.fn(key)
		}
	}
}
