package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
)

// server starts a server of the test's own, with a migrated database.
func server(tb testing.TB, opt pgtest.Options) *pgtest.Server {
	tb.Helper()
	s := pgtest.Start(tb, opt)
	if _, err := postgres.Migrate(tb.Context(), s.DSN("postgres"), slog.New(slog.DiscardHandler)); err != nil {
		tb.Fatal(err)
	}
	return s
}

// envLong names a variable that, when it is set, has the tests under load run as long as an operator would watch them, some
// minutes in all, instead of some seconds.
const envLong = "TASKSTORE_LONG"

// lasting returns how long a test puts a load on.
func lasting(usually, long time.Duration) time.Duration {
	if os.Getenv(envLong) != "" {
		return long
	}
	return usually
}

// TestPausedDatabase: calls to a database that stands still end at their deadlines, and all recovers by itself.
func TestPausedDatabase(t *testing.T) {
	t.Parallel()
	db := server(t, pgtest.Options{})
	s := closing(t, open(t, postgres.Config{DSN: db.DSN("postgres")}))
	if _, err := s.Save(t.Context(), save(t, "id", working, anyState)); err != nil {
		t.Fatal(err)
	}
	if err := db.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	endAtDeadline(t, s)
	if err := db.Resume(); err != nil {
		t.Fatal(err)
	}
	recovers(t, s, "id")
}

// TestCancelStorm: callers with short deadlines against a database whose table is locked most of the time do not harm those
// with long ones, nor the connections.
func TestCancelStorm(t *testing.T) {
	t.Parallel()
	const locked, unlocked = 150 * time.Millisecond, 50 * time.Millisecond
	storm := lasting(3*time.Second, time.Minute)
	const maxConns = 8
	dsn := database(t)
	s := closing(t, open(t, postgres.Config{DSN: dsn, MaxConns: maxConns}))
	if _, err := s.Save(t.Context(), save(t, "id", working, anyState)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())

	ctx, cancel := context.WithTimeout(t.Context(), storm)
	defer cancel()
	var wg sync.WaitGroup
	var hurried, patient atomic.Int64
	call := func(ctx context.Context, i int) error {
		key := backend.Key{Tenant: "t", TaskID: "id"}
		switch i % 4 {
		case 0:
			_, err := s.Save(ctx, save(t, fmt.Sprint("id-", i), working, anyState))
			return err
		case 1:
			_, err := s.ReadLog(ctx, &backend.ReadLogRequest{Key: key, MaxEvents: 10})
			return err
		case 2:
			_, err := s.List(ctx, &backend.ListRequest{Tenant: "t", Size: 5})
			return err
		default:
			_, err := s.Get(ctx, &backend.GetRequest{Key: key, Extent: backend.All})
			return err
		}
	}
	for range 64 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				short, cancel := context.WithTimeout(ctx, time.Millisecond+rand.N(locked))
				if call(short, i) != nil {
					hurried.Add(1)
				}
				cancel()
			}
		})
	}
	for range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := call(t.Context(), i); err != nil {
					t.Errorf("a call that was not cancelled: %v", err)
				}
				patient.Add(1)
			}
		})
	}
	most := 0
	for ctx.Err() == nil {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "LOCK TABLE a2a_taskstore.tasks IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		<-time.After(locked)
		var n int
		err = tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(unlocked)
	}
	wg.Wait()
	if hurried.Load() == 0 || patient.Load() == 0 {
		t.Errorf("no storm: %d calls cancelled, %d not", hurried.Load(), patient.Load())
	}
	// A cancel request is a connection of its own, for a moment; it has no place in pg_stat_activity. A connection that was
	// given up has one until the server has noticed.
	if most > 2*maxConns {
		t.Errorf("%d connections of at most %d", most, maxConns)
	}

	after, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for i := range 400 {
		if err := call(after, i); err != nil {
			t.Fatalf("call %d after the storm: %v", i, err)
		}
	}
}
