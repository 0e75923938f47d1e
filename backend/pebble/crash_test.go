package pebble

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// cutsPerStore bounds the cuts of one store: then a fresh one comes, so that the clones stay small.
const cutsPerStore = 25

// Cuts the power under concurrent writers and readers, over and over. What was acknowledged, or shown to a reader, before
// the cut is there when the store opens again; what was in flight is there whole or not at all; and everything fits
// together.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	for n := range powerCuts / cutsPerStore {
		cutPower(t, uint64(n))
		if t.Failed() {
			return
		}
	}
}

func cutPower(t *testing.T, seed uint64) {
	mem := vfs.NewCrashableMem()
	r := rand.New(rand.NewPCG(seed, 1))
	// Syncs take a moment, as on a disk: that is when what is applied is not durable.
	slow := errorfs.Wrap(mem, errorfs.RandomLatency(syncs{}, 300*time.Microsecond, int64(seed), 0))
	s := open(t, Config{Dir: "db", FS: slow, MemTableBytes: 64 << 10})
	hs := newHistories(8)
	l := startLoad(t.Context(), s, seed, hs, 4)
	if seed%3 == 0 {
		l.sweep(t.Context(), s, hs)
	}
	for range cutsPerStore {
		hs[r.IntN(len(hs))].await(3 + r.IntN(30))
		before := allBounds(hs)
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
		after, err := Open(Config{Dir: "db", FS: clone, MemTableBytes: 64 << 10})
		if err != nil {
			t.Errorf("seed %d: open after the cut: %v", seed, err)
			break
		}
		checkAll(t, after, hs, before)
		if err := after.Close(); err != nil {
			t.Errorf("close after the cut: %v", err)
		}
		if t.Failed() {
			t.Logf("seed %d", seed)
			break
		}
	}
	for _, err := range l.end() {
		t.Errorf("a call failed: %v", err)
	}
}

// syncs is the predicate of everything that makes writes durable.
type syncs struct{}

func (syncs) String() string { return "syncs" }

func (syncs) Evaluate(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
}

// A second cut right after the first must not lose more: opening has made its own changes by then.
func TestPowerLossWhileOpening(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		mem := vfs.NewCrashableMem()
		r := rand.New(rand.NewPCG(seed, 2))
		s := open(t, Config{Dir: "db", FS: mem, MemTableBytes: 64 << 10})
		hs := newHistories(4)
		l := startLoad(t.Context(), s, seed, hs, 0)
		hs[0].await(50)
		before := allBounds(hs)
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: r})
		for _, err := range l.end() {
			t.Errorf("a call failed: %v", err)
		}

		var mu sync.Mutex // for second and at
		var second *vfs.MemFS
		at := r.IntN(40)
		cutting := errorfs.Wrap(clone, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && second == nil {
				if at--; at < 0 {
					second = clone.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: r})
				}
			}
			return nil
		}))
		after, err := Open(Config{Dir: "db", FS: cutting, MemTableBytes: 64 << 10})
		if err != nil {
			t.Fatalf("seed %d: open: %v", seed, err)
		}
		if err := after.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if second == nil { // fewer changes than that: the cut comes after them
			second = clone.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: r})
		}
		checkAll(t, open(t, Config{Dir: "db", FS: second}), hs, before)
	}
}
