package pebble

import "github.com/a2a-taskstore/taskstore/backend"

// rowCache holds the records of a few keys as the latest batch that touched them leaves them, applied or on its way to be:
// who holds the stripe sees them as it would in the store. After a batch that failed nobody looks, since the store is broken.
type rowCache struct {
	slots [4]cachedRow
	next  int // the slot that is replaced next
}

type cachedRow struct {
	key backend.Key
	rec *record // never changed; nil: nothing is known
}

// get returns what is known of a key, or nil.
func (c *rowCache) get(key backend.Key) *record {
	for i := range c.slots {
		if s := &c.slots[i]; s.rec != nil && s.key == key {
			return s.rec
		}
	}
	return nil
}

// set notes the record of a key; with nil, that nothing is known of it any more.
func (c *rowCache) set(key backend.Key, rec *record) {
	for i := range c.slots {
		if s := &c.slots[i]; s.rec != nil && s.key == key {
			s.rec = rec
			return
		}
	}
	if rec != nil {
		c.slots[c.next] = cachedRow{key, rec}
		c.next = (c.next + 1) % len(c.slots)
	}
}
