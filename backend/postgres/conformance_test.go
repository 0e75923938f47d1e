package postgres_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/backendtest"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
)

// database returns the DSN of a new, migrated database.
func database(tb testing.TB) string {
	tb.Helper()
	return pgtest.Database(tb, func(ctx context.Context, dsn string) error {
		_, err := postgres.Migrate(ctx, dsn, slog.New(slog.DiscardHandler))
		return err
	})
}

// open opens a store; the caller closes it.
func open(tb testing.TB, cfg postgres.Config) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{
		Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
			return open(tb, postgres.Config{DSN: database(tb), MaxConns: 5, Limits: opt.Limits, Now: opt.Now})
		},
	})
}
