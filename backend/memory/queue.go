package memory

// queue is a list that grows at its end and loses its beginning, at a constant price per item. What live returned stays as
// it was, so a reader needs a lock only to call it.
type queue[T any] struct {
	items []T
	dead  int // how many of the first items are gone
}

// live returns the items.
func (q *queue[T]) live() []T { return q.items[q.dead:len(q.items):len(q.items)] }

// push adds items at the end, beyond the length that any reader has.
func (q *queue[T]) push(items ...T) { q.items = append(q.items, items...) }

// drop removes the first n items. Readers may look at them, so they are not cleared: they stay in memory until they are an
// eighth of the list, and the others then move.
func (q *queue[T]) drop(n int) {
	q.dead += n
	if q.dead <= len(q.items)/8 {
		return
	}
	live := q.live()
	q.items, q.dead = nil, 0
	if len(live) > 0 {
		q.items = append(make([]T, 0, len(live)+len(live)/4), live...)
	}
}
