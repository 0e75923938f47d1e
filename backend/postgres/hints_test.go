package postgres

import (
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// TestAlone: a replica keeps its hints to itself only while it hears itself and nobody else, for a while.
func TestAlone(t *testing.T) {
	t.Parallel()
	h := newHints(nil, nil, nil, nil)
	now := time.Unix(0, 0)
	tick := func(want bool, heard ...uint64) {
		t.Helper()
		for _, sender := range heard {
			h.meet(sender, now)
		}
		now = now.Add(greetInterval)
		h.lookAround(now)
		if got := h.alone.Load(); got != want {
			t.Errorf("at %v: alone is %v", now.Sub(time.Unix(0, 0)), got)
		}
	}
	own, other := h.sender, h.sender+1
	tick(false)
	tick(false) // deaf
	tick(false, own)
	tick(true, own)
	tick(true, own)
	tick(false) // deaf again
	tick(false, own)
	tick(true, own)

	h.meet(other, now)
	if h.alone.Load() {
		t.Error("alone beside another")
	}
	if len(h.greet) != 1 {
		t.Error("the newcomer was not greeted")
	}
	<-h.greet
	tick(false, own, other)
	if len(h.greet) != 0 {
		t.Error("who is known was greeted again")
	}
	for range peerLifetime / greetInterval {
		tick(false, own)
	}
	tick(true, own)

	h.add([]backend.Key{{Tenant: "t", TaskID: "id"}})
	if len(h.pending) != 0 || len(h.wake) != 0 {
		t.Error("somebody alone tells others")
	}
}

// TestCompanyIsNoticed: a replica that was alone tells a second one of its writes as soon as that listens.
func TestCompanyIsNoticed(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	open := func() *Store {
		s, err := Open(t.Context(), Config{DSN: dsn, PollInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a := open()
	a.hints.alone.Store(true)
	b := open()
	knows := func(s *Store) bool {
		s.hints.mu.Lock()
		defer s.hints.mu.Unlock()
		return len(s.hints.peers) > 0
	}
	for _, s := range []*Store{a, b} {
		for deadline := time.Now().Add(10 * time.Second); !knows(s); {
			if time.Now().After(deadline) {
				t.Fatal("the replicas have not met")
			}
			<-time.After(time.Millisecond)
		}
	}

	key := backend.Key{Tenant: "t", TaskID: "id"}
	heard := make(chan backend.Key, 1)
	defer b.Watch(func(k backend.Key) { heard <- k })()
	if _, err := a.AppendEvents(t.Context(), &backend.AppendRequest{Key: key, Events: make([]document.Event, 1)}); err != nil {
		t.Fatal(err)
	}
	select {
	case k := <-heard:
		if k != key {
			t.Errorf("heard of %v", k)
		}
	case <-time.After(10 * time.Second):
		t.Error("the second replica heard nothing")
	}
}
