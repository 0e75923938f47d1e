package bench

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/index"
	backendpebble "github.com/a2a-taskstore/taskstore/backend/pebble"
)

// barePebble writes what the pebble backend writes, keys and values of the same sizes, as one synced batch: without
// reading, locking, or deciding.
type barePebble struct {
	db     *pebble.DB
	fs     countingFS
	tenant string
	last   sync.Map // the n of the latest write, by key
}

// What the backend keeps of a task beside its payloads, in bytes.
const (
	bareRowSize     = 110
	bareInfoSize    = 12
	bareEventHeader = 20
)

func openBarePebble(_ context.Context, p *place) (bare, error) {
	b := &barePebble{fs: newCountingFS(), tenant: p.Tenant}
	cache := pebble.NewCache(backendpebble.DefaultCacheBytes)
	defer cache.Unref()
	o := &pebble.Options{
		FS: b.fs, Cache: cache, Logger: quiet{},
		MemTableSize:                backendpebble.DefaultMemTableBytes,
		MemTableStopWritesThreshold: 4,
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, 2 },
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	var err error
	if b.db, err = pebble.Open(p.Dir, o); err != nil {
		return nil, err
	}
	return b, nil
}

// quiet keeps Pebble from logging.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, _ ...any) { panic("pebble: " + format) }

func (b *barePebble) put(_ context.Context, w *bareWrite) error {
	id := taskName(w.key)
	batch := b.db.NewBatch()
	defer batch.Close()
	set := func(key, value []byte) { batch.Set(key, value, nil) } // appends to memory: no error

	set(b.key('r', id, ""), make([]byte, bareRowSize))
	if w.chunk == nil {
		set(b.key('d', id, "h"), w.task)
		b.move(batch, id, w)
	} else {
		batch.Merge(b.key('d', id, "b"), w.chunk, nil)
		set(b.key('d', id, "c"), make([]byte, bareInfoSize))
	}
	event := append(make([]byte, bareEventHeader, bareEventHeader+len(w.event)), w.event...)
	set(binary.BigEndian.AppendUint64(b.key('e', id, ""), uint64(w.n)), event)
	return batch.Commit(pebble.Sync)
}

func (b *barePebble) key(space byte, id, piece string) []byte {
	return []byte(string(space) + b.tenant + "\x00" + id + "\x00" + piece)
}

// move replaces the index keys, whose time, here w.n, changes with every write.
func (b *barePebble) move(batch *pebble.Batch, id string, w *bareWrite) {
	key := backend.Key{Tenant: b.tenant, TaskID: id}
	row := backend.Row{
		Kind: backend.RowTask, Owner: owner, ContextID: contextOf(w.key), State: int32(working),
		Time: document.Timestamp{Valid: true},
	}
	if last, ok := b.last.Swap(w.key, w.n); ok {
		row.Time.Seconds = last.(int64)
		for _, k := range index.AppendKeys(nil, key, &row) {
			batch.Delete(append([]byte{'x'}, k...), nil)
		}
	}
	row.Time.Seconds = w.n
	for _, k := range index.AppendKeys(nil, key, &row) {
		batch.Set(append([]byte{'x'}, k...), nil, nil)
	}
}

func (b *barePebble) count(context.Context) (counters, error) {
	return counters{Written: float64(b.fs.written.Load())}, nil
}

func (b *barePebble) close() error { return b.db.Close() }
