//go:build unix

// Package pgtest gives tests databases in a real PostgreSQL: the server that TEST_POSTGRES_DSN leads to, or one that it
// starts from the installed binaries, in a directory of its own, reachable only through a unix socket there, and gone when
// the test binary ends, however it ends.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// EnvDSN names the variable with the DSN of a server to use. The role must be allowed to create databases.
const EnvDSN = "TEST_POSTGRES_DSN"

// setupTimeout bounds what the fixture does with the server.
const setupTimeout = time.Minute

// shared is the server of this test binary.
var shared = sync.OnceValues(func() (*fixture, error) {
	if dsn := os.Getenv(EnvDSN); dsn != "" {
		return &fixture{dsn: dsn}, nil
	}
	s, err := start(Options{})
	if err != nil {
		return nil, fmt.Errorf("%w; or set %s to the DSN of one", err, EnvDSN)
	}
	return &fixture{dsn: s.DSN("postgres")}, nil
})

// fixture makes databases on a server.
type fixture struct {
	dsn string

	mu       sync.Mutex
	template string
	count    int
}

// Database returns the DSN of a new database on the shared server, which is dropped when the test ends. prepare, unless nil,
// fills it; its first call makes a template that later databases are copied from, so all must do the same.
func Database(tb testing.TB, prepare func(ctx context.Context, dsn string) error) string {
	tb.Helper()
	f, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return f.database(tb, prepare)
}

func (f *fixture) database(tb testing.TB, prepare func(ctx context.Context, dsn string) error) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	template := "template1"
	if prepare != nil {
		var err error
		if template, err = f.prepared(ctx, prepare); err != nil {
			tb.Fatalf("preparing the template database: %v", err)
		}
	}
	name := f.name("db")
	if err := f.exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		tb.Fatalf("creating a database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
		defer cancel()
		if err := f.exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("dropping the database: %v", err)
		}
	})
	return withDatabase(f.dsn, name)
}

// prepared returns the template database, and makes it first.
func (f *fixture) prepared(ctx context.Context, prepare func(context.Context, string) error) (string, error) {
	name := f.name("template")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.template != "" {
		return f.template, nil
	}
	if err := f.exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	if err := prepare(ctx, withDatabase(f.dsn, name)); err != nil {
		return "", errors.Join(err, f.exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"))
	}
	f.template = name
	return name, nil
}

// name returns a name that no other test binary uses on the same server.
func (f *fixture) name(kind string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	return fmt.Sprintf("taskstore_%s_%d_%d_%d", kind, os.Getpid(), time.Now().UnixNano(), f.count)
}

// exec runs a statement on the server's maintenance database. A template that somebody is still leaving is waited for.
func (f *fixture) exec(ctx context.Context, query string) error {
	conn, err := pgx.Connect(ctx, f.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for {
		_, err := conn.Exec(ctx, query)
		const objectInUse = "55006"
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != objectInUse {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// withDatabase returns the DSN with another database.
func withDatabase(dsn, name string) string {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		u, err := url.Parse(dsn)
		if err == nil {
			u.Path = "/" + name
			return u.String()
		}
	}
	return dsn + " dbname=" + name
}
