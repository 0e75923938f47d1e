package memory

// table is a map that can be walked in pieces, while entries come and go between them: walked by descending slots, it shows
// every entry that was there all the time.
type table[K comparable, V any] struct {
	byKey map[K]*entry[K, V]
	slots []*entry[K, V]
}

type entry[K comparable, V any] struct {
	key   K
	slot  int
	value V
}

func (t *table[K, V]) init() { *t = table[K, V]{byKey: map[K]*entry[K, V]{}} }

// get returns the value under the key, nil if there is none.
func (t *table[K, V]) get(key K) *V {
	if e := t.byKey[key]; e != nil {
		return &e.value
	}
	return nil
}

// add adds a value under a key that has none.
func (t *table[K, V]) add(key K, value V) *V {
	e := &entry[K, V]{key: key, slot: len(t.slots), value: value}
	t.byKey[key] = e
	t.slots = append(t.slots, e)
	return &e.value
}

// remove removes what is under the key. The last entry, which a walk by descending slots has seen, takes its slot.
func (t *table[K, V]) remove(key K) {
	e := t.byKey[key]
	last := t.slots[len(t.slots)-1]
	t.slots[e.slot], last.slot = last, e.slot
	t.slots[len(t.slots)-1] = nil
	t.slots = t.slots[:len(t.slots)-1]
	delete(t.byKey, key)
}
