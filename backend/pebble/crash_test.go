package pebble

import (
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// cutsPerStore bounds the cuts of one store: then a fresh one comes, so that the clones stay small.
const cutsPerStore = 25

// crashFS is a file system in memory of which a power cut leaves what was synced, and some of what was not.
//
// The MemFS takes its lock once more within the calls below: a cut that waits in between would wait forever, and they for it.
type crashFS struct {
	*vfs.MemFS
	cuts sync.RWMutex
}

func newCrashFS() *crashFS { return &crashFS{MemFS: vfs.NewCrashableMem()} }

// cut returns what the disk has if the power fails now, with up to so many percent of what was not synced.
func (fs *crashFS) cut(unsynced int, r *rand.Rand) *crashFS {
	fs.cuts.Lock()
	defer fs.cuts.Unlock()
	return &crashFS{MemFS: fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: r})}
}

func (fs *crashFS) Link(oldname, newname string) error {
	fs.cuts.RLock()
	defer fs.cuts.RUnlock()
	return fs.MemFS.Link(oldname, newname)
}

func (fs *crashFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	fs.cuts.RLock()
	defer fs.cuts.RUnlock()
	return fs.MemFS.ReuseForWrite(oldname, newname, category)
}

func (fs *crashFS) Lock(fullname string) (io.Closer, error) {
	fs.cuts.RLock()
	defer fs.cuts.RUnlock()
	return fs.MemFS.Lock(fullname)
}

// A cut waits for no call that waits for it.
func TestPowerCutsBesideCalls(t *testing.T) {
	t.Parallel()
	fs := newCrashFS()
	file, err := fs.Create("a", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	wg.Go(func() {
		r := rand.New(rand.NewPCG(0, 4))
		for {
			select {
			case <-done:
				return
			default:
				fs.cut(r.IntN(101), r)
			}
		}
	})
	for range 10_000 {
		file, err := fs.ReuseForWrite("a", "b", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		if err := fs.Link("b", "a"); err != nil {
			t.Fatal(err)
		}
		if err := fs.Remove("b"); err != nil {
			t.Fatal(err)
		}
		lock, err := fs.Lock("lock")
		if err != nil {
			t.Fatal(err)
		}
		_ = lock.Close()
	}
}

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
	mem := newCrashFS()
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
		clone := mem.cut(r.IntN(101), r)
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
		mem := newCrashFS()
		r := rand.New(rand.NewPCG(seed, 2))
		s := open(t, Config{Dir: "db", FS: mem, MemTableBytes: 64 << 10})
		hs := newHistories(4)
		l := startLoad(t.Context(), s, seed, hs, 0)
		hs[0].await(50)
		before := allBounds(hs)
		clone := mem.cut(50, r)
		for _, err := range l.end() {
			t.Errorf("a call failed: %v", err)
		}

		var mu sync.Mutex // for second and at
		var second *crashFS
		at := r.IntN(40)
		cutting := errorfs.Wrap(clone, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && second == nil {
				if at--; at < 0 {
					second = clone.cut(50, r)
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
			second = clone.cut(50, r)
		}
		checkAll(t, open(t, Config{Dir: "db", FS: second}), hs, before)
	}
}
