// Package gcpace spaces out the cycles of the garbage collector in a process that serves small calls.
//
// Go's default target lets the heap grow by its live size before it is collected again. A store whose live heap is small
// collects dozens of times a second under load, which costs a third of its CPU time. A larger target is bought with memory, so
// it must not hold for a large heap: Start lets garbage grow to four times the live heap, and no further than Headroom unless
// the live heap is larger itself.
package gcpace

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// Headroom is the garbage, in bytes, up to which a collection may wait because of this package.
	Headroom = 256 << 20

	// Targets in percent of the live heap.
	defaultTarget = 100
	mostTarget    = 400
)

// Start adjusts the target after every collection, until stop is called, which sets the default again. It does nothing where
// GOGC is set: then somebody else has decided. GOMEMLIMIT is respected in any case.
func Start() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &pacer{target: mostTarget, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	debug.SetGCPercent(p.target)
	runtime.SetFinalizer(&mark{p}, (*mark).collected)
	return func() {
		p.stopped.Store(true)
		debug.SetGCPercent(defaultTarget)
	}
}

// mark is garbage at once; each collection finds it, and the finalizer revives it.
type mark struct{ *pacer }

func (m *mark) collected() {
	if m.stopped.Load() {
		return
	}
	metrics.Read(m.sample)
	m.adjust(m.sample[0].Value.Uint64())
	runtime.SetFinalizer(m, (*mark).collected)
}

type pacer struct {
	target  int
	stopped atomic.Bool
	sample  []metrics.Sample
}

// adjust follows the live heap in steps of a quarter, since each change stops the world for a moment.
func (p *pacer) adjust(live uint64) {
	t := targetFor(live)
	if t != p.target && (t == mostTarget || t == defaultTarget || t*4 < p.target*3 || t*3 > p.target*4) {
		p.target = t
		debug.SetGCPercent(t)
	}
}

func targetFor(live uint64) int {
	return int(min(max(Headroom*100/max(live, 1), defaultTarget), mostTarget))
}
