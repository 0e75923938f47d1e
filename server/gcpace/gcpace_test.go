package gcpace

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTarget(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: mostTarget, 1 << 20: mostTarget, Headroom / 4: mostTarget, Headroom / 2: 200, Headroom: defaultTarget, 8 << 30: defaultTarget,
	} {
		if got := targetFor(live); got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
	}
}

// current is the target in force.
func current() int {
	n := debug.SetGCPercent(defaultTarget)
	debug.SetGCPercent(n)
	return n
}

// The target follows the heap through collections, in both directions, and is what it was once it is stopped.
func TestFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	stop := Start()
	defer stop()
	until := func(what string, reached func(target int) bool) {
		t.Helper()
		for range 1000 {
			runtime.GC()
			if reached(current()) {
				return
			}
			runtime.Gosched()
		}
		t.Fatalf("%s: the target is %d", what, current())
	}
	until("small heap", func(n int) bool { return n == mostTarget })
	large := make([]byte, Headroom)
	until("large heap", func(n int) bool { return n == defaultTarget })
	runtime.KeepAlive(large)
	until("small again", func(n int) bool { return n == mostTarget })
	stop()
	if n := current(); n != defaultTarget {
		t.Errorf("stopped: %d", n)
	}
}

func TestLeavesGOGCAlone(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := current()
	defer Start()()
	if n := current(); n != before {
		t.Errorf("%d, was %d", n, before)
	}
}
