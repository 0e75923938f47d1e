package memory

import (
	"bytes"
	"slices"
	"sort"
	"sync"

	"github.com/tidwall/btree"

	"github.com/a2a-taskstore/taskstore/backend/index"
)

// order is the order of lists: the index keys of all tasks.
//
// Keeping it up to date in each write would cost more than the rest of the write, under one lock, and lists are rare. So a
// write only notes that its task has moved, and whoever needs the order lets it follow: a list, or a write that finds many
// notes in its shard. A task that has moved often in between is placed once.
type order struct {
	mu      sync.Mutex
	keys    *btree.BTreeG[[]byte]
	sources []index.Source // the keys
}

const (
	// manyMoved is the number of notes in one shard at which a write lets the order follow, unless somebody is at it. It is
	// small because the shard waits meanwhile, and because records that were written just now are still in the caches.
	manyMoved = 16
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

// follow places the moved records of a shard. The caller holds o.mu.
func (o *order) follow(sh *shard) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	o.place(sh)
}

// place does it while the caller also holds the shard's lock. A key's new record moved later than the one that was
// forgotten before, and is placed later.
func (o *order) place(sh *shard) {
	for i, rec := range sh.moved {
		rec.moved = false
		o.set(rec)
		sh.moved[i] = nil
	}
	sh.moved = sh.moved[:0]
}

// set puts the record where its row belongs.
func (o *order) set(rec *record) {
	keys := index.AppendKeys(nil, rec.key, &rec.row)
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
