package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

func TestOpenNeedsABound(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, -1} {
		if s, err := Open(Config{MaxBytes: n}); err == nil || s != nil {
			t.Errorf("a store of %d bytes was opened", n)
		}
	}
}

// calls are all methods that reach the store.
func calls(s *Store) map[string]func(context.Context) error {
	key := backend.Key{TaskID: "id"}
	claim := backend.ClaimKey{Key: "key"}
	return map[string]func(context.Context) error{
		"Save": func(ctx context.Context) error {
			_, err := s.Save(ctx, &backend.SaveRequest{Key: key, Task: taskOf("id", 1, 1, 1, 1)})
			return err
		},
		"Get": func(ctx context.Context) error { _, err := s.Get(ctx, &backend.GetRequest{Key: key}); return err },
		"List": func(ctx context.Context) error {
			_, err := s.List(ctx, &backend.ListRequest{Size: 1})
			return err
		},
		"Delete": func(ctx context.Context) error { _, err := s.Delete(ctx, &backend.DeleteRequest{Key: key}); return err },
		"ClaimKey": func(ctx context.Context) error {
			_, err := s.ClaimKey(ctx, &backend.ClaimRequest{Key: claim})
			return err
		},
		"ReleaseKey": func(ctx context.Context) error { return s.ReleaseKey(ctx, &backend.ReleaseRequest{Key: claim}) },
		"AppendEvents": func(ctx context.Context) error {
			_, err := s.AppendEvents(ctx, &backend.AppendRequest{Key: key, Events: []document.Event{eventOf(1)}})
			return err
		},
		"ReadLog": func(ctx context.Context) error {
			_, err := s.ReadLog(ctx, &backend.ReadLogRequest{Key: key})
			return err
		},
		"Heads": func(ctx context.Context) error { _, err := s.Heads(ctx, []backend.Key{key}); return err },
		"Sweep": func(ctx context.Context) error {
			_, err := s.Sweep(ctx, &backend.SweepRequest{Batch: 1})
			return err
		},
		"Ping": s.Ping,
	}
}

func TestNothingIsDoneAfterClose(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MaxBytes: 1 << 20})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, call := range calls(s) {
		if err := call(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

func TestNothingIsDoneInAContextThatEnded(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MaxBytes: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(s) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if used := s.memory.used.Load(); used != 0 {
		t.Errorf("%d bytes are in use", used)
	}
}

func TestWatchersHearOfCommitsOnly(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MaxBytes: 1 << 20, Now: newClock().Now})
	var heard []string
	stop := s.Watch(func(key backend.Key) {
		// What it is told of is there. It must not call the Store.
		if at := s.shard(key).read(key, backend.Extent{StateOnly: true}); at.row.LastSeq == 0 {
			t.Errorf("heard of %q before its event was there", key.TaskID)
		}
		heard = append(heard, key.TaskID)
	})
	insert := func(id, writeID string) {
		_, _ = s.Save(t.Context(), &backend.SaveRequest{
			Key: backend.Key{TaskID: id}, Task: taskOf(id, 1, 1, 1, 0), Events: snapshotAnd(), WriteID: writeID,
		})
	}
	insert("a", "w")
	insert("a", "w") // replayed
	insert("a", "v") // exists
	for range 2 {    // the second one is replayed
		_, _ = s.AppendEvents(t.Context(), &backend.AppendRequest{
			Key: backend.Key{TaskID: "b"}, Events: []document.Event{eventOf(1)}, WriteID: "w",
		})
	}
	stop()
	insert("c", "w")
	if want := []string{"a", "b"}; !slices.Equal(heard, want) {
		t.Errorf("heard of %q, want %q", heard, want)
	}
}

// A round of sweeps looks at everything, a batch at a time, and at nothing twice.
func TestSweepGoesThroughEverythingInBatches(t *testing.T) {
	t.Parallel()
	const n, batch = 500, 7
	now := newClock()
	s := open(t, Config{MaxBytes: 1 << 30, Now: now.Now})
	for i := range n {
		id := fmt.Sprint(i)
		must(s.Save(t.Context(), &backend.SaveRequest{Key: backend.Key{TaskID: id}, Task: taskOf(id, 1, 1, 1, 0)}))
		must(s.ClaimKey(t.Context(), &backend.ClaimRequest{Key: backend.ClaimKey{Key: id}, Token: "t"}))
	}
	var sum backend.SweepResult
	batches := 0
	for cursor := []byte(nil); batches == 0 || cursor != nil; batches++ {
		res := must(s.Sweep(t.Context(), &backend.SweepRequest{
			Retention: backend.Retention{Idle: 1}, Cursor: cursor, Batch: batch,
		}))
		if res.Tasks+res.Keys+res.Tombstones > batch {
			t.Fatalf("a batch of %d did %+v", batch, res)
		}
		now.advance(1)
		sum.Tasks, sum.Keys, cursor = sum.Tasks+res.Tasks, sum.Keys+res.Keys, res.Cursor
	}
	// The first batch may be too early by the clock for what it looks at.
	if sum.Tasks < n-batch || sum.Keys != n || batches < 2*n/batch {
		t.Errorf("%d tasks and %d keys in %d batches", sum.Tasks, sum.Keys, batches)
	}
	for _, cursor := range [][]byte{{}, {0}, {0xff}, {2 * shards, 1}, {0, 0xff}} {
		_, err := s.Sweep(t.Context(), &backend.SweepRequest{Cursor: cursor, Batch: 1})
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("cursor %x: %v", cursor, err)
		}
	}
}

// A write lets the order follow when it finds many notes, so no list pays for more than a bounded number.
func TestOrderFollowsWithoutLists(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MaxBytes: 1 << 30})
	for i := range 10_000 {
		id := fmt.Sprint(i)
		must(s.Save(t.Context(), &backend.SaveRequest{Key: backend.Key{TaskID: id}, Task: taskOf(id, 1, i, 1, 0)}))
	}
	for i := range s.records {
		if n := len(s.records[i].moved); n >= manyMoved {
			t.Errorf("%d notes are left in shard %d", n, i)
		}
	}
}

// Counting by rank is counting by walking.
func TestRanksCount(t *testing.T) {
	t.Parallel()
	var o order
	o.init()
	keys := make([][]byte, 0, 3000)
	for i := range cap(keys) {
		keys = append(keys, []byte(fmt.Sprintf("%05d", i*7919%100_000)))
		o.keys.Set(keys[i])
	}
	for _, bounds := range [][2]string{{"", "~"}, {"3", "4"}, {"00000", "00001"}, {"12345", "67890"}, {"x", "y"}} {
		want := 0
		for _, k := range keys {
			if string(k) >= bounds[0] && string(k) < bounds[1] {
				want++
			}
		}
		got := must(source{o.keys}.Count([]byte(bounds[0]), []byte(bounds[1])))
		if got != want {
			t.Errorf("%q: %d, want %d", bounds, got, want)
		}
	}
}
