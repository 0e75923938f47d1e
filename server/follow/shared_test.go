package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

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
	const (
		alone, theirs, mine = "alone", "theirs", "mine"
		inFlight            = -1 // as the last seq of the page
	)
	failed := sharedPage{page: page(12, 11, 12), err: errUnread}
	for name, test := range map[string]struct {
		shared sharedPage // behind 10
		age    time.Duration
		ask    backend.ReadLogRequest
		seen   backend.LogInfo
		after  int64
		want   string
		seqs   []int64
	}{
		"where it starts":         {shared: sharedPage{page: page(12, 11, 12)}, after: 10, want: theirs, seqs: []int64{11, 12}},
		"within":                  {shared: sharedPage{page: page(12, 11, 12)}, after: 11, want: theirs, seqs: []int64{12}},
		"at its end":              {shared: sharedPage{page: page(12, 11, 12)}, after: 12, want: theirs},
		"at its end, with more":   {shared: sharedPage{page: page(13, 11, 12)}, after: 12, want: mine},
		"behind its end":          {shared: sharedPage{page: page(12, 11, 12)}, after: 13, want: mine},
		"before":                  {shared: sharedPage{page: page(12, 11, 12)}, after: 9, want: alone},
		"empty":                   {shared: sharedPage{page: page(10)}, after: 10, want: theirs},
		"behind an empty one":     {shared: sharedPage{page: page(10)}, after: 11, want: mine},
		"between gaps":            {shared: sharedPage{page: page(20, 15, 20)}, after: 12, want: theirs, seqs: []int64{15, 20}},
		"as old as what was seen": {shared: sharedPage{page: page(12, 11, 12)}, seen: backend.LogInfo{LastSeq: 12}, after: 11, want: theirs, seqs: []int64{12}},
		"older than what was seen, in seq": {
			shared: sharedPage{page: page(12, 11, 12)}, seen: backend.LogInfo{LastSeq: 13}, after: 11, want: mine,
		},
		"older than what was seen, in version": {
			shared: sharedPage{page: page(12, 11, 12)}, seen: backend.LogInfo{LastSeq: 12, Version: 1}, after: 11, want: mine,
		},
		"from before a change": {shared: sharedPage{page: page(12, 11, 12), changes: 1}, after: 10, want: mine},
		"another owner": {
			shared: sharedPage{page: page(12, 11, 12)}, ask: backend.ReadLogRequest{Owner: backend.OwnerOf("x")}, after: 10, want: mine,
		},
		"another log":         {shared: sharedPage{page: page(12, 11, 12), log: log + 1}, after: 10, want: mine},
		"of another log":      {shared: sharedPage{page: backend.LogPage{}}, after: 10, want: mine},
		"old":                 {shared: sharedPage{page: page(12, 11, 12)}, age: shareFor, after: 10, want: mine},
		"while it is read":    {shared: sharedPage{page: page(inFlight)}, after: 12, want: theirs},
		"while it hangs":      {shared: sharedPage{page: page(inFlight)}, age: shareFor, after: 12, want: alone},
		"failed":              {shared: failed, after: 10, want: alone},
		"failed, a while ago": {shared: failed, age: shareFor, after: 10, want: mine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := newStore(t).reader(t).Hub
				sub, other := hub.Subscribe(key), hub.Subscribe(key)
				defer sub.Close()
				shared := &test.shared
				shared.after, shared.done, shared.until = 10, make(chan struct{}), time.Now().Add(shareFor)
				if shared.log == 0 {
					shared.log = log
				} else {
					shared.page.Log.Incarnation = shared.log
				}
				flying := shared.page.Log.LastSeq == inFlight
				if !flying {
					close(shared.done)
				}
				time.Sleep(test.age)
				hub.part(key).topics[key].share(shared)
				test.ask.Start = backend.Start{Kind: backend.AfterSeq, N: test.after}
				test.seen.Incarnation = log
				got, isMine := sub.share(&test.ask, &test.seen)
				switch {
				case got == nil && test.want == alone, got == shared && !isMine && test.want == theirs:
				case got != nil && got != shared && isMine && test.want == mine && got.after == test.after && !got.read():
				default:
					t.Fatalf("got page %v, mine: %v; want %s", got, isMine, test.want)
				}
				if test.want == theirs && !flying {
					var seqs []int64
					for _, e := range shared.behind(test.after).Events {
						seqs = append(seqs, e.Seq)
					}
					if !slices.Equal(seqs, test.seqs) {
						t.Errorf("events %v, want %v", seqs, test.seqs)
					}
				}
				other.Close()
				if got, _ := sub.share(&test.ask, &test.seen); got != nil {
					t.Error("the only reader shares")
				}
			})
		})
	}
}

