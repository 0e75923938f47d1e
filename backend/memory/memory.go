// Package memory is the backend that keeps everything in memory, and nothing beyond the life of the process: a write that
// was acknowledged is gone when the process is. It is for tests, demonstrations, and agents whose tasks may be lost.
//
// It is bounded in bytes. At the bound every write that needs more room is refused with backend.ErrMemoryLimit and changes
// nothing; nothing is evicted but what Sweep and Delete remove.
//
// Records are spread over shards by their key, so that calls for different tasks hardly ever wait for each other. The order
// of lists is kept apart from the records and follows them lazily (see order): a write only notes that its task has moved.
package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Config is how a Store is opened. It names no place: a Store keeps nothing when it is closed or the process ends, and does
// not say so by itself; whoever offers it to people does.
type Config struct {
	// MaxBytes bounds the memory that tasks, logs, claims and tombstones take, with what is needed to find them: an estimate
	// that is rather too high than too low. It does not count what calls need while they run, the slots of maps whose entries
	// are gone (the next ones take them), nor the garbage that the collector has not got to: leave the process about as much
	// again.
	MaxBytes int64
	// Limits are what writes are checked against.
	Limits backend.Limits
	// Now is the store's clock, safe for concurrent use; nil is time.Now.
	Now func() time.Time
}

// shards is how many pieces the keys are spread over: enough that on any machine two calls that run at once rarely meet.
const shards = 64

// Store is a backend.Store in memory.
type Store struct {
	limits  backend.Limits
	now     func() time.Time
	seed    maphash.Seed
	memory  budget
	records [shards]shard
	claims  [shards]claimShard
	order   order

	watchers backend.Watchers
}

var _ backend.Store = (*Store)(nil)

// shard holds the records of some keys.
//
// Locks are taken in this order: order.mu, records' shards by ascending index, one claims' shard.
type shard struct {
	// running is held for reading by the calls for the shard's keys, from start to end, and for writing by Close.
	running sync.RWMutex
	closed  bool

	mu      sync.RWMutex
	records table[backend.Key, record]
	// moved are the records whose place in the order of lists may have changed.
	moved []*record

	_ [64]byte // keeps the locks of neighbours on different cache lines
}

// Open returns an empty Store.
func Open(config Config) (*Store, error) {
	if config.MaxBytes <= 0 {
		return nil, errors.New("memory: MaxBytes must be positive")
	}
	s := &Store{limits: config.Limits, now: config.Now, seed: maphash.MakeSeed()}
	if s.now == nil {
		s.now = time.Now
	}
	s.memory.limit = config.MaxBytes
	s.order.init()
	for i := range s.records {
		s.records[i].records.init()
		s.claims[i].claims.init()
	}
	return s, nil
}

func (s *Store) shard(key backend.Key) *shard {
	return &s.records[maphash.Comparable(s.seed, key)%shards]
}

// enter starts a call; unless it fails, leave ends it.
func (sh *shard) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh.running.RLock()
	if sh.closed {
		sh.running.RUnlock()
		return backend.Unavailable("the store is closed", nil)
	}
	return nil
}

func (sh *shard) leave() { sh.running.RUnlock() }

// Ping reports whether the Store is open.
func (s *Store) Ping(ctx context.Context) error {
	sh := &s.records[0]
	if err := sh.enter(ctx); err != nil {
		return err
	}
	sh.leave()
	return nil
}

// Close ends the Store and frees what it holds. A second Close does nothing.
func (s *Store) Close() error {
	for i := range s.records {
		sh := &s.records[i]
		sh.running.Lock()
		sh.closed = true
		sh.records.init()
		sh.moved = nil
		sh.running.Unlock()
	}
	// Calls that are not about one task enter the first shard, and claims enter theirs: no call runs any more.
	for i := range s.claims {
		s.claims[i].claims.init()
	}
	s.order.init()
	return nil
}

// PollInterval is 0: Watch misses nothing.
func (s *Store) PollInterval() time.Duration { return 0 }

// Watch has fn called after each commit that changed a task or its log. A call that has begun when stop is called may end
// after it.
func (s *Store) Watch(fn func(backend.Key)) (stop func()) { return s.watchers.Add(fn) }

// Heads returns the Head of each key.
func (s *Store) Heads(ctx context.Context, keys []backend.Key) ([]backend.Head, error) {
	first := &s.records[0]
	if err := first.enter(ctx); err != nil {
		return nil, err
	}
	defer first.leave()
	heads := make([]backend.Head, len(keys))
	for i, key := range keys {
		sh := s.shard(key)
		sh.mu.RLock()
		if rec := sh.records.get(key); rec != nil {
			heads[i] = rec.row.Head()
		}
		sh.mu.RUnlock()
	}
	return heads, nil
}
