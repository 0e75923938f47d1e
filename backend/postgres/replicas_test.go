package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/backendtest"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// spread is a Store whose calls go to several replicas.
type spread struct {
	replicas []*postgres.Store
	turn     atomic.Uint64
}

// next returns the replica for a call: in an order without a period, so that a test that repeats itself does not have all its
// writes at one replica and all its reads at another.
func (s *spread) next() *postgres.Store {
	return s.replicas[bits.OnesCount64(s.turn.Add(1))%len(s.replicas)]
}

func (s *spread) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	return s.next().Save(ctx, req)
}

func (s *spread) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	return s.next().Get(ctx, req)
}

func (s *spread) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	return s.next().List(ctx, req)
}

func (s *spread) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	return s.next().Delete(ctx, req)
}

func (s *spread) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	return s.next().ClaimKey(ctx, req)
}

func (s *spread) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	return s.next().ReleaseKey(ctx, req)
}

func (s *spread) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	return s.next().AppendEvents(ctx, req)
}

func (s *spread) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	return s.next().ReadLog(ctx, req)
}

func (s *spread) Heads(ctx context.Context, keys []backend.Key) ([]backend.Head, error) {
	return s.next().Heads(ctx, keys)
}

// Watch watches one replica, which hears of the others' writes.
func (s *spread) Watch(fn func(backend.Key)) (stop func()) { return s.replicas[0].Watch(fn) }

func (s *spread) PollInterval() time.Duration { return s.replicas[0].PollInterval() }

func (s *spread) Sweep(ctx context.Context, req *backend.SweepRequest) (backend.SweepResult, error) {
	return s.next().Sweep(ctx, req)
}

func (s *spread) Ping(ctx context.Context) error { return s.next().Ping(ctx) }

func (s *spread) Close() error {
	var errs []error
	for _, r := range s.replicas {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// replicas opens n stores on one database.
func replicas(tb testing.TB, n int, cfg postgres.Config) *spread {
	tb.Helper()
	s := &spread{}
	for range n {
		s.replicas = append(s.replicas, open(tb, cfg))
	}
	return s
}

// closing closes a store when the test ends.
func closing[S backend.Store](tb testing.TB, s S) S {
	tb.Helper()
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func TestConformanceOverTwoReplicas(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{
		Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
			return replicas(tb, 2, postgres.Config{DSN: database(tb), MaxConns: 5, Limits: opt.Limits, Now: opt.Now})
		},
	})
}

// TestConformanceOnTheDatabasesClock runs without a clock of the test's own, and without NOTIFY, over the statement mode
// that poolers need.
func TestConformanceOnTheDatabasesClock(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{
		Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
			return open(tb, postgres.Config{
				DSN: database(tb), MaxConns: 4, Limits: opt.Limits, PollOnly: true, StatementMode: postgres.Exec,
			})
		},
		Lacks: map[backendtest.Capability]string{backendtest.Clock: "the database's clock is in use"},
	})
}

func TestOneClaimAmongReplicas(t *testing.T) {
	t.Parallel()
	s := closing(t, replicas(t, 2, postgres.Config{DSN: database(t)}))
	const callers = 200
	results := make([]backend.ClaimResult, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var err error
			results[i], err = s.ClaimKey(t.Context(), &backend.ClaimRequest{
				Key:       backend.ClaimKey{Tenant: "t", Owner: backend.OwnerOf("o"), Key: "k"},
				MessageID: "m", TaskID: fmt.Sprint("task-", i), Token: fmt.Sprint("token-", i), Lease: time.Minute, TTL: time.Hour,
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var winner string
	for _, r := range results {
		if r.Outcome == backend.Claimed {
			if winner != "" {
				t.Fatal("two claims of one key")
			}
			winner = r.TaskID
		}
	}
	for i, r := range results {
		if r.TaskID != winner || (r.Outcome != backend.Claimed && r.Outcome != backend.Replay) {
			t.Errorf("claim %d: %+v, want the task of %s", i, r, winner)
		}
	}
}

func TestParallelAppendsOverReplicas(t *testing.T) {
	t.Parallel()
	s := closing(t, replicas(t, 2, postgres.Config{DSN: database(t)}))
	const callers = 64
	key := backend.Key{Tenant: "t", TaskID: "id"}
	var seen [callers + 1]atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			res, err := s.AppendEvents(t.Context(), &backend.AppendRequest{
				Key: key, Events: []document.Event{statusEvent(t, "id")}, WriteID: fmt.Sprint(i),
			})
			if err != nil || res.Replayed || res.FirstSeq < 1 || res.FirstSeq > callers {
				t.Errorf("append: %+v, %v", res, err)
				return
			}
			seen[res.FirstSeq].Add(1)
		})
	}
	wg.Wait()
	for seq := 1; seq <= callers; seq++ {
		if n := seen[seq].Load(); n != 1 {
			t.Errorf("position %d was given %d times", seq, n)
		}
	}
}

// save returns a request for a task with a state.
func save(tb testing.TB, id string, state pb.TaskState, pre backend.Precondition) *backend.SaveRequest {
	tb.Helper()
	return &backend.SaveRequest{
		Key: backend.Key{Tenant: "t", TaskID: id}, Owner: backend.OwnerOf("o"), Pre: pre, WriteID: "",
		Task:   parse(tb, &pb.Task{Id: id, ContextId: "c", Status: &pb.TaskStatus{State: state}}),
		Events: []backend.EventInput{{Event: statusEvent(tb, id)}},
	}
}

