package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var key = backend.Key{TaskID: "t"}

// testStore is a store with hooks.
type testStore struct {
	*memory.Store
	reads, headCalls, headKeys atomic.Int64
	// beforeRead, unless nil, runs before a read, which fails with its error; afterRead between a read and its return.
	beforeRead func(context.Context) error
	afterRead  func()
	// deaf makes Watch hear nothing; poll is the PollInterval.
	deaf bool
	poll time.Duration
	away atomic.Bool
}

func newStore(t *testing.T) *testStore {
	t.Helper()
	store, err := memory.Open(memory.Config{MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &testStore{Store: store}
}

func (s *testStore) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	s.reads.Add(1)
	if s.beforeRead != nil {
		if err := s.beforeRead(ctx); err != nil {
			return backend.LogPage{}, err
		}
	}
	page, err := s.Store.ReadLog(ctx, req)
	if s.afterRead != nil {
		s.afterRead()
	}
	return page, err
}

func (s *testStore) Heads(ctx context.Context, keys []backend.Key) ([]backend.Head, error) {
	s.headCalls.Add(1)
	s.headKeys.Add(int64(len(keys)))
	if s.away.Load() {
		return nil, errors.New("away")
	}
	return s.Store.Heads(ctx, keys)
}

func (s *testStore) Watch(fn func(backend.Key)) func() {
	if s.deaf {
		return func() {}
	}
	return s.Store.Watch(fn)
}

func (s *testStore) PollInterval() time.Duration { return s.poll }

func (s *testStore) append(t *testing.T, n int) {
	t.Helper()
	for range n {
		// A StreamResponse with an empty message.
		e, err := document.ParseEvent(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.AppendEvents(t.Context(), &backend.AppendRequest{Key: key, Events: []document.Event{e}}); err != nil {
			t.Fatal(err)
		}
	}
}

// complete saves a task that is in a terminal state.
func (s *testStore) complete(t *testing.T) {
	t.Helper()
	b, err := proto.Marshal(&pb.Task{Id: "t", ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_COMPLETED}})
	if err != nil {
		t.Fatal(err)
	}
	task, err := document.ParseTask(b)
	if err != nil {
		t.Fatal(err)
	}
	req := &backend.SaveRequest{Key: key, Task: task, Pre: backend.Precondition{Condition: backend.Any}}
	if _, err := s.Save(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func (s *testStore) reader(t *testing.T) *Reader {
	hub := NewHub(s, func(err error) { t.Errorf("polling: %v", err) })
	t.Cleanup(hub.Close)
	return &Reader{Store: s, Hub: hub, PageEvents: 2, PageBytes: 1 << 20}
}

// sink collects seqs. Each frame takes one value from pass, unless that is nil.
type sink struct {
	log  backend.LogInfo
	pass chan struct{}
	seqs []int64
	alwaysReady
}

// alwaysReady is of a Sink that has room for everything.
type alwaysReady struct{}

func (alwaysReady) Ready(context.Context) error { return nil }
func (alwaysReady) Rest()                       {}

func (s *sink) Opened(log backend.LogInfo, _ *backend.Stored) error {
	s.log = log
	return nil
}

func (s *sink) Events(events []backend.Event) error {
	if s.pass != nil {
		<-s.pass
	}
	for _, e := range events {
		s.seqs = append(s.seqs, e.Seq)
	}
	return nil
}

// follow reads in the background; the result comes when the read ends.
func (r *Reader) follow(ctx context.Context, s Sink, until Until) func() (int64, error) {
	type end struct {
		at  int64
		err error
	}
	done := make(chan end, 1)
	go func() {
		_, at, err := r.Read(ctx, &Request{Key: key, Until: until}, s)
		done <- end{at, err}
	}()
	return func() (int64, error) { e := <-done; return e.at, e.err }
}

func upTo(n int64) []int64 {
	var seqs []int64
	for i := range n {
		seqs = append(seqs, i+1)
	}
	return seqs
}

// TestWriteBetweenReadAndWait writes at the instant at which a wake-up could be missed: behind each read.
func TestWriteBetweenReadAndWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		left := 7
		store.afterRead = func() {
			if left > 0 {
				left--
				store.append(t, 1)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var s sink
		end := store.reader(t).follow(ctx, &s, Forever)
		synctest.Wait() // for ever, if it waits with something unread
		cancel()
		if at, err := end(); at != 7 || !errors.Is(err, context.Canceled) {
			t.Errorf("ended at %d: %v", at, err)
		}
		if !slices.Equal(s.seqs, upTo(7)) {
			t.Errorf("events %v", s.seqs)
		}
	})
}

// TestStalledReader shows that a reader which does not take what it is given asks for nothing more, and misses nothing.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		store.append(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		stalled := sink{pass: make(chan struct{})}
		end := store.reader(t).follow(ctx, &stalled, Forever)
		synctest.Wait()
		before := store.reads.Load()
		store.append(t, 1000)
		synctest.Wait()
		if got := store.reads.Load(); got != before {
			t.Errorf("%d more reads", got-before)
		}
		close(stalled.pass)
		synctest.Wait()
		if !slices.Equal(stalled.seqs, upTo(1001)) {
			t.Errorf("%d events", len(stalled.seqs))
		}
		cancel()
		if at, _ := end(); at != 1001 {
			t.Errorf("ended at %d", at)
		}
	})
}

