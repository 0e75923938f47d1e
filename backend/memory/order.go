package memory

import (
	"bytes"
	"slices"
	"sort"
	"sync"

	"github.com/tidwall/btree"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/index"
)

// order is the order of lists: the index keys of all tasks.
//
// Keeping it up to date in each write would cost more than the rest of the write, and lists are rare. So a write only notes
// that its task has moved, and whoever needs the order lets it follow: a list, or a write that finds many notes. A task that
// has moved often in between is placed once.
type order struct {
	mu      sync.Mutex
	keys    *btree.BTreeG[[]byte]
	sources []index.Source // the keys
	batch   []place        // room for follow
}

// place is where a record belongs.
type place struct {
	rec *record
	row backend.Row
}

const (
	// manyMoved is the number of notes in one shard at which a write lets the order follow, unless somebody is at it.
	manyMoved = 32
	// tooMany is the number at which it waits for its turn.
	tooMany = 16 * manyMoved
)

func (o *order) init() {
	o.keys = btree.NewBTreeGOptions(
		func(a, b []byte) bool { return bytes.Compare(a, b) < 0 }, btree.Options{NoLocks: true})
	o.sources = []index.Source{source{o.keys}}
}

// relieve lets the order follow a shard that has many notes. The caller holds no lock.
func (s *Store) relieve(sh *shard, backlog int) {
	switch {
	case backlog < manyMoved:
		return
	case backlog >= tooMany:
		s.order.mu.Lock()
	case !s.order.mu.TryLock():
		return
	}
	defer s.order.mu.Unlock()
	s.order.follow(sh)
}

// follow places the moved records of a shard, without keeping its lock. The caller holds o.mu.
func (o *order) follow(sh *shard) {
	batch := o.batch[:0]
	sh.mu.Lock()
	sh.takeMoved(func(rec *record) { batch = append(batch, place{rec, rec.row}) })
	sh.mu.Unlock()
	for i := range batch {
		o.set(batch[i].rec, &batch[i].row)
	}
	clear(batch)
	o.batch = batch
}

// place does the same while the caller also holds the shard's lock.
func (o *order) place(sh *shard) {
	sh.takeMoved(func(rec *record) { o.set(rec, &rec.row) })
}

// takeMoved calls fn for the moved records, in the order in which they moved: a key's new record comes behind the one that
// was forgotten.
func (sh *shard) takeMoved(fn func(*record)) {
	for i, rec := range sh.moved {
		rec.moved = false
		fn(rec)
		sh.moved[i] = nil
	}
	sh.moved = sh.moved[:0]
}

// set puts the record where the row belongs.
func (o *order) set(rec *record, row *backend.Row) {
	keys := index.AppendKeys(nil, rec.key, row)
	if slices.EqualFunc(keys, rec.keys, bytes.Equal) {
		return
	}
	for _, key := range rec.keys {
		o.keys.Delete(key)
	}
	for _, key := range keys {
		o.keys.Set(key)
	}
	rec.keys = keys
}

// source shows the keys to package index.
type source struct{ keys *btree.BTreeG[[]byte] }

var _ index.Counter = source{}

// NewIter returns an iterator over a range of the keys.
func (s source) NewIter(lower, upper []byte) (index.Iterator, error) {
	return &iterator{iter: s.keys.Iter(), lower: lower, upper: upper}, nil
}

// Count counts a range by the ranks of its bounds, which the tree's nodes know.
func (s source) Count(lower, upper []byte) (int, error) { return s.rank(upper) - s.rank(lower), nil }

func (s source) rank(key []byte) int {
	return sort.Search(s.keys.Len(), func(i int) bool {
		at, _ := s.keys.GetAt(i)
		return bytes.Compare(at, key) >= 0
	})
}

type iterator struct {
	iter         btree.IterG[[]byte]
	lower, upper []byte
}

func (it *iterator) SeekGE(key []byte) bool {
	if bytes.Compare(key, it.lower) < 0 {
		key = it.lower
	}
	return it.iter.Seek(key) && it.inRange()
}

func (it *iterator) Next() bool    { return it.iter.Next() && it.inRange() }
func (it *iterator) inRange() bool { return bytes.Compare(it.iter.Item(), it.upper) < 0 }
func (it *iterator) Key() []byte   { return it.iter.Item() }
func (it *iterator) Error() error  { return nil }
func (it *iterator) Close() error  { it.iter.Release(); return nil }
