package limit

import (
	"context"
	"sync"
	"sync/atomic"
)

// Budget is memory that many share, in bytes. Those that find it used up wait in a line, so that a large piece is not passed
// over for ever by small ones.
type Budget struct {
	size int64

	mu      sync.Mutex
	used    int64
	waiting []*waiter
	blocked atomic.Int64 // len(waiting)
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// NewBudget returns a Budget of so many bytes.
func NewBudget(size int64) *Budget { return &Budget{size: size} }

// TryTake takes n bytes if they are there and nobody waits in front. More than the whole budget is taken when all of it is
// there.
func (b *Budget) TryTake(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) == 0 && b.take(n)
}

// Take waits for n bytes, or for the end of ctx, whose cause it returns.
func (b *Budget) Take(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.take(n) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.blocked.Store(int64(len(b.waiting)))
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.wake() // those behind may need less
			return context.Cause(ctx)
		}
	}
	b.used -= n // it came at the same time
	b.wake()
	return context.Cause(ctx)
}

// Give gives back what was taken.
func (b *Budget) Give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.wake()
}

// Blocked is how many wait.
func (b *Budget) Blocked() int { return int(b.blocked.Load()) }

// Used is how many bytes are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *Budget) take(n int64) bool {
	if b.used > 0 && b.used+n > b.size {
		return false
	}
	b.used += n
	return true
}

func (b *Budget) wake() {
	for len(b.waiting) > 0 && b.take(b.waiting[0].n) {
		close(b.waiting[0].ready)
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
	}
	b.blocked.Store(int64(len(b.waiting)))
}
