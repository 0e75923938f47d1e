package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
)

// writers save tasks, each its own over and over, until the context ends. They count what was acknowledged.
type writers struct {
	store backend.Store
	acked []atomic.Int64 // the version that was acknowledged last, by writer
	last  atomic.Int64   // when, in nanoseconds since 1970
}

func (w *writers) id(i int) string { return fmt.Sprint("id-", i) }

// run writes; calls whose outcome stays unknown end the run.
func (w *writers) run(ctx context.Context, t *testing.T) {
	var wg sync.WaitGroup
	for i := range w.acked {
		wg.Go(func() {
			for ctx.Err() == nil {
				pre := backend.Precondition{}
				if v := w.acked[i].Load(); v > 0 {
					pre = backend.Precondition{Condition: backend.AtVersion, Version: v}
				}
				res, err := w.store.Save(context.WithoutCancel(ctx), save(t, w.id(i), working, pre))
				if err != nil {
					t.Errorf("writer %d after version %d: %v", i, w.acked[i].Load(), err)
					return
				}
				w.acked[i].Store(res.Version)
				w.last.Store(time.Now().UnixNano())
			}
		})
	}
	wg.Wait()
}

// check wants everything that was acknowledged, and nothing twice.
func (w *writers) check(t *testing.T) {
	t.Helper()
	for i := range w.acked {
		page, err := w.store.ReadLog(t.Context(), &backend.ReadLogRequest{
			Key: backend.Key{Tenant: "t", TaskID: w.id(i)}, MaxEvents: 1 << 20, Start: backend.Start{},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := w.acked[i].Load()
		if page.Log.Version != want || page.Log.LastSeq != want || int64(len(page.Events)) != want {
			t.Errorf("%s: version %d, seq %d, %d events, want %d of each", w.id(i), page.Log.Version, page.Log.LastSeq, len(page.Events), want)
		}
		for k, e := range page.Events {
			if e.Seq != int64(k)+1 || e.Version != e.Seq {
				t.Errorf("%s: event %d: seq %d, version %d", w.id(i), k, e.Seq, e.Version)
			}
		}
	}
}

// TestFailover crashes a primary under load and promotes its synchronous standby: writers go on, within seconds and without
// an error, and nothing that was acknowledged is lost or done twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := server(t, pgtest.Options{Durable: true})
	standby := pgtest.Start(t, pgtest.Options{Durable: true, StandbyOf: primary, Name: "standby"})
	execute(t, primary.DSN("postgres"), "ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
	waitFor(t, "synchronous replication", func() bool {
		return query[int](t, primary.DSN("postgres"), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
	})

	s := closing(t, open(t, postgres.Config{DSN: fmt.Sprintf(
		"host=%s,%s port=5432,5432 user=postgres dbname=postgres target_session_attrs=read-write connect_timeout=2",
		primary.Dir, standby.Dir)}))
	w := &writers{store: s, acked: make([]atomic.Int64, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx, t)
	}()
	waitFor(t, "load", func() bool { return w.acked[0].Load() >= 20 })
	primary.Stop()
	execute(t, standby.DSN("postgres"), "SELECT pg_promote()")
	promoted := time.Now()
	waitFor(t, "a write to the new primary", func() bool { return w.last.Load() > promoted.UnixNano() })
	if took := time.Since(promoted); took > 10*time.Second {
		t.Errorf("writers went on after %v", took)
	}
	at := w.acked[0].Load()
	waitFor(t, "more load", func() bool { return w.acked[0].Load() >= at+20 })
	cancel()
	<-done
	w.check(t)
}
