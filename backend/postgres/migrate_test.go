package postgres_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
)

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t, nil)
	const replicas = 48
	var wg sync.WaitGroup
	for range replicas {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Migrate: true, MaxConns: 3, Committers: 1, PollOnly: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v, err := postgres.Migrate(t.Context(), dsn, slog.New(slog.DiscardHandler)); err != nil || v != 1 {
		t.Errorf("migrating again: version %d, %v", v, err)
	}
}

func TestSchemaThatDoesNotFit(t *testing.T) {
	t.Parallel()
	wants := func(dsn string, migrate bool, found int64) {
		t.Helper()
		s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Migrate: migrate})
		if err == nil {
			s.Close()
			t.Fatal("opened")
		}
		e, ok := errors.AsType[*postgres.SchemaError](err)
		if !ok || e.Found != found || e.Want != 1 {
			t.Fatalf("error %v", err)
		}
	}
	dsn := pgtest.Database(t, nil)
	wants(dsn, false, 0)
	if _, err := postgres.Migrate(t.Context(), dsn, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, `INSERT INTO a2a_taskstore.goose_db_version (version_id, is_applied) VALUES (99, true)`)
	wants(dsn, false, 99)
	wants(dsn, true, 99)
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, cfg := range []postgres.Config{
		{DSN: "host=localhost port=x password=secret"},
		{DSN: "postgres://user:secret@host:port/db"},
		{StatementMode: "other"},
		{MaxConns: 3},
		{Committers: -1},
	} {
		s, err := postgres.Open(t.Context(), cfg)
		if err == nil {
			s.Close()
			t.Errorf("%+v: opened", cfg)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}
