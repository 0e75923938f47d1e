package bench

import (
	"context"
	"maps"
	"runtime"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// counters are totals of what is reported per operation.
type counters map[Metric]float64

// meter reads counters.
type meter func(context.Context) (counters, error)

// read reads all meters.
func read(ctx context.Context, meters []meter) (counters, error) {
	all := counters{}
	for _, m := range meters {
		c, err := m(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, c)
	}
	return all, nil
}

// since returns what was counted since before, for each of so many operations.
func (c counters) since(before counters, ops int) map[Metric]float64 {
	out := make(map[Metric]float64, len(c))
	for m, v := range c {
		out[m] = (v - before[m]) / float64(ops)
	}
	return out
}

// ownProcess counts the allocations of this process: of a system in process, and of its callers.
func ownProcess(context.Context) (counters, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return counters{Allocs: float64(m.Mallocs), AllocBytes: float64(m.TotalAlloc)}, nil
}

// writes makes a meter of what a store in this process has written.
func writes(written func() int64) meter {
	return func(context.Context) (counters, error) { return counters{Written: float64(written())}, nil }
}

// countingFS is a file system that counts the bytes written to it: log, tables, and what compaction rewrites.
type countingFS struct {
	vfs.FS
	written *atomic.Int64
}

func newCountingFS() countingFS { return countingFS{FS: vfs.Default, written: new(atomic.Int64)} }

func (fs countingFS) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countingFile{f, fs.written}, nil
}

func (fs countingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.count(fs.FS.Create(name, category))
}

func (fs countingFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.count(fs.FS.ReuseForWrite(oldname, newname, category))
}

func (fs countingFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return fs.count(fs.FS.OpenReadWrite(name, category, opts...))
}

type countingFile struct {
	vfs.File
	written *atomic.Int64
}

func (f countingFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.written.Add(int64(n))
	return n, err
}

func (f countingFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.written.Add(int64(n))
	return n, err
}
