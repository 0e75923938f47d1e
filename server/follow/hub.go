package follow

import (
	"context"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/a2a-taskstore/taskstore/backend"
)

const (
	// shards divides the waiting readers, so that the hints of many writers do not queue for one lock.
	shards = 64
	// pollBatch bounds the keys of one Heads call.
	pollBatch = 4096
	// burst is how many waiters of one key are woken at once. A thousand that run at once hold up everybody else, first of all
	// the writer that they owe the news, whose reply is then behind theirs.
	burst = 8
	// headStart is, per waiter, how long the many are not woken, so that the writer has its reply first. Serving them takes
	// some ten times as long.
	headStart = time.Microsecond
)

// Hub wakes those who wait for a log, or a task, to change. It is safe for concurrent use.
//
// A wake-up says only that something may have changed: whoever is woken reads, and waits again if there is nothing new.
// It never blocks a writer, and it holds nothing but one pending wake-up per subscription.
type Hub struct {
	store  backend.Store
	failed func(error)
	stop   func()
	seed   maphash.Seed
	parts  [shards]part
}

type part struct {
	mu     sync.Mutex
	topics map[backend.Key]*topic
}

// topic is a key that somebody waits for.
type topic struct {
	subs map[*Subscription]struct{}
	// head is what the latest poll found; not known before the first.
	head  backend.Head
	known bool
	// waking is set while a goroutine wakes the many waiters; again, if it has to begin once more.
	waking, again bool
	// changes counts the wake-ups. page is what was last read to be shared; held weakly, since a log at rest needs no memory.
	changes uint64
	page    weak.Pointer[sharedPage]
}

func (t *topic) share(page *sharedPage) { t.page = weak.Make(page) }

// NewHub returns a Hub that hears the store's hints until Close. failed is told when polling begins to fail.
func NewHub(store backend.Store, failed func(error)) *Hub {
	h := &Hub{store: store, failed: failed, seed: maphash.MakeSeed()}
	for i := range h.parts {
		h.parts[i].topics = make(map[backend.Key]*topic)
	}
	h.stop = store.Watch(h.wake)
	return h
}

// Close ends the hints. Subscriptions stay valid, but are not woken any more.
func (h *Hub) Close() { h.stop() }

// Subscription is one waiter's.
type Subscription struct {
	// C holds a value when the key may have changed since the last receive, or since Subscribe.
	C <-chan struct{}

	c   chan struct{}
	hub *Hub
	key backend.Key
}

// Subscribe starts to collect wake-ups for a key, whether or not anything is there. No change is missed by a caller that
// subscribes before its first read, and reads after each wake-up. The caller closes the Subscription.
func (h *Hub) Subscribe(key backend.Key) *Subscription {
	c := make(chan struct{}, 1)
	sub := &Subscription{C: c, c: c, hub: h, key: key}
	p := h.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.topics[key]
	if t == nil {
		t = &topic{subs: make(map[*Subscription]struct{})}
		p.topics[key] = t
	}
	t.subs[sub] = struct{}{}
	return sub
}

// Close ends the Subscription.
func (s *Subscription) Close() {
	p := s.hub.part(s.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.topics[s.key]
	delete(t.subs, s)
	if len(t.subs) == 0 {
		delete(p.topics, s.key)
	}
}

func (h *Hub) part(key backend.Key) *part {
	return &h.parts[maphash.Comparable(h.seed, key)%shards]
}

// wake is what the store calls after a change.
func (h *Hub) wake(key backend.Key) {
	p := h.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.topics[key]; t != nil {
		p.wake(t)
	}
}

// wake wakes the waiters, a few at once, many one burst after the other. The caller holds p.mu.
func (p *part) wake(t *topic) {
	t.changes++
	switch {
	case len(t.subs) <= burst:
		for sub := range t.subs {
			sub.wake()
		}
	case t.waking:
		t.again = true
	default:
		t.waking = true
		go p.wakeMany(t)
	}
}

// wakeMany wakes all who wait, until no change has come meanwhile. Who comes later has not read yet.
func (p *part) wakeMany(t *topic) {
	for {
		p.mu.Lock()
		many := len(t.subs)
		p.mu.Unlock()
		time.Sleep(time.Duration(many) * headStart)
		p.mu.Lock()
		t.again = false
		subs := slices.Collect(maps.Keys(t.subs))
		p.mu.Unlock()
		for n, sub := range subs {
			if n%burst == burst-1 {
				runtime.Gosched()
			}
			sub.wake()
		}
		p.mu.Lock()
		more := t.again
		t.waking = more
		p.mu.Unlock()
		if !more {
			return
		}
	}
}

func (s *Subscription) wake() {
	select {
	case s.c <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Poll asks the store for the heads of all keys that somebody waits for, as often as the store says that its hints may miss
// a change, until ctx ends. It returns at once if they never do.
func (h *Hub) Poll(ctx context.Context) {
	interval := h.store.PollInterval()
	if interval <= 0 {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := h.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			h.failed(err)
		}
		failing = err != nil
	}
}

func (h *Hub) poll(ctx context.Context) error {
	var keys []backend.Key
	for i := range h.parts {
		p := &h.parts[i]
		p.mu.Lock()
		for key := range p.topics {
			keys = append(keys, key)
		}
		p.mu.Unlock()
	}
	for len(keys) > 0 {
		batch := keys[:min(len(keys), pollBatch)]
		keys = keys[len(batch):]
		heads, err := h.store.Heads(ctx, batch)
		if err != nil {
			return err
		}
		for i, key := range batch {
			h.compare(key, heads[i])
		}
	}
	return nil
}

// compare wakes the waiters of a key whose head is not the one of the poll before. The first poll of a topic has nothing to
// compare with, and a change may already have been missed, so it wakes, too.
func (h *Hub) compare(key backend.Key, head backend.Head) {
	p := h.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.topics[key]
	if t == nil || (t.known && t.head == head) {
		return
	}
	t.head, t.known = head, true
	p.wake(t)
}