// TestOvertaken shows what becomes of a reader whose place in the log is gone: because retention has dropped it, or because
// the log has been deleted, also when another log has begun under the id.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, store *testStore)
		want   backend.Reason
	}{
		"trimmed": {func(t *testing.T, store *testStore) {
			store.append(t, 10)
			if _, err := store.Sweep(t.Context(), &backend.SweepRequest{Retention: backend.Retention{LogEvents: 3}, Batch: 100}); err != nil {
				t.Fatal(err)
			}
		}, backend.ErrLogRange},
		"deleted": {func(t *testing.T, store *testStore) {
			if _, err := store.Delete(t.Context(), &backend.DeleteRequest{Key: key}); err != nil {
				t.Fatal(err)
			}
		}, backend.ErrTaskNotFound},
		"replaced": {func(t *testing.T, store *testStore) {
			if _, err := store.Delete(t.Context(), &backend.DeleteRequest{Key: key}); err != nil {
				t.Fatal(err)
			}
			store.append(t, 1)
		}, backend.ErrTaskNotFound},
		"replaced by a longer log": {func(t *testing.T, store *testStore) {
			store.append(t, 10)
			if _, err := store.Delete(t.Context(), &backend.DeleteRequest{Key: key}); err != nil {
				t.Fatal(err)
			}
			store.append(t, 10)
		}, backend.ErrTaskNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				store.append(t, 1)
				s := sink{pass: make(chan struct{})}
				end := store.reader(t).follow(t.Context(), &s, Forever)
				synctest.Wait()
				test.change(t, store)
				close(s.pass)
				at, err := end()
				if backend.ReasonOf(err) != test.want {
					t.Errorf("ended with %v, want %v", err, test.want)
				}
				if at != 1 || !slices.Equal(s.seqs, upTo(1)) {
					t.Errorf("at %d with events %v", at, s.seqs)
				}
				var e *backend.Error
				if errors.As(err, &e) && test.want == backend.ErrLogRange && (e.Meta["earliest_seq"] != "9" || e.Meta["last_seq"] != "11") {
					t.Errorf("metadata %v", e.Meta)
				}
			})
		})
	}
}

// TestPolling follows a log in a store whose hints never come.
func TestPolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		store.deaf, store.poll = true, time.Second
		ctx, cancel := context.WithCancel(t.Context())
		failures := 0
		hub := NewHub(store, func(error) { failures++ })
		go hub.Poll(ctx)
		reader := &Reader{Store: store, Hub: hub, PageEvents: 100, PageBytes: 1 << 20}
		const readers = 5
		var sinks [readers]sink
		var ends [readers]func() (int64, error)
		for i := range sinks {
			ends[i] = reader.follow(ctx, &sinks[i], Forever)
		}
		for n := int64(1); n <= 3; n++ {
			time.Sleep(store.poll)
			store.append(t, 1)
			time.Sleep(store.poll)
			synctest.Wait()
			for i := range sinks {
				if !slices.Equal(sinks[i].seqs, upTo(n)) {
					t.Fatalf("reader %d has %v a poll after event %d", i, sinks[i].seqs, n)
				}
			}
		}
		if calls, keys := store.headCalls.Load(), store.headKeys.Load(); calls != 6 || keys != calls {
			t.Errorf("%d calls asked for %d keys in 6 intervals, for one log", calls, keys)
		}

		reads := store.reads.Load()
		time.Sleep(100 * store.poll)
		synctest.Wait()
		if got := store.reads.Load(); got != reads {
			t.Errorf("%d reads while nothing happened", got-reads)
		}

		store.away.Store(true)
		time.Sleep(10 * store.poll)
		store.append(t, 1)
		store.away.Store(false)
		time.Sleep(store.poll)
		synctest.Wait()
		if failures != 1 {
			t.Errorf("told %d times of one outage", failures)
		}
		cancel()
		for i, end := range ends {
			if at, _ := end(); at != 4 {
				t.Errorf("reader %d ended at %d", i, at)
			}
		}
	})
}

