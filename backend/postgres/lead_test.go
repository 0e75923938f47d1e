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

	c.enqueue(queued("b"))
	if c.lead(queued("a")) {
		t.Error("an op overtook one that waits")
	}
	c.take(time.Now())
	<-c.wake

	first, second := queued("a"), queued("a")
	if !c.lead(first) {
		t.Fatal("an op that found nobody before it was not carried out")
	}
	if len(c.wake) != 1 {
		t.Error("nobody is woken for the op that came back")
	}
	if c.lead(second) {
		t.Error("an op overtook the one that came back")
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

	// However many callers come and go, a database that fails is asked at intervals.
	c.turn.Unlock()
	c.take(time.Now())
	third := queued("b")
	if len(c.queue) != 0 || c.lead(third) {
		t.Error("a caller went ahead although the last attempt failed")
	}
	if !c.turn.TryLock() {
		t.Fatal("the turn was not given back")
	}
	c.ended(nil)
	c.turn.Unlock()
	if !c.lead(third) {
		t.Error("after an attempt that succeeded, a caller does not go ahead")
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

// leaver is a plan whose caller leaves while it is made, and that then has its result.
type leaver struct {
	leave context.CancelFunc
	err   error
}

func (p *leaver) asks() ask { return ask{key: backend.Key{TaskID: "id"}, row: true} }

func (p *leaver) guess(*memory) *facts { return nil }

func (p *leaver) plan(*facts) (outcome, error) {
	p.leave()
	return outcome{}, p.err
}

// TestSuccessIsReported: a caller that carries its own write out hears of its success, even if its time is over by then.
func TestSuccessIsReported(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{DSN: migrated(t), PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 30 {
		ctx, leave := context.WithCancel(t.Context())
		if err := s.do(ctx, &leaver{leave: leave}, 0, taskName(backend.Key{TaskID: "id"})); err != nil {
			t.Fatal(err)
		}
		ctx, leave = context.WithCancel(t.Context())
		refused := errors.New("refused")
		err := s.do(ctx, &leaver{leave: leave, err: refused}, 0, taskName(backend.Key{TaskID: "id"}))
		if !errors.Is(err, refused) && !errors.Is(err, context.Canceled) {
			t.Fatalf("a write that was refused: %v", err)
		}
	}
}
