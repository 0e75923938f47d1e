package memory

import (
	"sort"

	"github.com/a2a-taskstore/taskstore/backend"
)

// record is what stands under a key. Its shard's lock guards it, but for keys.
type record struct {
	key  backend.Key
	row  backend.Row
	body body
	log  eventLog
	// size is what the budget was charged.
	size int64
	// moved tells that the record is among its shard's moved ones.
	moved bool
	// keys are the record's in the order of lists; order.mu guards them.
	keys [][]byte
}

// none stands for the record of a key that has none.
var none record

// lookup returns the record under the key; &none, which nobody changes, if there is none.
func (sh *shard) lookup(key backend.Key) *record {
	if rec := sh.records.get(key); rec != nil {
		return rec
	}
	return &none
}

// change gives the key's record another row, and a new record to a key that has none. The budget has been asked.
func (sh *shard) change(rec *record, key backend.Key, row *backend.Row, size int64) *record {
	if rec == &none {
		rec = sh.records.add(key, record{key: key})
	}
	if !rec.moved && placedElsewhere(&rec.row, row) {
		rec.moved = true
		sh.moved = append(sh.moved, rec)
	}
	rec.row, rec.size = *row, size
	return rec
}

// placedElsewhere reports whether the rows differ in what index keys are made of.
func placedElsewhere(a, b *backend.Row) bool {
	task := b.Kind == backend.RowTask
	return (a.Kind == backend.RowTask) != task ||
		task && (a.State != b.State || a.Time != b.Time || a.ContextID != b.ContextID || a.Owner != b.Owner)
}

// eventLog is the log of a record. It answers what the plan of an append asks (backend.Log), under the shard's lock.
type eventLog struct {
	events queue[backend.Event]
	// writes finds the latest append with a write_id, as long as one of its events is there.
	writes map[string]span
	// writeIDs is what the write ids take.
	writeIDs int64
}

type span struct{ first, last, version int64 }

var _ backend.Log = (*eventLog)(nil)

// ByWriteID returns the events of an append.
func (l *eventLog) ByWriteID(writeID string) (first, last, version int64, ok bool, err error) {
	s, ok := l.writes[writeID]
	return s.first, s.last, s.version, ok, nil
}

// At returns the event at a position.
func (l *eventLog) At(seq int64) (backend.Event, bool, error) {
	events := l.events.live()
	if i := behind(events, seq-1); i < len(events) && events[i].Seq == seq {
		return events[i], true, nil
	}
	return backend.Event{}, false, nil
}

// behind returns the index of the first event behind a position.
func behind(events []backend.Event, seq int64) int {
	return sort.Search(len(events), func(i int) bool { return events[i].Seq > seq })
}

// lastMarked returns the position of the last event with at most the mark, 0 if there is none.
func lastMarked(events []backend.Event, mark int64) int64 {
	i := sort.Search(len(events), func(i int) bool { return events[i].Mark() > mark })
	if i == 0 {
		return 0
	}
	return events[i-1].Seq
}

// add appends the events of one write.
func (l *eventLog) add(events []backend.Event) {
	l.events.push(events...)
	if len(events) == 0 || events[0].WriteID == "" {
		return
	}
	if l.writes == nil {
		l.writes = map[string]span{}
	}
	l.writes[events[0].WriteID] = span{
		first: events[0].Seq, last: events[len(events)-1].Seq, version: events[0].Version,
	}
	l.writeIDs += writeIDsSize(events)
}

// drop removes the oldest n events.
func (l *eventLog) drop(n int) {
	events := l.events.live()[:n]
	for i := range events {
		// A later append may have the same id: that one stays.
		if e := &events[i]; e.WriteID != "" && l.writes[e.WriteID].last == e.Seq {
			delete(l.writes, e.WriteID)
		}
	}
	l.writeIDs -= writeIDsSize(events)
	l.events.drop(n)
}
