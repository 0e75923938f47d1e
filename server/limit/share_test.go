package limit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A holder that gives nothing back leaves half of the budget to the others, whatever waits for its own half.
func TestShareLeavesHalfToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(100)
		greedy, other := s.Open("greedy"), s.Open("other")
		if !greedy.TryTake(30) || !greedy.TryTake(20) || greedy.TryTake(1) {
			t.Error("a share is not half of the budget")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- greedy.Take(ctx, 1) }()
		synctest.Wait()
		if greedy.Blocked() != 1 || other.Blocked() != 0 {
			t.Errorf("blocked: %d by itself, %d for others", greedy.Blocked(), other.Blocked())
		}
		if !other.TryTake(50) || s.Used() != 100 {
			t.Errorf("the other half is not there, %d used", s.Used())
		}
		gone := errors.New("gone")
		cancel(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Errorf("ended with %v", err)
		}
		greedy.Give(50)
		other.Give(50)
		if !other.TryTake(1000) || other.TryTake(1) { // one piece of any size, once all is there
			t.Error("a large piece is not taken, or not counted")
		}
	})
}

// What a holder has taken counts when it comes back, and is forgotten with its last byte.
func TestShareIsTheHoldersAsLongAsItHolds(t *testing.T) {
	t.Parallel()
	s := NewShares(100)
	first := s.Open(1)
	if !first.TryTake(50) {
		t.Fatal("no room")
	}
	first.Close()
	again := s.Open(1)
	if again.TryTake(1) {
		t.Error("the holder has a second half")
	}
	again.Close()
	first.Give(50)
	if s.Used() != 0 || len(s.shares) != 0 {
		t.Errorf("%d used, %d shares", s.Used(), len(s.shares))
	}
}

// TestSharesAreForgotten: a wait that is given up, for the holder's own share or for all, leaves nothing behind.
func TestSharesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(8)
		first := s.Open(0)
		if err := first.Take(t.Context(), 15); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 20)
		for i := range cap(ended) {
			share := s.Open(i % 2)
			go func() {
				ended <- share.Take(ctx, 15)
				share.Close()
			}()
		}
		synctest.Wait()
		if n := s.budget.Blocked(); n != 1 {
			t.Errorf("%d stand in the common line, want the front of the other holder", n)
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		}
		synctest.Wait()
		if n := len(s.shares); n != 1 {
			t.Errorf("%d shares, want the one of which something is taken", n)
		}
		first.Give(15)
		first.Close()
		if s.Used() != 0 || len(s.shares) != 0 {
			t.Errorf("%d used, %d shares", s.Used(), len(s.shares))
		}
	})
}
