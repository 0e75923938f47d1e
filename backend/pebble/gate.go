package pebble

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is the file system that Pebble works on. The first change of the directory that fails breaks the store and shuts the
// gate: neither this call nor any later one that would change the directory ever returns to Pebble. Some of what Pebble
// does about such errors cannot be lived with: a failed switch to a new log ends in a panic that unlocks what is not locked,
// which ends the process, recover or not; a failed manifest in Logger.Fatalf; a failed flush is tried again for ever.
// So Pebble stays where it is, holding what it holds; whoever waits for it also waits for the fault, and nothing can touch
// the directory any more when another Store has it.
//
// What happens outside of the directory (a checkpoint elsewhere) is not judged.
type gate struct {
	vfs.FS
	dir   string
	fault *fault
	shut  atomic.Bool
	// running is held, shared, by each change; shutAndWait takes it alone.
	running sync.RWMutex
	lock    atomic.Pointer[directoryLock]
	logs    logCopy
}

func newGate(base vfs.FS, dir string, f *fault) *gate { return &gate{FS: base, dir: dir, fault: f} }

// inside reports whether the name is the directory, or in it.
func (g *gate) inside(name string) bool { return name == g.dir || g.PathDir(name) == g.dir }

// change runs an operation that changes the directory. It returns if the operation succeeds, or finds that a file does not
// exist.
func (g *gate) change(op func() error) error {
	err, ok := g.try(op)
	if !ok {
		select {}
	}
	return err
}

func (g *gate) try(op func() error) (err error, ok bool) {
	g.running.RLock()
	defer g.running.RUnlock()
	if g.shut.Load() {
		return nil, false
	}
	err = op()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err, true
	}
	g.shut.Store(true)
	_ = g.fault.raise(err)
	return nil, false
}

// shutAndWait shuts the gate and returns when nothing passes any more.
func (g *gate) shutAndWait() {
	g.shut.Store(true)
	g.running.Lock()
	defer g.running.Unlock()
}

func (g *gate) changeName(name string, op func() error) error {
	if !g.inside(name) {
		return op()
	}
	return g.change(op)
}

func (g *gate) open(name string, op func() (vfs.File, error)) (vfs.File, error) {
	if !g.inside(name) {
		return op()
	}
	var f vfs.File
	err := g.change(func() (err error) {
		f, err = op()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &gateFile{File: f, gate: g, log: isLog(name)}, nil
}

// Create also closes a gap: the file that makes a new manifest the current one must not become durable before the
// manifest's own name, and Pebble syncs the directory only after both.
func (g *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if g.inside(name) && strings.HasPrefix(g.PathBase(name), "marker.") {
		if err := g.syncDir(); err != nil {
			return nil, err
		}
	}
	return g.open(name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g *gate) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.open(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

func (g *gate) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open(newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenDir opens for syncing, which makes changes of names durable.
func (g *gate) OpenDir(name string) (vfs.File, error) {
	return g.open(name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

func (g *gate) syncDir() error {
	d, err := g.OpenDir(g.dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return errors.Join(err, d.Close())
	}
	return d.Close()
}

func (g *gate) Link(oldname, newname string) error {
	return g.changeName(newname, func() error { return g.FS.Link(oldname, newname) })
}

func (g *gate) Remove(name string) error {
	return g.changeName(name, func() error { return g.FS.Remove(name) })
}

func (g *gate) RemoveAll(name string) error {
	return g.changeName(name, func() error { return g.FS.RemoveAll(name) })
}

func (g *gate) Rename(oldname, newname string) error {
	return g.changeName(newname, func() error { return g.FS.Rename(oldname, newname) })
}

// MkdirAll makes the store's directory, or that of a checkpoint: for nobody but the owner, since it holds what everybody's
// tasks hold.
func (g *gate) MkdirAll(dir string, _ os.FileMode) error {
	return g.changeName(dir, func() error { return g.FS.MkdirAll(dir, 0o700) })
}

// Unwrap serves vfs.Root.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// Lock takes the directory's lock, and keeps it for release.
func (g *gate) Lock(name string) (io.Closer, error) {
	c, err := g.FS.Lock(name)
	if err != nil {
		// The lock's file cannot be opened: a *PathError. Else another process, or another Store of this one, has it.
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, err
		}
		return nil, errors.Join(ErrInUse, err)
	}
	l := &directoryLock{c: c}
	g.lock.Store(l)
	return l, nil
}

// release gives the directory's lock back, if it is still held: a broken Pebble is not closed, so does not.
func (g *gate) release() error {
	if l := g.lock.Load(); l != nil {
		return l.Close()
	}
	return nil
}

// directoryLock is closed once, by Pebble or by release.
type directoryLock struct {
	c    io.Closer
	once sync.Once
	err  error
}

func (l *directoryLock) Close() error {
	l.once.Do(func() { l.err = l.c.Close() })
	return l.err
}

// gateFile is a file that changes pass through. Reads, and hints such as Preallocate, are the file's own.
type gateFile struct {
	vfs.File
	gate *gate
	log  bool
}

func (f *gateFile) Write(p []byte) (n int, err error) {
	err = f.gate.change(func() (err error) {
		if f.log {
			f.gate.logs.writing.RLock()
			defer f.gate.logs.writing.RUnlock()
		}
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *gateFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.gate.change(func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *gateFile) Sync() error { return f.gate.change(f.File.Sync) }

func (f *gateFile) SyncData() error { return f.gate.change(f.File.SyncData) }

func (f *gateFile) SyncTo(length int64) (full bool, err error) {
	err = f.gate.change(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Close closes the file even if the gate is shut.
func (f *gateFile) Close() error {
	if f.gate.shut.Load() {
		return f.File.Close()
	}
	return f.gate.change(f.File.Close)
}
