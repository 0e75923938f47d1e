package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	"github.com/a2a-taskstore/taskstore/server"
)

// storeFlags choose and configure the backend.
type storeFlags struct {
	Backend         string   `help:"Where tasks are kept: pebble (files in --data-dir) or memory (nothing survives)." enum:"pebble,memory" default:"pebble"`
	DataDir         string   `help:"The directory of the pebble backend." default:"data" type:"path"`
	CacheBytes      byteSize `help:"Memory that the pebble backend caches data in." default:"64MiB"`
	MemoryMaxBytes  byteSize `help:"What the memory backend holds at most; then writes are refused." default:"1GiB"`
	MaxMessageBytes byteSize `help:"The largest message, and so the largest task." default:"16MiB"`
}

func (f *storeFlags) limits() backend.Limits {
	return backend.Limits{TaskBytes: server.TaskBytes(int(f.MaxMessageBytes))}
}

// open opens the backend, and says what it promises.
func (f *storeFlags) open(_ context.Context, log *slog.Logger, limits backend.Limits) (backend.Store, error) {
	switch f.Backend {
	case "memory":
		log.Warn("the memory backend keeps nothing when the process ends", "max_bytes", f.MemoryMaxBytes.String())
		return memory.Open(memory.Config{MaxBytes: int64(f.MemoryMaxBytes), Limits: limits})
	case "pebble":
		store, err := pebble.Open(pebble.Config{Dir: f.DataDir, Limits: limits, CacheBytes: int64(f.CacheBytes), Logger: log})
		if err != nil {
			return nil, err
		}
		dir, err := filepath.Abs(f.DataDir)
		if err != nil {
			dir = f.DataDir
		}
		log.Info("keeping tasks on disk; every write is synced before it is acknowledged", "directory", dir)
		return store, nil
	default:
		return nil, usagef("unknown backend %q", f.Backend)
	}
}

type migrateCmd struct {
	storeFlags
	logFlags
}

// Run opens the store, which upgrades its format, and closes it.
func (c *migrateCmd) Run(e *env) error {
	if c.Backend == "memory" {
		return usagef("the memory backend has nothing to migrate")
	}
	store, err := c.open(e.ctx, c.logger(e.stderr), c.limits())
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	_, err = fmt.Fprintln(e.stdout, "the data has the format of this version")
	return err
}