// TestFirstPoll deletes a log between a reader's first read and the first poll, which finds nothing, as if nothing had
// ever been there.
func TestFirstPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		store.deaf, store.poll = true, time.Second
		store.append(t, 1)
		reader := store.reader(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go reader.Hub.Poll(ctx)
		end := reader.follow(ctx, &sink{}, Forever)
		synctest.Wait()
		if _, err := store.Delete(ctx, &backend.DeleteRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
		if _, err := end(); !errors.Is(err, backend.ErrTaskNotFound) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestHubForgets(t *testing.T) {
	t.Parallel()
	hub := newStore(t).reader(t).Hub
	var subs []*Subscription
	for _, id := range []string{"a", "b", "b"} {
		subs = append(subs, hub.Subscribe(backend.Key{TaskID: id}))
	}
	hub.wake(backend.Key{TaskID: "b"})
	hub.wake(backend.Key{TaskID: "b"})
	for i, want := range []int{0, 1, 1} {
		if got := len(subs[i].C); got != want {
			t.Errorf("subscription %d has %d wake-ups, want %d", i, got, want)
		}
	}
	for _, sub := range subs {
		sub.Close()
	}
	for i := range hub.parts {
		if n := len(hub.parts[i].topics); n != 0 {
			t.Errorf("%d topics left", n)
		}
	}
}

// errSink fails.
type errSink struct {
	err error
	alwaysReady
}

func (s errSink) Opened(backend.LogInfo, *backend.Stored) error { return nil }
func (s errSink) Events([]backend.Event) error                  { return s.err }

func TestSinkErrorEndsRead(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	store.append(t, 1)
	want := errors.New("broken pipe")
	_, at, err := store.reader(t).Read(t.Context(), &Request{Key: key, Until: Forever}, errSink{err: want})
	if !errors.Is(err, want) || at != 0 {
		t.Errorf("ended at %d: %v", at, err)
	}
}

// fullSink has no room for what it is given first, of each kind and each time.
type fullSink struct {
	sink
	opened, given, ready, rests int
	meanwhile                   func() // while the reader waits for room for the description
}

func (s *fullSink) Ready(context.Context) error {
	s.ready++
	if s.opened == 1 {
		s.meanwhile()
	}
	return nil
}

func (s *fullSink) Rest() { s.rests++ }

func (s *fullSink) Opened(log backend.LogInfo, task *backend.Stored) error {
	if s.opened++; s.opened == 1 {
		return ErrAgain
	}
	return s.sink.Opened(log, task)
}

func (s *fullSink) Events(events []backend.Event) error {
	if s.given++; s.given%2 == 1 {
		return ErrAgain
	}
	return s.sink.Events(events)
}

// TestReadAgain shows that nothing is lost or doubled where a Sink has no room, wherever the read starts: the first
// description that is handed on decides.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		start backend.Start
		want  string
	}{
		"first":    {backend.Start{}, "[1 2 3 4 5 6]"},
		"after":    {backend.Start{Kind: backend.AfterSeq, N: 2}, "[3 4 5 6]"},
		"from now": {backend.Start{Kind: backend.FromNow}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			store.append(t, 5)
			s := &fullSink{}
			s.meanwhile = func() { store.append(t, 1) }
			_, at, err := store.reader(t).Read(t.Context(), &Request{Key: key, Start: test.start, Until: Head}, s)
			if err != nil || at != 6 || s.log.LastSeq != 6 || fmt.Sprint(s.seqs) != test.want {
				t.Errorf("read %v up to %d, of a log up to %d: %v", s.seqs, at, s.log.LastSeq, err)
			}
			if s.rests != s.ready {
				t.Errorf("ready %d times, at rest %d times", s.ready, s.rests)
			}
		})
	}
}

// TestPositionBeforeTheFirstPage: a read that is cut off before it has read anything leaves its caller where it was.
func TestPositionBeforeTheFirstPage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		start backend.Start
		want  int64
	}{
		{backend.Start{}, 0},
		{backend.Start{Kind: backend.AfterSeq, N: 3}, 3},
		{backend.Start{Kind: backend.AfterVersion, N: 3}, -1},
		{backend.Start{Kind: backend.FromNow}, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newStore(t)
			store.append(t, 5)
			store.beforeRead = func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, at, err := store.reader(t).Read(ctx, &Request{Key: key, Until: Forever, Start: test.start}, &sink{})
			if at != test.want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("from %+v: cut off at %d, want %d: %v", test.start, at, test.want, err)
			}
		})
	}
}

// TestPositionOfAnIDToCome: who waits for an id goes on waiting for its first event.
func TestPositionOfAnIDToCome(t *testing.T) {
	t.Parallel()
	for _, start := range []backend.Start{{}, {Kind: backend.FromNow}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, at, err := newStore(t).reader(t).Read(ctx, &Request{Key: key, Until: Forever, Start: start}, &sink{})
			if at != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("from %+v: cut off at %d: %v", start, at, err)
			}
		})
	}
}