var anyState = backend.Precondition{Condition: backend.Any}

// TestCommitOrder holds the row of a task while two replicas append to it: readers see nothing of what waits, then all of
// it without a gap.
func TestCommitOrder(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	s := closing(t, replicas(t, 2, postgres.Config{DSN: dsn}))
	if _, err := s.Save(t.Context(), save(t, "id", pb.TaskState_TASK_STATE_WORKING, anyState)); err != nil {
		t.Fatal(err)
	}
	held := hold(t, dsn)

	const writers = 8
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			_, err := s.AppendEvents(t.Context(), &backend.AppendRequest{
				Key: backend.Key{Tenant: "t", TaskID: "id"}, Events: []document.Event{statusEvent(t, "id")},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	read := func() int64 {
		page, err := s.ReadLog(t.Context(), &backend.ReadLogRequest{Key: backend.Key{Tenant: "t", TaskID: "id"}, MaxEvents: 100})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range page.Events {
			if e.Seq != int64(i)+1 {
				t.Fatalf("event %d has seq %d", i, e.Seq)
			}
		}
		if int64(len(page.Events)) != page.Log.LastSeq {
			t.Fatalf("%d events, last seq %d", len(page.Events), page.Log.LastSeq)
		}
		return page.Log.LastSeq
	}
	// They wait in turns: each gives way for a while when the lock does not come. Within a transaction, pg_stat_activity
	// never changes, so another connection looks.
	waited := map[int32]bool{}
	onlooker, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer onlooker.Close(context.Background())
	waitFor(t, "the replicas to have waited for the row", func() bool {
		rows, err := onlooker.Query(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if err != nil {
			t.Fatal(err)
		}
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			waited[pid] = true
		}
		if last := read(); last != 1 {
			t.Fatalf("last seq %d while the row is held", last)
		}
		return len(waited) >= 2
	})
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for read() < 1+writers {
		if t.Context().Err() != nil {
			t.Fatal("the appends did not end")
		}
	}
	wg.Wait()
}

// waitFor polls until ok, for as long as a slow machine may need.
func waitFor(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("waited too long for %s", what)
		}
	}
}

// heard returns a channel that has a token after each hint of the task's key.
func heard(tb testing.TB, s backend.Store, id string) <-chan struct{} {
	tb.Helper()
	hint := make(chan struct{}, 1)
	tb.Cleanup(s.Watch(func(k backend.Key) {
		if k.TaskID == id {
			select {
			case hint <- struct{}{}:
			default:
			}
		}
	}))
	return hint
}

func TestHintsReachOtherReplicas(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	a, b := closing(t, open(t, postgres.Config{DSN: dsn})), closing(t, open(t, postgres.Config{DSN: dsn}))
	hint := heard(t, b, "id")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	listeners := func() (n int) {
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	arrives := func() {
		t.Helper()
		waitFor(t, "listeners", func() bool { return listeners() == 2 })
		if _, err := a.Save(t.Context(), save(t, "id", pb.TaskState_TASK_STATE_WORKING, anyState)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-hint:
		case <-time.After(10 * time.Second):
			t.Fatal("no hint")
		}
	}
	arrives()
	arrives()

	// Whatever is lost with the connection is found by polling, and the next listener hears again.
	_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.Save(t.Context(), save(t, "id", pb.TaskState_TASK_STATE_WORKING, anyState))
	if err != nil {
		t.Fatal(err)
	}
	heads, err := b.Heads(t.Context(), []backend.Key{{Tenant: "t", TaskID: "id"}})
	if err != nil || heads[0].Version != res.Version {
		t.Fatalf("heads %+v, %v, want version %d", heads, err, res.Version)
	}
	if b.PollInterval() <= 0 || b.PollInterval() > 250*time.Millisecond {
		t.Errorf("poll interval %v", b.PollInterval())
	}
	for len(hint) > 0 {
		<-hint
	}
	arrives()
}

// TestSilentListener: the listening connection stands, but nothing comes through it any more. It is found out and replaced.
func TestSilentListener(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, dsn)
	a, b := closing(t, open(t, postgres.Config{DSN: dsn})), closing(t, open(t, postgres.Config{DSN: p.DSN}))
	hint := heard(t, b, "id")
	saved := func() backend.SaveResult {
		t.Helper()
		res, err := a.Save(t.Context(), save(t, "id", working, anyState))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	hears := func() bool {
		saved()
		select {
		case <-hint:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}
	waitFor(t, "a hint", hears)
	if n := p.blackenListeners(); n != 1 {
		t.Fatalf("%d listening connections", n)
	}
	last := saved()
	heads, err := b.Heads(t.Context(), []backend.Key{{Tenant: "t", TaskID: "id"}}) // what the poller sees meanwhile
	if err != nil || heads[0].Version < last.Version {
		t.Fatalf("heads %+v, %v, want version %d", heads, err, last.Version)
	}
	for len(hint) > 0 {
		<-hint
	}
	waitFor(t, "a hint over a new connection", hears)
}
