package postgres_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// schema is the latest version.
const schema = 2

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
	if v, err := postgres.Migrate(t.Context(), dsn, slog.New(slog.DiscardHandler)); err != nil || v != schema {
		t.Errorf("migrating again: version %d, %v", v, err)
	}
}

// TestUpgradeOfSchema1: what was written under schema 1 is there under the latest, and goes on.
func TestUpgradeOfSchema1(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	const tasks = 3
	parts, err := document.ParseParts([][]byte{{}, {}})
	if err != nil {
		t.Fatal(err)
	}
	message := document.List{Bytes: parse(t, &pb.Task{History: []*pb.Message{{MessageId: "more"}}}).History.Bytes, Count: 1}
	change := func(s *postgres.Store, key backend.Key, d document.Delta, version int64) {
		t.Helper()
		res, err := s.Save(t.Context(), &backend.SaveRequest{
			Key: key, Delta: &d, Pre: anyState, Events: []backend.EventInput{{Event: statusEvent(t, key.TaskID)}},
		})
		if err != nil || res.Version != version {
			t.Fatalf("version %d, want %d, %v", res.Version, version, err)
		}
	}
	extend := func(s *postgres.Store, key backend.Key, version int64) {
		t.Helper()
		change(s, key, document.Delta{Append: &document.AppendToArtifact{ID: "a", Parts: parts, Base: -1}, MaxHistory: -1}, version)
		change(s, key, document.Delta{History: message, MaxHistory: 3}, version+1)
	}
	appended := func(s *postgres.Store, key backend.Key) backend.AppendResult {
		t.Helper()
		events := []document.Event{statusEvent(t, key.TaskID), statusEvent(t, key.TaskID)}
		res, err := s.AppendEvents(t.Context(), &backend.AppendRequest{Key: key, Events: events, WriteID: "w"})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	type state struct {
		Task []byte
		Log  backend.LogPage
	}
	all := func(s *postgres.Store) (all []state) {
		t.Helper()
		for i := range tasks {
			key := backend.Key{Tenant: "t", TaskID: fmt.Sprint(i)}
			got, err := s.Get(t.Context(), &backend.GetRequest{Key: key, Extent: backend.All})
			if err != nil {
				t.Fatal(err)
			}
			log, err := s.ReadLog(t.Context(), &backend.ReadLogRequest{Key: key, MaxEvents: 100})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, state{got.Task, log})
		}
		return all
	}

	s := open(t, postgres.Config{DSN: dsn, PollOnly: true})
	for i := range tasks {
		key := backend.Key{Tenant: "t", TaskID: fmt.Sprint(i)}
		task := &pb.Task{
			Id: key.TaskID, Artifacts: []*pb.Artifact{{ArtifactId: "b"}, {ArtifactId: "a"}}, History: []*pb.Message{{MessageId: "m"}, {MessageId: "n"}},
		}
		if _, err := s.Save(t.Context(), &backend.SaveRequest{Key: key, Task: parse(t, task), Pre: anyState}); err != nil {
			t.Fatal(err)
		}
		extend(s, key, 2)
		extend(s, key, 4)
		appended(s, key)
	}
	want := all(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	downgrade(t, dsn)
	const role = "a2a_taskstore_upgraded" // another one migrates
	execute(t, dsn, `CREATE ROLE `+role, `GRANT USAGE ON SCHEMA a2a_taskstore TO `+role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA a2a_taskstore TO `+role,
		`ALTER TABLE a2a_taskstore.events OWNER TO `+role)
	defer execute(t, dsn, `DROP OWNED BY `+role, `DROP ROLE `+role)
	if _, err := postgres.Migrate(t.Context(), dsn, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	s = open(t, postgres.Config{DSN: dsn + " options='-c role=" + role + "'", PollOnly: true})
	defer s.Close()
	if diff := cmp.Diff(want, all(s)); diff != "" {
		t.Fatalf("what is left (-before +after):\n%s", diff)
	}
	for i := range tasks {
		key := backend.Key{Tenant: "t", TaskID: fmt.Sprint(i)}
		last := want[i].Log.Log.LastSeq
		if res := appended(s, key); !res.Replayed || res.LastSeq != last {
			t.Errorf("repeated append: %+v, the log ended at %d", res, last)
		}
		extend(s, key, 6)
		if got, want := all(s)[i].Log, want[i].Log.Log.LastSeq+2; got.Log.LastSeq != want || int64(len(got.Events)) != want {
			t.Errorf("the log ends at %d with %d events, want %d", got.Log.LastSeq, len(got.Events), want)
		}
	}
	if _, err := s.Save(t.Context(), save(t, "new", working, anyState)); err != nil {
		t.Error(err)
	}
}

// downgrade leaves a database as schema 1 would have it.
func downgrade(t *testing.T, dsn string) {
	t.Helper()
	tables, err := os.ReadFile("migrations/00001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, `ALTER SCHEMA a2a_taskstore RENAME TO latest`, `CREATE SCHEMA a2a_taskstore`, string(tables),
		`CREATE TABLE a2a_taskstore.goose_db_version (LIKE latest.goose_db_version INCLUDING ALL)`,
		`INSERT INTO a2a_taskstore.goose_db_version (version_id, is_applied)
			SELECT version_id, is_applied FROM latest.goose_db_version WHERE version_id <= 1 ORDER BY id`,
		`DO $$
		DECLARE
			name text;
			rest text;
		BEGIN
			FOREACH name IN ARRAY ARRAY['tasks', 'artifacts', 'artifact_parts', 'messages', 'events'] LOOP
				SELECT string_agg(column_name, ', ') INTO rest FROM information_schema.columns
					WHERE table_schema = 'a2a_taskstore' AND table_name = name AND column_name NOT IN ('tenant', 'task_id');
				EXECUTE format('INSERT INTO a2a_taskstore.%1$I (tenant, task_id, %2$s) SELECT k.tenant, k.task_id, %3$s
					FROM latest.%1$I t JOIN latest.tasks k USING (row_id)', name, rest, 't.' || replace(rest, ', ', ', t.'));
			END LOOP;
		END
		$$`,
		`DROP SCHEMA latest CASCADE`)
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
		if !ok || e.Found != found || e.Want != schema {
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
