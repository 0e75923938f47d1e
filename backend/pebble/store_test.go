package pebble

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && backend.ReasonOf(err) != backend.ErrBroken {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// It is not parallel, so that nobody else's goroutines come and go.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := open(t, Config{Dir: "db", FS: vfs.NewMem(), MemTableBytes: 64 << 10})
	hs := newHistories(4)
	l := startLoad(t.Context(), s, 1, hs, 2)
	hs[0].await(100)
	if errs := l.end(); len(errs) > 0 {
		t.Error(errs)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Each history is a random program; its states are the model.
func TestWritesLeaveWhatTheModelSays(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: "db", FS: vfs.NewMem(), MemTableBytes: 256 << 10})
	for i, h := range newHistories(20) {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		for range 100 {
			if err := h.step(t.Context(), s, r); err != nil {
				t.Fatal(err)
			}
			if err := h.check(t.Context(), s, h.bounds()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestConcurrentWritersAndReaders(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: "db", FS: vfs.NewMem(), MemTableBytes: 256 << 10})
	hs := newHistories(16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := startLoad(ctx, s, 1, hs, 4)
	for range 5 {
		if err := s.Verify(ctx); err != nil {
			t.Error(err)
		}
	}
	if errs := l.end(); len(errs) > 0 {
		t.Fatal(errs)
	}
	checkAll(t, s, hs, allBounds(hs))
}

// Retention drops some events of an append, then the last one. What is kept of its write_id goes with that one, and that of
// a later append with the same write_id stays.
func TestTrimmedAppends(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: "db", FS: vfs.NewMem()})
	k := backend.Key{Tenant: "t", TaskID: "a"}
	r := newRand(1)
	req := &backend.AppendRequest{Key: k, WriteID: "w", Events: []document.Event{event(r, "1"), event(r, "2"), event(r, "3")}}
	for _, tt := range []struct {
		keep     int64
		replayed bool
		first    int64
	}{{3, true, 1}, {1, false, 4}, {0, false, 8}} {
		if tt.keep == 0 { // a younger event pushes the last one out
			other := &backend.AppendRequest{Key: k, Events: []document.Event{event(r, "4")}}
			if _, err := s.AppendEvents(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		} else if _, err := s.AppendEvents(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		sweep := &backend.SweepRequest{Retention: backend.Retention{LogEvents: max(tt.keep, 1)}, Batch: 10}
		if _, err := s.Sweep(t.Context(), sweep); err != nil {
			t.Fatal(err)
		}
		res, err := s.AppendEvents(t.Context(), req)
		if err != nil || res.Replayed != tt.replayed || res.FirstSeq != tt.first {
			t.Errorf("with %d events kept: %+v, %v", tt.keep, res, err)
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
