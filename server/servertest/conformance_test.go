package servertest

import (
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/backendtest"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
)

// lacks is what the service does not show to its callers.
var lacks = map[backendtest.Capability]string{
	backendtest.Following: "streams of the service replace them; package follow tests those",
	backendtest.Internals: "they stay between the server and its store",
	backendtest.Closing:   "a client does not close the store",
}

func TestMemory(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{Lacks: lacks, Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
		store, err := memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: opt.Limits, Now: opt.Now})
		if err != nil {
			tb.Fatal(err)
		}
		return serve(tb, store)
	}})
}

func TestPebble(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{Lacks: lacks, Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
		store, err := pebble.Open(pebble.Config{Dir: tb.TempDir(), Limits: opt.Limits, Now: opt.Now})
		if err != nil {
			tb.Fatal(err)
		}
		return serve(tb, store)
	}})
}

// TestPostgresReplicas spreads the calls over two servers that share a database.
func TestPostgresReplicas(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{Lacks: lacks, Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
		dsn := pgtest.Database(tb, migrate)
		var stores []backend.Store
		for range 2 {
			store, err := postgres.Open(tb.Context(), postgres.Config{DSN: dsn, MaxConns: 5, Limits: opt.Limits, Now: opt.Now})
			if err != nil {
				tb.Fatal(err)
			}
			stores = append(stores, store)
		}
		return serve(tb, stores...)
	}})
}
