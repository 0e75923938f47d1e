package postgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
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

// bouncer is a PgBouncer that shares sessions between transactions.
type bouncer struct {
	dir string
	cmd *exec.Cmd
}

func (b *bouncer) DSN() string {
	return "host=" + b.dir + " port=6432 user=postgres dbname=postgres"
}

func newBouncer(t *testing.T, db *pgtest.Server) *bouncer {
	t.Helper()
	dir, err := os.MkdirTemp("", "bouncer-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	b := &bouncer{dir: dir}
	t.Cleanup(func() {
		b.stop(t)
		os.RemoveAll(dir)
	})
	config := fmt.Sprintf(`[databases]
postgres = host=%s port=5432 user=postgres dbname=postgres
[pgbouncer]
unix_socket_dir = %s
listen_addr =
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
logfile = %s/log
`, db.Dir, dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := pgtest.Own(dir); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	return b
}

func (b *bouncer) start(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer" // where Debian has it
	}
	cmd, err := pgtest.Command(context.WithoutCancel(t.Context()), path, filepath.Join(b.dir, "config"))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting PgBouncer (Debian: apt-get install pgbouncer): %v", err)
	}
	b.cmd = cmd
	waitFor(t, "PgBouncer", func() bool {
		_, err := os.Stat(filepath.Join(b.dir, ".s.PGSQL.6432"))
		return err == nil
	})
}

func (b *bouncer) stop(t *testing.T) {
	t.Helper()
	if b.cmd == nil {
		return
	}
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = b.cmd.Wait() // how it ends does not matter
	b.cmd = nil
}

// TestBehindPgBouncer runs mixed calls over a pooler that shares sessions, and restarts it under them: no caller hears of it.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	db := server(t, pgtest.Options{})
	for _, mode := range []postgres.StatementMode{postgres.Describe, postgres.Exec} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBouncer(t, db)
			s := closing(t, open(t, postgres.Config{DSN: b.DSN(), StatementMode: mode, PollOnly: true}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls atomic.Int64
			var wg sync.WaitGroup
			for c := range 200 {
				wg.Go(func() {
					key := backend.Key{Tenant: string(mode), TaskID: fmt.Sprint("id-", c)}
					for i := 0; ctx.Err() == nil; i++ {
						var err error
						switch i % 4 {
						case 0:
							req := save(t, key.TaskID, working, anyState)
							req.Key = key
							_, err = s.Save(t.Context(), req)
						case 1:
							_, err = s.Get(t.Context(), &backend.GetRequest{Key: key, Extent: backend.All})
						case 2:
							_, err = s.ReadLog(t.Context(), &backend.ReadLogRequest{Key: key, MaxEvents: 10, Task: &backend.All})
						case 3:
							_, err = s.List(t.Context(), &backend.ListRequest{Tenant: key.Tenant, Size: 10, SkipTotal: true})
						}
						if err != nil {
							t.Error(err)
							return
						}
						calls.Add(1)
					}
				})
			}
			waitFor(t, "load", func() bool { return calls.Load() > 1000 })
			b.stop(t)
			b.start(t)
			before := calls.Load()
			waitFor(t, "more load", func() bool { return calls.Load() > before+1000 })
			cancel()
			wg.Wait()
		})
	}
}
