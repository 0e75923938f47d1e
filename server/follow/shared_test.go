package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// TestReadersShareReads has many readers follow one log: an event is read for all of them, and not by each.
func TestReadersShareReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		reader := store.reader(t)
		ctx, cancel := context.WithCancel(t.Context())
		const readers, events = 20 * burst, 10
		var sinks [readers]sink
		var ends [readers]func() (int64, error)
		for i := range sinks {
			ends[i] = reader.follow(ctx, &sinks[i], Forever)
		}
		synctest.Wait()
		before := store.reads.Load()
		for range events {
			store.append(t, 1)
			time.Sleep(time.Second)
		}
		// The first event is the first that they see of the log: each reads it. Later ones may be read again when memory has
		// been collected in between.
		if got := store.reads.Load() - before; got > readers+10*events {
			t.Errorf("%d readers of %d events read %d times", readers, events, got)
		}
		cancel()
		for i := range sinks {
			if at, _ := ends[i](); at != events || !slices.Equal(sinks[i].seqs, upTo(events)) {
				t.Errorf("reader %d ended at %d, with %v", i, at, sinks[i].seqs)
			}
		}
	})
}

// TestSharedReadFails ends the reader that reads for the others while it does.
func TestSharedReadFails(t *testing.T) {
	t.Parallel()
	type number struct{}
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		store.append(t, 1)
		reader := store.reader(t)
		const readers = burst
		var sinks [readers]sink
		var ends [readers]func() (int64, error)
		var cancels [readers]context.CancelFunc
		for i := range sinks {
			var ctx context.Context
			ctx, cancels[i] = context.WithCancel(context.WithValue(t.Context(), number{}, i))
			ends[i] = reader.follow(ctx, &sinks[i], Forever)
		}
		synctest.Wait()

		first := make(chan int, 1)
		store.beforeRead = func(ctx context.Context) error {
			select {
			case first <- ctx.Value(number{}).(int):
				<-ctx.Done()
				return ctx.Err()
			default:
				return nil
			}
		}
		store.append(t, 1)
		synctest.Wait()
		leader := <-first
		first <- -1
		cancels[leader]()
		synctest.Wait()
		for i := range ends {
			want := int64(2)
			if i == leader {
				want = 1
			}
			if !slices.Equal(sinks[i].seqs, upTo(want)) {
				t.Errorf("reader %d has %v; reader %d read for all", i, sinks[i].seqs, leader)
			}
			cancels[i]()
			if at, err := ends[i](); at != want || !errors.Is(err, context.Canceled) {
				t.Errorf("reader %d ended at %d: %v", i, at, err)
			}
		}
	})
}

// TestReadersOfTwoLogs follows the log that has begun under an id beside readers of the one before, of which no hint has said
// yet that it is gone.
func TestReadersOfTwoLogs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		store.deaf, store.poll = true, time.Hour
		store.append(t, 1)
		reader := store.reader(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var sinks [4]sink
		var ends [4]func() (int64, error)
		for i := range 2 {
			ends[i] = reader.follow(ctx, &sinks[i], Forever)
		}
		synctest.Wait()
		store.append(t, 1)
		reader.Hub.wake(key)
		synctest.Wait() // event 2 has been shared
		if _, err := store.Delete(ctx, &backend.DeleteRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
		store.append(t, 4)
		for i := 2; i < 4; i++ {
			ends[i] = reader.follow(ctx, &sinks[i], Forever)
		}
		synctest.Wait()
		for i := 2; i < 4; i++ {
			if !slices.Equal(sinks[i].seqs, []int64{3, 4, 5, 6}) { // its seqs go on
				t.Errorf("a reader of the second log has %v", sinks[i].seqs)
			}
		}
		reader.Hub.wake(key)
		for i := range 2 {
			if at, err := ends[i](); at != 2 || !errors.Is(err, backend.ErrTaskNotFound) {
				t.Errorf("a reader of the first log ended at %d: %v", at, err)
			}
		}
	})
}

