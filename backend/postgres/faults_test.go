package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

const working = pb.TaskState_TASK_STATE_WORKING

// execute runs statements on a database.
func execute(tb testing.TB, dsn string, statements ...string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(tb.Context(), s); err != nil {
			tb.Fatalf("%s: %v", s, err)
		}
	}
}

// query returns the one value that a query yields.
func query[T any](tb testing.TB, dsn, sql string) T {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.Background())
	var v T
	if err := conn.QueryRow(tb.Context(), sql).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return v
}

// TestSerializationFailures: the database refuses two writes out of three with 40001, as a distributed engine does under
// contention, and no caller hears of it.
func TestSerializationFailures(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			execute(t, dsn, `CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					IF txid_current() % 3 <> 0 THEN
						RAISE 'try again' USING ERRCODE = '`+code+`';
					END IF;
					RETURN NULL;
				END $$`,
				`CREATE TRIGGER fail AFTER INSERT OR UPDATE ON a2a_taskstore.tasks FOR EACH STATEMENT EXECUTE FUNCTION public.fail()`)
			s := closing(t, replicas(t, 2, postgres.Config{DSN: dsn}))
			const callers, rounds = 8, 10
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					id := fmt.Sprint("id-", c)
					for n := int64(1); n <= rounds; n++ {
						pre := backend.Precondition{Condition: backend.AtVersion, Version: n - 1}
						if n == 1 {
							pre = backend.Precondition{}
						}
						res, err := s.Save(t.Context(), save(t, id, working, pre))
						if err != nil || res.Version != n || res.Seq != n || res.Replayed {
							t.Errorf("save %d of %s: %+v, %v", n, id, res, err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestOneFaultStaysAlone: a write that the database will never take fails, and those that share its batches do not.
func TestOneFaultStaysAlone(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	execute(t, dsn, `ALTER TABLE a2a_taskstore.tasks ADD CHECK (task_id <> 'bad'::bytea)`)
	s := closing(t, open(t, postgres.Config{DSN: dsn, Committers: 1}))
	var failed atomic.Int32
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Go(func() {
			id := fmt.Sprint("id-", c)
			if c%16 == 0 {
				id = "bad"
			}
			_, err := s.Save(t.Context(), save(t, id, working, anyState))
			switch {
			case id == "bad" && err == nil:
				t.Error("the bad one was taken")
			case id == "bad":
				failed.Add(1)
				if r := backend.ReasonOf(err); r != "" {
					t.Errorf("a fault has reason %s", r)
				}
			case err != nil:
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wg.Wait()
	if n := failed.Load(); n != 4 {
		t.Errorf("%d of 4 bad writes failed", n)
	}
}

// TestHeldRowDelaysNobodyElse: a transaction that does not end holds the row of one task; the others' writes go on.
func TestHeldRowDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	s := closing(t, open(t, postgres.Config{DSN: dsn, Committers: 1}))
	if _, err := s.Save(t.Context(), save(t, "held", working, anyState)); err != nil {
		t.Fatal(err)
	}
	held := hold(t, dsn)
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Save(t.Context(), save(t, "held", working, anyState))
		waiting <- err
	}()
	for i := range 200 {
		if _, err := s.Save(t.Context(), save(t, fmt.Sprint("other-", i), working, anyState)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-waiting:
		t.Fatalf("the held row was written: %v", err)
	default:
	}
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
}

// TestLeavingCallersLeaveNoSessions: callers in a hurry want to write a row that is held, one after the other. What they leave
// behind ends soon: their sessions do not add up at the server.
func TestLeavingCallersLeaveNoSessions(t *testing.T) {
	t.Parallel()
	const maxConns = 3
	dsn := database(t)
	s := closing(t, open(t, postgres.Config{DSN: dsn, Committers: 1, MaxConns: maxConns, PollOnly: true}))
	if _, err := s.Save(t.Context(), save(t, "held", working, anyState)); err != nil {
		t.Fatal(err)
	}
	held := hold(t, dsn)
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := s.Save(ctx, save(t, "held", working, anyState))
		cancel()
		if err == nil {
			t.Fatal("the held row was written")
		}
		n := query[int64](t, dsn, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'a2a-taskstore'`)
		if n > 2*maxConns {
			t.Fatalf("%d sessions, of at most %d", n, maxConns)
		}
	}
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), save(t, "held", working, anyState)); err != nil {
		t.Error(err)
	}
}

// hold returns a transaction that holds the rows of all tasks.
func hold(t *testing.T, dsn string) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	held, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), "SELECT FROM a2a_taskstore.tasks FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	return held
}
