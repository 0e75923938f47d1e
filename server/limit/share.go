package limit

import (
	"context"
	"sync"
	"time"
)

// Shares divides a Budget among its holders, so that one that gives nothing back leaves half of it to the others. They are made
// as they are asked for, and gone when nobody has them and nothing is taken.
type Shares struct {
	budget *Budget

	mu     sync.Mutex
	shares map[any]*Share
}

// Share is what one holder may take of a Budget: half of it, and one piece of any size.
type Share struct {
	of     *Shares
	holder any
	own    *Budget
	users  int // of.mu
}

// NewShares returns the Shares of a Budget of so many bytes.
func NewShares(size int64) *Shares {
	return &Shares{budget: NewBudget(size), shares: make(map[any]*Share)}
}

// Used is how many bytes all holders have taken.
func (s *Shares) Used() int64 { return s.budget.Used() }

// Open returns the share of a holder, any comparable value. The caller closes it.
func (s *Shares) Open(holder any) *Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.shares[holder]
	if share == nil {
		share = &Share{of: s, holder: holder, own: NewBudget(max(s.budget.size/2, 1))}
		s.shares[holder] = share
	}
	share.users++
	return share
}

// Close ends the use of the share. What was taken may be given back later.
func (h *Share) Close() {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.users--
	h.forget()
}

// forget removes a share that is of no use. Its caller holds of.mu.
func (h *Share) forget() {
	if h.users == 0 && h.own.Used() == 0 && h.of.shares[h.holder] == h {
		delete(h.of.shares, h.holder)
	}
}

// TryTake is Budget.TryTake.
func (h *Share) TryTake(n int64) bool {
	if !h.own.TryTake(n) {
		return false
	}
	if !h.of.budget.TryTake(n) {
		h.own.Give(n)
		return false
	}
	return true
}

// Take is Budget.Take. Who waits for the holder's own share is in nobody else's way.
func (h *Share) Take(ctx context.Context, n int64) error {
	if err := h.own.Take(ctx, n); err != nil {
		return err
	}
	if err := h.of.budget.Take(ctx, n); err != nil {
		h.own.Give(n)
		return err
	}
	return nil
}

// Give gives back what was taken.
func (h *Share) Give(n int64) {
	h.of.budget.Give(n)
	h.own.Give(n)
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.forget()
}

// Blocked is how many wait for what the holder has taken: others, and itself.
func (h *Share) Blocked() int { return h.own.Blocked() + h.of.budget.Blocked() }

// Await returns when done is closed, with the cause of ctx's end if that comes first, and with ErrStalled when it has taken
// longer than patience while somebody is blocked.
func (h *Share) Await(ctx context.Context, done <-chan struct{}, patience time.Duration) error {
	select {
	case <-done:
		return nil
	default:
	}
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if h.Blocked() > 0 {
				return Refuse(ErrStalled, OfServer, "stream_buffer_bytes",
					"the reader takes nothing, and others wait for the memory", time.Second)
			}
		}
	}
}