// TestShare is the decision who reads for whom.
func TestShare(t *testing.T) {
	t.Parallel()
	const log = 7
	page := func(last int64, seqs ...int64) backend.LogPage {
		p := backend.LogPage{Log: backend.LogInfo{Incarnation: log, LastSeq: last}}
		for _, seq := range seqs {
			p.Events = append(p.Events, backend.Event{Seq: seq})
		}
		return p
	}
	alone, theirs, mine := "alone", "theirs", "mine"
	for name, test := range map[string]struct {
		shared sharedPage // behind 10
		unread bool
		ask    backend.ReadLogRequest
		after  int64
		want   string
		seqs   []int64
	}{
		"where it starts":       {sharedPage{page: page(12, 11, 12)}, false, backend.ReadLogRequest{}, 10, theirs, []int64{11, 12}},
		"within":                {sharedPage{page: page(12, 11, 12)}, false, backend.ReadLogRequest{}, 11, theirs, []int64{12}},
		"at its end":            {sharedPage{page: page(12, 11, 12)}, false, backend.ReadLogRequest{}, 12, theirs, nil},
		"at its end, with more": {sharedPage{page: page(13, 11, 12)}, false, backend.ReadLogRequest{}, 12, mine, nil},
		"behind its end":        {sharedPage{page: page(12, 11, 12)}, false, backend.ReadLogRequest{}, 13, mine, nil},
		"before":                {sharedPage{page: page(12, 11, 12)}, false, backend.ReadLogRequest{}, 9, alone, nil},
		"empty":                 {sharedPage{page: page(10)}, false, backend.ReadLogRequest{}, 10, theirs, nil},
		"behind an empty one":   {sharedPage{page: page(10)}, false, backend.ReadLogRequest{}, 11, mine, nil},
		"between gaps":          {sharedPage{page: page(20, 15, 20)}, false, backend.ReadLogRequest{}, 12, theirs, []int64{15, 20}},
		"while it is read":      {sharedPage{}, true, backend.ReadLogRequest{}, 12, theirs, nil},
		"failed":                {sharedPage{page: page(12, 11, 12), err: errUnread}, false, backend.ReadLogRequest{}, 10, mine, nil},
		"before a change":       {sharedPage{page: page(12, 11, 12), changes: 1}, false, backend.ReadLogRequest{}, 10, mine, nil},
		"another owner":         {sharedPage{page: page(12, 11, 12)}, false, backend.ReadLogRequest{Owner: backend.OwnerOf("x")}, 10, mine, nil},
		"another log":           {sharedPage{page: page(12, 11, 12), log: 8}, false, backend.ReadLogRequest{}, 10, mine, nil},
		"of another log":        {sharedPage{page: backend.LogPage{}}, false, backend.ReadLogRequest{}, 10, mine, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newStore(t).reader(t).Hub
			sub, other := hub.Subscribe(key), hub.Subscribe(key)
			defer sub.Close()
			shared := &test.shared
			shared.after, shared.done = 10, make(chan struct{})
			if shared.log == 0 {
				shared.log = log
			} else {
				shared.page.Log.Incarnation = shared.log
			}
			if !test.unread {
				close(shared.done)
			}
			hub.part(key).topics[key].share(shared)
			test.ask.Start = backend.Start{Kind: backend.AfterSeq, N: test.after}
			got, isMine := sub.share(&test.ask, log)
			switch {
			case got == nil && test.want == alone, got == shared && !isMine && test.want == theirs:
			case got != nil && got != shared && isMine && test.want == mine && got.after == test.after:
			default:
				t.Fatalf("got page %v, mine: %v; want %s", got, isMine, test.want)
			}
			if test.want == theirs && !test.unread {
				var seqs []int64
				for _, e := range shared.behind(test.after).Events {
					seqs = append(seqs, e.Seq)
				}
				if !slices.Equal(seqs, test.seqs) {
					t.Errorf("events %v, want %v", seqs, test.seqs)
				}
			}
			other.Close()
			if got, _ := sub.share(&test.ask, log); got != nil {
				t.Error("the only reader shares")
			}
		})
	}
}

// TestReadersAtOddPaces has readers of random paces follow a log that grows, is trimmed, goes and comes again, with hints or
// with polling only. Each must see one log from the start, without a gap, a double, or an event left out while it waits.
func TestReadersAtOddPaces(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			store := newStore(t)
			store.deaf, store.poll = seed%2 == 1, time.Second
			reader := store.reader(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if store.deaf {
				go reader.Hub.Poll(ctx)
			}
			const readers = 2 * burst
			var sinks [readers]sink
			var ends [readers]func() (int64, error)
			store.append(t, 1)
			for i := range sinks {
				pass := make(chan struct{})
				sinks[i].pass = pass
				pace := time.Duration(random.IntN(700)) * time.Millisecond
				go func() {
					for {
						time.Sleep(pace)
						select {
						case pass <- struct{}{}:
						case <-ctx.Done():
							close(pass)
							return
						}
					}
				}()
				ends[i] = reader.follow(ctx, &sinks[i], Forever)
			}
			last := int64(1)
			for range 40 {
				n := random.IntN(5)
				store.append(t, n)
				last += int64(n)
				time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			for i := range sinks {
				if !slices.Equal(sinks[i].seqs, upTo(last)) {
					t.Errorf("seed %d: reader %d waits with %v of %d", seed, i, sinks[i].seqs, last)
				}
			}
			if _, err := store.Delete(ctx, &backend.DeleteRequest{Key: key}); err != nil {
				t.Fatal(err)
			}
			store.append(t, random.IntN(2*int(last)))
			for i := range ends {
				if at, err := ends[i](); at != last || !errors.Is(err, backend.ErrTaskNotFound) {
					t.Errorf("seed %d: reader %d ended at %d of %d: %v", seed, i, at, last, err)
				}
			}
		})
	}
}
