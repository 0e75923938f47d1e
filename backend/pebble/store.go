// Package pebble is the embedded engine: a backend.Store in a directory, on Pebble, an LSM tree.
//
// Every write that returned without error has been synced, together with all that it was decided on, and nothing is shown
// to anybody before it has been: what a caller saw survives a power cut (see section). A write is one atomic batch, so
// task, events, claim and index keys are there together or not at all.
//
// A failed write or sync of the directory breaks the store: every call then returns an error with backend.ErrBroken until
// the directory is opened again, and nothing more is written to it. The writes that the fault met have an unknown outcome:
// they may be found when it is opened.
package pebble

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrInUse is returned by Open for a directory that another Store, mostly of another process, has open.
var ErrInUse = errors.New("another server holds the directory")

// Config configures Open.
type Config struct {
	// Dir is the directory, created if it is not there.
	Dir string
	// FS is the file system; nil is the disk.
	FS vfs.FS
	// Limits are what writes are checked against.
	Limits backend.Limits
	// Now is the clock; nil is time.Now. A plan's times come from it.
	Now func() time.Time
	// CacheBytes bounds the cache of blocks read; 0 is DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is how much is kept in memory, and in the write-ahead log, before it goes into tables; 0 is
	// DefaultMemTableBytes. Up to four times as much is read back when the store opens after a crash.
	MemTableBytes int64
	// Logger hears what no call returns; nil discards.
	Logger *slog.Logger
}

// The defaults of Config.
const (
	DefaultCacheBytes    = 128 << 20
	DefaultMemTableBytes = 16 << 20
)

// Store is a backend.Store. It is made by Open.
type Store struct {
	db       *pebble.DB
	gate     *gate
	fault    *fault
	limits   backend.Limits
	now      func() time.Time
	seed     maphash.Seed
	stripes  []stripe
	watchers backend.Watchers

	checkpoint sync.Mutex // held by the checkpoint that runs

	mu      sync.RWMutex // for closed and, where it is false, calls.Add
	closed  bool
	calls   sync.WaitGroup
	commits sync.WaitGroup

	committers committers
	committed  atomic.Int64 // writes
}

var _ backend.Store = (*Store)(nil)

// Open opens the store in a directory, or makes a new one there. Errors: ErrInUse, ErrFormat; others are the disk's.
func Open(c Config) (*Store, error) {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	f := newFault(c.Logger)
	s := &Store{
		gate: newGate(c.FS, c.Dir, f), fault: f, limits: c.Limits, now: c.Now,
		seed: maphash.MakeSeed(), stripes: newStripes(),
		committers: newCommitters(),
	}
	if err := s.open(&c); err != nil {
		return nil, fmt.Errorf("open %s: %w", c.Dir, err)
	}
	return s, nil
}

func (s *Store) open(c *Config) error {
	opts := options(c, s.gate, s.fault)
	err := s.fault.run(func() (err error) {
		s.db, err = pebble.Open(c.Dir, opts)
		return err
	})
	switch {
	case err != nil && s.fault.get() != nil:
		return errors.Join(errors.Unwrap(s.fault.get()), s.abandon()) // the cause: only the operator gets it
	case err != nil:
		opts.Cache.Unref()
		return openError(err)
	}
	opts.Cache.Unref() // Pebble has its own reference
	err = s.checkFormat()
	s.fault.serving.Store(true)
	if fault := s.fault.get(); fault != nil { // before the log was listening
		err = errors.Unwrap(fault)
	}
	if err != nil {
		_ = s.Close() // says nothing that err does not
	}
	return err
}

// abandon gives the directory up without Pebble, of which parts may hang.
func (s *Store) abandon() error {
	s.gate.shutAndWait()
	return s.gate.release()
}

// enter begins a call. The caller calls s.calls.Done when it ends.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return backend.Unavailable("the store is closed", nil)
	}
	if err := s.fault.get(); err != nil {
		return err
	}
	s.calls.Add(1)
	return nil
}

// Ping is part of backend.Store.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.calls.Done()
	return nil
}

// Watch is part of backend.Store. It misses nothing: fn is called once each commit is durable.
func (s *Store) Watch(fn func(backend.Key)) (stop func()) { return s.watchers.Add(fn) }

// PollInterval is part of backend.Store: Watch misses nothing.
func (s *Store) PollInterval() time.Duration { return 0 }

// Close is part of backend.Store. A broken store gives the directory back, so that it can be opened again, and leaves the
// memory of its Pebble to the end of the process.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()

	err := s.fault.run(func() error {
		s.calls.Wait()
		s.commits.Wait() // of callers that did not wait for them
		s.committers.close()
		// So that there is no log to read back at the next start. Nothing is lost without it.
		if err := s.db.Flush(); err != nil {
			return errors.Join(err, s.db.Close())
		}
		return s.db.Close()
	})
	if s.fault.get() != nil {
		return errors.Join(s.fault.get(), s.abandon())
	}
	return err
}
