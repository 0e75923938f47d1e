package postgres_test

import (
	"context"
	"fmt"
	"net"
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

// bouncer is a PgBouncer that shares sessions between transactions.
type bouncer struct {
	path string // of the program
	dir  string
	cmd  *exec.Cmd
}

func (b *bouncer) DSN() string {
	return "host=" + b.dir + " port=6432 user=postgres dbname=postgres"
}

func newBouncer(t *testing.T, db *pgtest.Server) *bouncer {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/pgbouncer") // Debian's, which is not on everybody's path
	}
	if err != nil {
		t.Fatal("PgBouncer is not installed (Debian: apt-get install pgbouncer)")
	}
	dir, err := os.MkdirTemp("", "bouncer-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	b := &bouncer{path: path, dir: dir}
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
	cmd, err := pgtest.Command(context.WithoutCancel(t.Context()), b.path, filepath.Join(b.dir, "config"))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.cmd = cmd
	waitFor(t, "PgBouncer", func() bool {
		conn, err := net.Dial("unix", filepath.Join(b.dir, ".s.PGSQL.6432"))
		if err != nil {
			return false
		}
		return conn.Close() == nil
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
			half := lasting(0, 15*time.Second)
			<-time.After(half)
			waitFor(t, "load", func() bool { return calls.Load() > 1000 })
			b.stop(t)
			b.start(t)
			before := calls.Load()
			<-time.After(half)
			waitFor(t, "more load", func() bool { return calls.Load() > before+1000 })
			cancel()
			wg.Wait()
		})
	}
}
