package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

var ann = Subject{OfPrincipal, "ann"}

// retryAfter is when a refusal says that it may be tried again.
func retryAfter(t *testing.T, err error, reason backend.Reason) time.Duration {
	t.Helper()
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || backend.ReasonOf(err) != reason {
		t.Fatalf("%v, want %s", err, reason)
	}
	return refusal.RetryAfter
}

func TestRequestsPerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, limits := NewTable(), Limits{RequestsPerSecond: 10}
		admitted := 0
		for range 300 { // 3 s of 100 a second
			if err := table.Request(ann, limits); err == nil {
				admitted++
			} else if wait := retryAfter(t, err, ErrRate); wait <= 0 || wait > 100*time.Millisecond {
				t.Fatalf("try again after %v", wait)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if admitted < 39 || admitted > 40 {
			t.Errorf("%d in 3 s, want those of 3 s and a burst of 1 s", admitted)
		}
		if err := table.Request(Subject{OfTenant, "ann"}, limits); err != nil {
			t.Errorf("a tenant of the same name: %v", err)
		}
	})
}

func TestBytesPerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, limits := NewTable(), Limits{BytesPerSecond: 1000}
		if err := table.Request(ann, limits); err != nil {
			t.Fatal(err)
		}
		if wait := table.Bytes(ann, limits, 5000); wait != 4*time.Second {
			t.Errorf("5000 bytes are within 1000 per second in %v", wait)
		}
		wait := retryAfter(t, table.Request(ann, limits), ErrRate)
		time.Sleep(wait)
		if err := table.Request(ann, limits); err != nil {
			t.Errorf("after the %v that it said: %v", wait, err)
		}
	})
}

func TestLimitsChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := NewTable()
		for range 2 {
			_ = table.Request(ann, Limits{RequestsPerSecond: 1})
		}
		retryAfter(t, table.Request(ann, Limits{RequestsPerSecond: 1}), ErrRate)
		if wait := retryAfter(t, table.Request(ann, Limits{RequestsPerSecond: 10_000}), ErrRate); wait > time.Millisecond {
			t.Errorf("with a higher limit: try again after %v", wait)
		}
		if err := table.Request(ann, Limits{}); err != nil {
			t.Errorf("without a limit: %v", err)
		}
	})
}

func TestOpenStreams(t *testing.T) {
	t.Parallel()
	table, limits := NewTable(), Limits{OpenStreams: 2}
	var releases []func()
	for range 2 {
		release, err := table.OpenStream(ann, limits)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := table.OpenStream(ann, limits); retryAfter(t, err, ErrStreams) != 0 {
		t.Error("a third may be tried again")
	}
	releases[0]()
	if _, err := table.OpenStream(ann, limits); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// TestTableForgets shows that names that callers make up do not stay.
func TestTableForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := NewTable()
		for i := range 5000 {
			_ = table.Request(Subject{OfTenant, fmt.Sprint(i)}, Limits{RequestsPerSecond: 1})
		}
		release, err := table.OpenStream(ann, Limits{OpenStreams: 1})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for i := range 500 { // so that each part has a reason to look
			_ = table.Request(Subject{OfTenant, fmt.Sprint("new", i)}, Limits{RequestsPerSecond: 1})
		}
		if n := remembered(table); n > 501 {
			t.Errorf("%d are remembered", n)
		}
		if _, err := table.OpenStream(ann, Limits{OpenStreams: 1}); err == nil {
			t.Error("an open stream was forgotten")
		}
		release()
	})
}

func TestCounter(t *testing.T) {
	t.Parallel()
	c := NewCounter(10)
	if !c.Take(25) {
		t.Error("what is larger than all is never taken")
	}
	if c.Take(1) {
		t.Error("taken beyond all")
	}
	c.Give(25)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 1000 {
				if c.Take(3) {
					c.Give(3)
				}
			}
		})
	}
	wg.Wait()
	if c.Used() != 0 {
		t.Errorf("%d are left in use", c.Used())
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10)
		if !b.TryTake(6) || b.TryTake(5) {
			t.Fatal("6 and 5 of 10")
		}
		var order []int
		take := func(n int64) {
			go func() {
				if err := b.Take(t.Context(), n); err != nil {
					t.Error(err)
				}
				order = append(order, int(n))
			}()
			synctest.Wait()
		}
		take(100) // all of it, in front of a small one that would fit
		take(1)
		if b.TryTake(1) || b.Blocked() != 2 || len(order) != 0 {
			t.Fatalf("passed those that wait: %v", order)
		}
		b.Give(6)
		synctest.Wait()
		if fmt.Sprint(order) != "[100]" {
			t.Fatalf("served %v", order)
		}
		b.Give(100)
		synctest.Wait()
		if fmt.Sprint(order) != "[100 1]" || b.Used() != 1 {
			t.Fatalf("served %v, %d used", order, b.Used())
		}
	})
}

// TestBudgetWaitersLeave shows that one that gives up holds nothing, and nobody up.
func TestBudgetWaitersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10)
		b.TryTake(5)
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- b.Take(ctx, 10) }()
		synctest.Wait()
		go func() { second <- b.Take(t.Context(), 5) }()
		synctest.Wait()
		cancel(left)
		if err := <-first; err != left {
			t.Errorf("the first: %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the second: %v", err)
		}
		if b.Used() != 10 || b.Blocked() != 0 {
			t.Errorf("%d used, %d wait", b.Used(), b.Blocked())
		}
	})
}

// TestStalled shows that patience ends only when somebody waits.
func TestStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shares := NewShares(10)
		reader, other := shares.Open("reader"), shares.Open("other")
		reader.TryTake(10)
		ended := make(chan error, 1)
		go func() { ended <- reader.Await(t.Context(), make(chan struct{}), time.Minute) }()
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			t.Fatalf("ended while nobody waits: %v", err)
		default:
		}
		go func() { _ = other.Take(t.Context(), 1) }()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		retryAfter(t, <-ended, ErrStalled)
		reader.Give(10)
	})
}

// remembered is how many subjects a table holds.
func remembered(t *Table) int {
	n := 0
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		n += len(p.usage)
		p.mu.Unlock()
	}
	return n
}
