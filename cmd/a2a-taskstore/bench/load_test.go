package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDriveKeepsAllCallersBusyUntilTheTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := drive(t.Context(), 3, time.Second, func(_ context.Context, caller, _ int) error {
			time.Sleep(time.Duration(caller+1) * 99 * time.Millisecond) // of the bubble's clock
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// 11 calls of 99 ms, 6 of 198 ms and 4 of 297 ms begin within a second.
		if len(l.latencies) != 11+6+4 || !slices.IsSorted(l.latencies) || l.elapsed != 4*297*time.Millisecond {
			t.Errorf("%d calls in %v: %v", len(l.latencies), l.elapsed, l.latencies)
		}
		m := l.metrics()
		if !same(m[P50], 99_000) || !same(m[P99], 297_000) || !same(m[Throughput], 21/1.188) {
			t.Errorf("metrics %v", m)
		}
	})
}

func TestDriveCountSharesTheOperations(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ callers, ops, want int }{{4, 20, 5}, {8, 3, 1}, {1, 7, 7}} {
		var mu sync.Mutex
		calls := map[int]int{}
		if _, err := driveCount(t.Context(), tc.callers, tc.ops, func(_ context.Context, caller, n int) error {
			mu.Lock()
			defer mu.Unlock()
			if n != calls[caller] {
				t.Errorf("call %d of caller %d came as number %d", calls[caller], caller, n)
			}
			calls[caller]++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for caller := range tc.callers {
			if calls[caller] != tc.want {
				t.Errorf("%+v: caller %d made %d calls", tc, caller, calls[caller])
			}
		}
	}
}

func TestDriveEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := drive(t.Context(), 2, time.Hour, func(ctx context.Context, caller, _ int) error {
		if caller == 0 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
