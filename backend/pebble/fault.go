package pebble

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/cockroachdb/pebble/v2"
)

// fault is the store's switch from working to broken. It goes one way: what a failed write or sync has left in the disk
// and in the page cache is unknown, and only reading it all again, by opening the store, finds out.
type fault struct {
	log *slog.Logger
	// broken is closed when the fault happens. Everything that waits for Pebble also waits for it: Pebble ends some faults
	// in a panic that leaves its locks held, so what it was asked may never be answered.
	broken chan struct{}
	once   sync.Once
	err    error // set before broken is closed
	// serving is set once the store is open. Before that Open returns the cause, and nothing is logged.
	serving atomic.Bool
	// stalls counts how often writes began to wait for compaction.
	stalls atomic.Int64
}

func newFault(log *slog.Logger) *fault {
	return &fault{log: log, broken: make(chan struct{})}
}

// raise breaks the store. The first cause counts.
func (f *fault) raise(cause error) error {
	f.once.Do(func() {
		f.err = backend.Broken("the store met a fault and refuses everything until it is opened again", cause)
		if f.serving.Load() {
			// Not the error itself: Pebble's print their stacks.
			f.log.Error("the store is broken and refuses everything until it is opened again", "cause", cause.Error())
		}
		close(f.broken)
	})
	<-f.broken
	return f.err
}

// get returns the error of a broken store, else nil.
func (f *fault) get() error {
	select {
	case <-f.broken:
		return f.err
	default:
		return nil
	}
}

// run calls fn and returns its error, or that of the fault that happens meanwhile: then fn may go on for ever, in a
// goroutine that nobody waits for. A panic of fn is a fault.
func (f *fault) run(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- f.catch(fn) }()
	select {
	case err := <-done:
		return err
	case <-f.broken:
		return f.err
	}
}

// catch calls fn; a panic is a fault.
func (f *fault) catch(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = f.raise(fmt.Errorf("pebble: %v", r))
		}
	}()
	return fn()
}

// read makes a store error of one that came from reading.
func (f *fault) read(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		return f.raise(err)
	default:
		return backend.Unavailable("the store cannot read", err)
	}
}

// corrupt reports a stored value that is not what it must be.
func (f *fault) corrupt(what string, err error) error {
	return f.raise(fmt.Errorf("%s: %w", what, err))
}

// logger is Pebble's Logger. A call of Fatalf, after which Pebble counts on not going on, breaks the store and parks the
// goroutine for ever, which keeps the process, and with it the readable line and the caller's error.
type logger struct{ *fault }

var _ pebble.Logger = logger{}

// Infof logs what Pebble does in the background.
func (l logger) Infof(format string, args ...any) {
	l.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

// Errorf logs what Pebble goes on after.
func (l logger) Errorf(format string, args ...any) {
	l.log.Warn("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf does not return.
func (l logger) Fatalf(format string, args ...any) {
	_ = l.raise(fmt.Errorf("pebble: "+format, args...))
	select {}
}

// listener hears of faults in the background, which no call returns.
func (f *fault) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if pebble.IsCorruptionError(err) {
				_ = f.raise(err)
				return
			}
			f.log.Warn("pebble: background error", "cause", err.Error())
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			_ = f.raise(fmt.Errorf("pebble: %s", info))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			f.stalls.Add(1)
			f.log.Warn("pebble: writes wait for compaction", "reason", info.Reason)
		},
	}
}
