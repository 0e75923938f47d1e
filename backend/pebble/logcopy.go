package pebble

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logCopy keeps a write-ahead log as it is while a checkpoint copies it. Pebble copies it piece by piece while it is being
// written: a piece that is read where nothing is yet, followed by one that was written meanwhile, is a hole in the copy,
// which Open takes for corruption, and rightly so. So writes of logs wait for the copy of a log, which is bounded by what
// a few memtables hold.
type logCopy struct {
	// on is set during a checkpoint, when whoever opens a log for reading copies it.
	on      atomic.Bool
	writing sync.RWMutex // held, shared, by each write of a log, and alone by a copy
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// Open opens a file for reading. Until a log is closed, a checkpoint's, nothing is written to logs.
func (g *gate) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if !g.logs.on.Load() || !g.inside(name) || !isLog(name) {
		return g.FS.Open(name, opts...)
	}
	g.logs.writing.Lock()
	f, err := g.FS.Open(name, opts...)
	if err != nil {
		g.logs.writing.Unlock()
		return nil, err
	}
	return &copiedLog{File: f, unlock: sync.OnceFunc(g.logs.writing.Unlock)}, nil
}

type copiedLog struct {
	vfs.File
	unlock func()
}

// Close lets writes go on.
func (f *copiedLog) Close() error {
	defer f.unlock()
	return f.File.Close()
}
