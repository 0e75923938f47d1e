package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/observe/sqltrace"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/server"
)

// storeFlags choose and configure the backend.
type storeFlags struct {
	Backend         string   `help:"Where tasks are kept: pebble (files in --data-dir), postgres (--postgres-dsn; any number of servers may share it) or memory (nothing survives)." enum:"pebble,postgres,memory" default:"pebble"`
	MaxMessageBytes byteSize `help:"The largest message; a task is at most 1 KiB smaller." default:"16MiB"`

	DataDir    string   `help:"The directory of the pebble backend; made, for its owner only, if it is not there." default:"data" type:"path"`
	CacheBytes byteSize `help:"Memory that the pebble backend caches data in." default:"64MiB"`

	MemoryMaxBytes byteSize `help:"What the memory backend holds at most; then writes are refused." default:"1GiB"`

	Postgres postgresFlags `embed:"" prefix:"postgres-" group:"PostgreSQL"`
	Notify   string        `help:"Hear of other servers' writes to PostgreSQL by LISTEN and NOTIFY (on), or only by polling (off), for poolers and engines that have no NOTIFY." enum:"on,off" default:"on" group:"PostgreSQL"`
}

// postgresFlags configure the postgres backend.
type postgresFlags struct {
	DSN           string        `name:"dsn" help:"URL or keywords of the database, as libpq takes them; several hosts and target_session_attrs, too. Better given by the environment: command lines can be seen."`
	MaxConns      int           `help:"Connections to the database at most; at least 4." default:"10"`
	StatementMode string        `help:"How statements are sent: prepared, or describe or exec behind a pooler in transaction mode." enum:"prepared,describe,exec" default:"prepared"`
	PollInterval  time.Duration `help:"How often to look for other servers' writes for readers that wait." default:"250ms"`
	Migrate       bool          `help:"Bring the schema up to date at start." default:"true" negatable:""`
}

// postgresConfig is the configuration of the postgres backend.
func (s *storeFlags) postgresConfig(log *slog.Logger, limits backend.Limits) (postgres.Config, error) {
	f := &s.Postgres
	switch {
	case f.DSN == "":
		return postgres.Config{}, usagef("--backend postgres needs --postgres-dsn, or A2A_TASKSTORE_POSTGRES_DSN")
	case f.MaxConns < 4 || f.PollInterval <= 0:
		return postgres.Config{}, usagef("--postgres-max-conns must be at least 4, --postgres-poll-interval must be positive")
	}
	return postgres.Config{
		DSN:           f.DSN,
		MaxConns:      f.MaxConns,
		StatementMode: postgres.StatementMode(f.StatementMode),
		PollOnly:      s.Notify == "off",
		PollInterval:  f.PollInterval,
		Migrate:       f.Migrate,
		Limits:        limits,
		Logger:        log,
	}, nil
}

func (f *storeFlags) limits() backend.Limits {
	return backend.Limits{TaskBytes: server.TaskBytes(int(f.MaxMessageBytes))}
}

// open opens the backend, and says what it promises.
// With a provider, the statements of the database are traced.
func (f *storeFlags) open(
	ctx context.Context, log *slog.Logger, limits backend.Limits, provider trace.TracerProvider,
) (backend.Store, error) {
	switch f.Backend {
	case "memory":
		log.Warn("the memory backend keeps nothing when the process ends", "max_bytes", f.MemoryMaxBytes.String())
		return memory.Open(memory.Config{MaxBytes: int64(f.MemoryMaxBytes), Limits: limits})
	case "pebble":
		if f.DataDir == "" {
			return nil, usagef("--backend pebble needs --data-dir")
		}
		store, err := pebble.Open(pebble.Config{Dir: f.DataDir, Limits: limits, CacheBytes: int64(f.CacheBytes), Logger: log})
		if err != nil {
			return nil, err
		}
		dir, err := filepath.Abs(f.DataDir)
		if err != nil {
			dir = f.DataDir
		}
		if info, err := os.Stat(f.DataDir); err == nil && info.Mode().Perm()&0o077 != 0 {
			log.Warn("the data directory is open to other users of this machine, who may read, or even change, every task",
				"directory", dir, "mode", info.Mode().Perm().String())
		}
		log.Info("keeping tasks on disk; every write is synced before it is acknowledged", "directory", dir)
		return store, nil
	case "postgres":
		cfg, err := f.postgresConfig(log, limits)
		if err != nil {
			return nil, err
		}
		if provider != nil {
			cfg.Tracer = sqltrace.New(provider)
		}
		store, err := postgres.Open(ctx, cfg)
		if err != nil {
			return nil, configError(err)
		}
		log.Info("keeping tasks in PostgreSQL; every write is committed before it is acknowledged")
		return store, nil
	default:
		return nil, usagef("unknown backend %q", f.Backend)
	}
}

// configError marks an error that says that the configuration is wrong.
func configError(err error) error {
	if errors.Is(err, postgres.ErrConfig) {
		return usageError{err}
	}
	return err
}

type migrateCmd struct {
	storeFlags
	logFlags
}

// Run opens the store, which upgrades its format, and closes it.
func (c *migrateCmd) Run(e *env) error {
	switch c.Backend {
	case "memory":
		return usagef("the memory backend has nothing to migrate")
	case "postgres":
		cfg, err := c.postgresConfig(c.logger(e.stderr), c.limits())
		if err != nil {
			return err
		}
		version, err := postgres.Migrate(e.ctx, cfg.DSN, cfg.Logger)
		if err != nil {
			return configError(err)
		}
		_, err = fmt.Fprintf(e.stdout, "the database has schema version %d\n", version)
		return err
	}
	if _, err := os.Stat(c.DataDir); err != nil {
		return usagef("there is no store in %s", c.DataDir)
	}
	store, err := c.open(e.ctx, c.logger(e.stderr), c.limits(), nil)
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	_, err = fmt.Fprintln(e.stdout, "the data has the format of this version")
	return err
}
