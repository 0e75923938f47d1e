package bench

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	"github.com/a2a-taskstore/taskstore/server"
)

// external stands for the backend of a store that runs elsewhere.
const external = "external"

// engine is a backend that can be measured.
type engine struct {
	name string
	// durable: what was stored is there when it is opened again.
	durable bool
	// needsDSN: it is a database, which several servers may share.
	needsDSN bool
	// open opens the store of a place. The function tells the bytes that it has written since it was opened.
	open func(context.Context, *place) (backend.Store, func() int64, error)
	// meter, where it is set, counts what the engine writes in another process; the function ends it.
	meter func(context.Context, *place) (meter, func() error, error)
	// floors are what is under the store; none if there is nothing.
	floors []floor
}

var engines = []engine{
	{
		name: "memory",
		open: func(context.Context, *place) (backend.Store, func() int64, error) {
			store, err := memory.Open(memory.Config{MaxBytes: 64 << 30, Limits: limits()})
			if err != nil {
				return nil, nil, err
			}
			return store, func() int64 { return 0 }, nil
		},
	},
	{
		name: "pebble", durable: true,
		open: func(_ context.Context, p *place) (backend.Store, func() int64, error) {
			fs := newCountingFS()
			store, err := pebble.Open(pebble.Config{Dir: p.Dir, FS: fs, Limits: limits()})
			if err != nil {
				return nil, nil, err
			}
			return store, fs.written.Load, nil
		},
		floors: []floor{{Bare, openBarePebble}},
	},
	{
		name: "postgres", durable: true, needsDSN: true, open: openPostgres, meter: meterWAL,
		floors: []floor{{Bare, openBarePipelined}, {BarePerCaller, openBarePerCaller}},
	},
}

func engineNamed(name string) (engine, bool) {
	i := slices.IndexFunc(engines, func(e engine) bool { return e.name == name })
	if i < 0 {
		return engine{}, false
	}
	return engines[i], true
}

func limits() backend.Limits { return backend.Limits{TaskBytes: server.TaskBytes(0)} }

// place is where a store of an engine lives. Places in one database differ by the tenant alone.
type place struct {
	Backend string
	Dir     string
	DSN     string
	Tenant  string
	// Apart keeps a replica from those that others open in the same database: it tells them nothing, and hears nothing.
	Apart bool
}

func (p *place) open(ctx context.Context) (backend.Store, func() int64, error) {
	e, _ := engineNamed(p.Backend)
	return e.open(ctx, p)
}

// floor is a way to use an engine without the store.
type floor struct {
	system string
	open   func(context.Context, *place) (bare, error)
}

// bare is an engine without the store: what has to be written, and nothing that decides on it.
type bare interface {
	// put writes a task, one of its events, and what finds both. It is done when it is durable.
	put(ctx context.Context, w *bareWrite) error
	// count reads how much has been written.
	count(context.Context) (counters, error)
	close() error
}

// bareWrite is the n-th write of a task, counted from 1: whole, or a chunk that is added to it.
type bareWrite struct {
	key   int
	n     int64
	at    time.Time
	task  []byte
	chunk []byte
	event []byte
}

// newPlace returns a place that nobody has used.
func (s *session) newPlace(backend string) *place {
	s.places++
	return &place{
		Backend: backend, Dir: filepath.Join(s.dir, strconv.Itoa(s.places)), DSN: s.dsn,
		Tenant: "bench-" + rand.Text(),
	}
}
