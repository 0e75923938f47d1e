package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/a2a-taskstore/taskstore/backend"
)

// disk fails as told: the operation that is number at of those that it is about, and, if full, all that follow.
type disk struct {
	name  string
	err   error
	about func(errorfs.Op) bool
	full  bool
	late  int // it fails at the 1 << late-th operation or before

	mu   sync.Mutex
	at   int
	hits int
}

func (d *disk) String() string { return d.name }

func (d *disk) MaybeError(op errorfs.Op) error {
	if !d.about(op) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at--
	if d.at == 0 || (d.at < 0 && d.full) {
		d.hits++
		return d.err
	}
	return nil
}

func (d *disk) hit() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hits > 0
}

func kinds(ks ...errorfs.OpKind) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool { return slices.Contains(ks, op.Kind) }
}

// lines is a log that tests read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), s)
}

// The disk fails once, or is full from then on, at every kind of operation and at many points of a run, also while the
// store opens. Each time every caller gets an answer, the store says once why it is broken and refuses to go on, and what
// it acknowledged is there when the directory is opened again.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	for _, d := range []*disk{
		{name: "disk full", err: syscall.ENOSPC, full: true, late: 10, about: kinds(
			errorfs.OpCreate, errorfs.OpReuseForWrite, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData)},
		{name: "failed write", err: syscall.EIO, late: 10, about: kinds(errorfs.OpFileWrite)},
		{name: "failed sync", err: syscall.EIO, late: 9, about: kinds(errorfs.OpFileSync, errorfs.OpFileSyncData)},
		{name: "failed sync data", err: syscall.EIO, late: 9, about: kinds(errorfs.OpFileSyncData)},
		{name: "failed create", err: syscall.ENOSPC, late: 6, about: kinds(errorfs.OpCreate, errorfs.OpReuseForWrite)},
		{name: "failed remove", err: syscall.EIO, late: 6, about: kinds(errorfs.OpRemove)},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(diskFaults) {
				r := rand.New(rand.NewPCG(n, 3))
				failing := &disk{name: d.name, err: d.err, about: d.about, full: d.full}
				failing.at = 1 + r.IntN(1<<(1+r.IntN(d.late))) // early points as often as late ones
				if !failAndReopen(t, n, r, failing) {
					return
				}
			}
		})
	}
}

func failAndReopen(t *testing.T, seed uint64, r *rand.Rand, d *disk) bool {
	t.Helper()
	fatalf := func(format string, args ...any) bool {
		t.Errorf("%s, seed %d: %s", d.name, seed, fmt.Sprintf(format, args...))
		return false
	}
	mem := newCrashFS()
	log := &lines{}
	config := Config{
		Dir: "db", FS: errorfs.Wrap(mem, d), MemTableBytes: 64 << 10, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	hs := newHistories(6)
	s, err := Open(config)
	switch {
	case err == nil:
		l := startLoad(t.Context(), s, seed, hs, 2)
		<-s.fault.broken
		for _, err := range l.end() {
			if !errors.Is(err, backend.ErrBroken) {
				return fatalf("a call got %v", err)
			}
		}
		if err := s.Ping(t.Context()); !errors.Is(err, backend.ErrBroken) || !errors.Is(err, d.err) {
			return fatalf("ping: %v, which does not name the cause", err)
		}
		if err := newHistory("late").step(t.Context(), s, r); !errors.Is(err, backend.ErrBroken) {
			return fatalf("a broken store answered a write with %v", err)
		}
		if err := s.Close(); !errors.Is(err, backend.ErrBroken) {
			return fatalf("close: %v", err)
		}
		if n := log.count("level=ERROR msg=\"the store is broken"); n != 1 {
			return fatalf("the log says %d times that the store is broken", n)
		}
	case !errors.Is(err, d.err):
		return fatalf("open: %v, which does not name the cause", err)
	}
	if !d.hit() {
		return fatalf("the disk did not fail")
	}

	fs := mem
	if r.IntN(2) == 0 { // the machine goes down with it
		fs = mem.cut(r.IntN(101), r)
	}
	s, err = Open(Config{Dir: "db", FS: fs, MemTableBytes: 64 << 10})
	if err != nil {
		return fatalf("open again: %v", err)
	}
	checkAll(t, s, hs, allBounds(hs))
	if err := s.Close(); err != nil {
		return fatalf("close: %v", err)
	}
	if t.Failed() {
		return fatalf("failed at point of time %d", d.at)
	}
	return true
}
