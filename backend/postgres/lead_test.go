package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a2a-taskstore/taskstore/backend"
)

// unreachable is a committer whose attempts all fail at once.
func unreachable(t *testing.T) *committer {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "host=/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	return newCommitter(pool, &clock{}, func([]backend.Key) {})
}

// TestLead: a caller carries his op out himself only if nobody is before it, and one that comes back is in front, with the
// committer awake and nobody executing.
func TestLead(t *testing.T) {
	t.Parallel()
	c := unreachable(t)
	c.turn.Lock()
	if c.lead(queued("a")) {
		t.Error("an op was carried out beside another")
	}
	c.turn.Unlock()

	first, second := queued("a"), queued("a")
	if !c.lead(first) {
		t.Fatal("an op that found nobody before it was not carried out")
	}
	if len(c.wake) != 1 {
		t.Error("nobody is woken for the op that came back")
	}
	if c.lead(second) {
		t.Error("an op overtook another")
	}
	c.enqueue(second)
	if !c.turn.TryLock() {
		t.Fatal("the turn was not given back")
	}
	batch, _, _ := c.take(time.Now())
	if len(batch) != 1 || batch[0] != first {
		t.Errorf("took %d ops, want the one that came back", len(batch))
	}
	if first.cause == nil {
		t.Error("the op does not know why it failed")
	}
}

// TestLeftOpsAreGivenUp: whoever carries an op out, it ends, and a stopped committer with it.
func TestLeftOpsAreGivenUp(t *testing.T) {
	t.Parallel()
	c := unreachable(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.run()
	}()
	for range 100 {
		o := queued("a")
		ctx, leave := context.WithCancel(t.Context())
		o.ctx = ctx
		if !c.lead(o) {
			c.enqueue(o)
		}
		leave()
		select {
		case err := <-o.done:
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Fatalf("the op ended with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("an op was forgotten")
		}
	}
	c.stop()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the committer did not stop")
	}
}
