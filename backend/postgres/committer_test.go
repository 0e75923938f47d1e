package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
)

func queued(id string) *op {
	return &op{
		ctx: context.Background(), names: []name{taskName(backend.Key{TaskID: id})}, born: time.Now(), done: make(chan error, 1),
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a1, a2, b, c := queued("a"), queued("a"), queued("b"), queued("c")
	gone := queued("d")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	gone.ctx = ended
	held := queued("e")
	held.held, held.notBefore = 1, now.Add(time.Second)
	behindHeld := queued("e")
	big := queued("f")
	big.size = maxBatchBytes + 1

	q := newCommitter(nil, nil, nil)
	for _, o := range []*op{a1, a2, held, gone, b, behindHeld, big, c} {
		q.enqueue(o)
	}
	take := func(at time.Time, want ...*op) time.Duration {
		t.Helper()
		batch, later, _ := q.take(at)
		if !slices.Equal(batch, want) {
			t.Fatalf("took %d ops, want %d others", len(batch), len(want))
		}
		return later
	}
	take(now, a1, b, c) // each id once, and nothing that makes the batch too large
	if err := <-gone.done; !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("the op that nobody waits for: %v", err)
	}
	take(now, a2)
	take(now, big)
	if later := take(now); later != time.Second {
		t.Errorf("wait of %v for the held one", later)
	}
	q.enqueue(b)
	take(now.Add(time.Second), held) // alone
	take(now.Add(time.Second), behindHeld, b)

	q.enqueue(a1)
	q.stop()
	if _, _, closed := q.take(now); !closed {
		t.Error("an empty queue does not end a stopped committer")
	}
}

// TestTakeKeepsOrder: whatever comes, batches are bounded, hold each id once, and take each id's ops in order.
func TestTakeKeepsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := newCommitter(nil, nil, nil)
		var all []*op
		for range rapid.IntRange(0, 400).Draw(t, "ops") {
			o := queued(fmt.Sprint(rapid.IntRange(0, 200).Draw(t, "id")))
			o.size = rapid.SampledFrom([]int{0, 1, maxBatchBytes / 3, maxBatchBytes, 2 * maxBatchBytes}).Draw(t, "size")
			all = append(all, o)
			q.enqueue(o)
		}
		var taken []*op
		for {
			batch, _, _ := q.take(time.Now())
			if len(batch) == 0 {
				break
			}
			size := 0
			ids := map[name]bool{}
			for _, o := range batch {
				size += o.size
				if ids[o.names[0]] {
					t.Fatalf("an id twice in a batch")
				}
				ids[o.names[0]] = true
			}
			if len(batch) > maxBatchOps || (len(batch) > 1 && size > maxBatchBytes) {
				t.Fatalf("a batch of %d ops, %d bytes", len(batch), size)
			}
			taken = append(taken, batch...)
		}
		if len(taken) != len(all) {
			t.Fatalf("took %d of %d", len(taken), len(all))
		}
		for id := range 200 {
			of := func(ops []*op) []*op {
				return slices.DeleteFunc(slices.Clone(ops), func(o *op) bool { return o.names[0].id != fmt.Sprint(id) })
			}
			if !slices.Equal(of(taken), of(all)) {
				t.Fatalf("the ops of an id changed their order")
			}
		}
	})
}