// TestNoOlderPage gives a reader that has seen more than what the others share, as the hint of it has not come: it must not
// wait with less than it has seen.
func TestNoOlderPage(t *testing.T) {
	t.Parallel()
	appends := func(t *testing.T, s *testStore) { s.append(t, 1) }
	for name, test := range map[string]struct {
		until      Until
		pageEvents int
		sink       againSink
		after      int64
		change     func(t *testing.T, s *testStore)
		meanwhile  bool // the change comes when the reader has had a page
		want       []int64
	}{
		"the first of its pages says so":   {until: Forever, pageEvents: 1, change: appends, want: upTo(4)},
		"the second says so":               {until: Forever, pageEvents: 1, change: appends, meanwhile: true, want: upTo(4)},
		"the page that it had no room for": {until: Forever, pageEvents: 512, sink: againSink{refuse: true}, after: 2, change: appends, want: []int64{3, 4}},
		"a final seq":                      {until: Terminal, pageEvents: 1, change: func(t *testing.T, s *testStore) { s.complete(t) }, want: upTo(3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				store.deaf, store.poll = true, time.Hour
				store.append(t, 1)
				reader := store.reader(t)
				reader.PageEvents = test.pageEvents
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var others [2]sink
				for i := range others {
					reader.follow(ctx, &others[i], Forever)
				}
				synctest.Wait()
				for range 2 {
					store.append(t, 1)
					reader.Hub.wake(key)
					synctest.Wait() // it has been shared
				}
				if !test.meanwhile {
					test.change(t, store)
				}
				pass := make(chan struct{})
				test.sink.pass = pass
				ended := false
				go func() {
					start := backend.Start{Kind: backend.AfterSeq, N: test.after}
					_, _, err := reader.Read(ctx, &Request{Key: key, Start: start, Until: test.until}, &test.sink)
					ended = err == nil
				}()
				synctest.Wait()
				if test.meanwhile {
					test.change(t, store)
				}
				close(pass)
				synctest.Wait()
				if !slices.Equal(test.sink.seqs, test.want) || ended != (test.until == Terminal) {
					t.Errorf("opened with %+v, the reader has %v of %v; ended: %v", test.sink.log, test.sink.seqs, test.want, ended)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// againSink has no room for what it is given first, if it is to refuse.
type againSink struct {
	sink
	refuse bool
}

func (s *againSink) Events(events []backend.Event) error {
	if s.refuse {
		s.refuse = false
		return ErrAgain
	}
	return s.sink.Events(events)
}

// TestSharedReadHangs has the one read that is for all not come back: the others hold nothing while they wait, and not for long.
func TestSharedReadHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		store.append(t, 1)
		reader := store.reader(t)
		ctx, cancel := context.WithCancel(t.Context())
		const readers = 3 * burst
		room := make(chan struct{}, 2)
		var sinks [readers]roomSink
		var ends [readers]func() (int64, error)
		for i := range sinks {
			sinks[i].room = room
			ends[i] = reader.follow(ctx, &sinks[i], Forever)
		}
		synctest.Wait()
		first := make(chan struct{}, 1)
		store.beforeRead = func(ctx context.Context) error {
			select {
			case first <- struct{}{}:
				<-ctx.Done()
				return ctx.Err()
			default:
				return nil
			}
		}
		store.append(t, 1)
		time.Sleep(shareFor / 2)
		if len(room) != 1 {
			t.Errorf("%d hold what others need, for one read", len(room))
		}
		time.Sleep(shareFor)
		synctest.Wait()
		have := 0
		for i := range sinks {
			if slices.Equal(sinks[i].seqs, upTo(2)) {
				have++
			}
		}
		if have != readers-1 {
			t.Errorf("%d of %d readers have the event", have, readers)
		}
		cancel()
		for i := range ends {
			if _, err := ends[i](); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if len(room) != 0 {
			t.Errorf("%d still hold what others need", len(room))
		}
	})
}

// roomSink has room for few at once.
type roomSink struct {
	sink
	room chan struct{}
	in   bool
}

func (s *roomSink) Ready(ctx context.Context) error {
	select {
	case s.room <- struct{}{}:
		s.in = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *roomSink) Events(events []backend.Event) error {
	if !s.in {
		return errors.New("handed on without room")
	}
	return s.sink.Events(events)
}

func (s *roomSink) Rest() {
	if s.in {
		s.in = false
		<-s.room
	}
}

// TestSharedReadPanics: the others go on.
func TestSharedReadPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		store.append(t, 1)
		reader := store.reader(t)
		ctx, cancel := context.WithCancel(t.Context())
		var sinks [4]sink
		var panicked atomic.Int64
		for i := range sinks {
			go func() {
				defer func() {
					if recover() != nil {
						panicked.Add(1)
					}
				}()
				_, _, _ = reader.Read(ctx, &Request{Key: key, Until: Forever}, &sinks[i])
			}()
		}
		synctest.Wait()
		first := make(chan struct{}, 1)
		store.beforeRead = func(context.Context) error {
			select {
			case first <- struct{}{}:
				time.Sleep(shareFor / 2) // the others wait by then
				panic("in the store")
			default:
				return nil
			}
		}
		store.append(t, 1)
		time.Sleep(shareFor)
		synctest.Wait()
		have := 0
		for i := range sinks {
			if slices.Equal(sinks[i].seqs, upTo(2)) {
				have++
			}
		}
		if panicked.Load() != 1 || have != len(sinks)-1 {
			t.Errorf("%d panicked, %d have the event", panicked.Load(), have)
		}
		cancel()
		synctest.Wait()
	})
}

// TestLogAtRestKeepsNoPage: what was shared is nobody's once everyone has it.
func TestLogAtRestKeepsNoPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		reader := store.reader(t)
		ctx, cancel := context.WithCancel(t.Context())
		var sinks [4]sink
		for i := range sinks {
			reader.follow(ctx, &sinks[i], Forever)
		}
		synctest.Wait()
		for range 5 {
			store.append(t, 1)
			synctest.Wait()
		}
		runtime.GC()
		if page := reader.Hub.part(key).topics[key].page; page == (weak.Pointer[sharedPage]{}) || page.Value() != nil {
			t.Errorf("page %v, %v", page, page.Value())
		}
		cancel()
		synctest.Wait()
	})
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
