package pebble

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/cockroachdb/pebble/v2"
)

// A write holds the stripe of its key only until its batch is applied: the next write on the key decides on it, and is
// behind it in the write-ahead log, so that its own sync covers both. This lets writers of one task share commits, too.
//
// Pebble shows a batch to readers when it is applied, before it is synced. Nobody may act on what a power cut could take
// back, so every call that answers with something other than its own commit waits for the syncs of what it may have seen
// (settle): it reads first, and then waits for the latest write of the stripes that it read. Where nothing is being
// written, that is no wait at all.

const stripeCount = 1024

// stripe orders the writes of the keys that hash to it.
type stripe struct {
	sem chan struct{} // full: held
	// latest is the latest write, set before its batch is applied.
	latest atomic.Pointer[write]
	// rows are those of the tasks that were written last under the stripe, so that a stream of writes to one task need not
	// read its row. They are the holder's.
	rows rowCache
}

// write is a batch on its way to the disk.
type write struct {
	done chan struct{} // closed when it is durable, or has failed
	err  error         // set before done is closed
}

func newStripes() []stripe {
	stripes := make([]stripe, stripeCount)
	for i := range stripes {
		stripes[i].sem = make(chan struct{}, 1)
	}
	return stripes
}

func (s *Store) taskStripe(k backend.Key) int {
	return int(maphash.Comparable(s.seed, k) % stripeCount)
}

func (s *Store) claimStripe(k backend.ClaimKey) int {
	return int(maphash.Comparable(s.seed, k) % stripeCount)
}

// section is the critical section of a write: it holds one stripe, or two if the write also carries a claim. It ends with
// a call of refuse or commit; end is for panics.
type section struct {
	s     *Store
	held  [2]*stripe // the second may be nil
	ended bool
}

// lock enters a critical section. Two stripes are taken in the order of their numbers.
func (s *Store) lock(ctx context.Context, i, j int) (*section, error) {
	x := &section{s: s}
	x.held[0] = &s.stripes[min(i, j)]
	if i != j {
		x.held[1] = &s.stripes[max(i, j)]
	}
	for n, st := range x.stripes() {
		if err := s.take(ctx, st); err != nil {
			if n == 1 {
				<-x.held[0].sem
			}
			return nil, err
		}
	}
	return x, nil
}

// stripes lists the stripes that are held.
func (x *section) stripes() []*stripe {
	if x.held[1] == nil {
		return x.held[:1]
	}
	return x.held[:]
}

func (s *Store) take(ctx context.Context, st *stripe) error {
	select {
	case st.sem <- struct{}{}:
		return nil
	case <-s.fault.broken:
		return s.fault.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends the section if nothing has.
func (x *section) end() {
	if !x.ended {
		x.unlock()
	}
}

func (x *section) unlock() {
	for _, st := range x.stripes() {
		<-st.sem
	}
}

// refuse ends the section without a write. It returns err once what the decision saw is durable.
func (x *section) refuse(ctx context.Context, err error) error {
	x.ended = true
	x.unlock()
	if serr := x.s.settle(ctx, x.stripes()...); serr != nil {
		return serr
	}
	return err
}

// commit ends the section with a write, and returns when it is durable. The watchers hear of the keys then. If ctx ends
// first, the write goes on, and its outcome is unknown to the caller.
func (x *section) commit(ctx context.Context, b *pebble.Batch, changed ...backend.Key) error {
	x.ended = true
	w := &write{done: make(chan struct{})}
	for _, st := range x.stripes() {
		st.latest.Store(w)
	}
	s := x.s
	s.commits.Add(1)
	// Pebble may never return (see fault), so the caller does not go there itself.
	s.committers.run(func() {
		defer s.commits.Done()
		defer close(w.done)
		w.err = s.fault.catch(func() error {
			if err := s.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
				return s.fault.raise(err)
			}
			x.unlock()
			if err := b.SyncWait(); err != nil {
				return s.fault.raise(err)
			}
			return b.Close()
		})
		if w.err == nil {
			s.committed.Add(1)
			s.watchers.Notify(changed...)
		}
	})
	return s.await(ctx, w)
}

// committers are goroutines that commit, kept for the next write: a new one would have to grow its stack into Pebble's depth
// each time, at a sixth of the cost of the write. There are as many as have run at once; those beyond maxIdle end when idle.
type committers struct {
	work chan func()
	idle atomic.Int32
}

const maxIdle = 64

func newCommitters() committers { return committers{work: make(chan func())} }

// run calls fn on a goroutine of its own.
func (c *committers) run(fn func()) {
	select {
	case c.work <- fn:
	default:
		go c.loop(fn)
	}
}

func (c *committers) loop(fn func()) {
	for fn != nil {
		fn()
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		fn = <-c.work // nil once it is closed
		c.idle.Add(-1)
	}
}

// close ends the goroutines; nobody calls run any more.
func (c *committers) close() { close(c.work) }

// await returns when the write is durable, or has failed.
func (s *Store) await(ctx context.Context, w *write) error {
	select {
	case <-w.done:
		return w.err
	default:
	}
	select {
	case <-w.done:
		return w.err
	case <-s.fault.broken:
		return s.fault.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle returns when all writes of the stripes that a read before it can have seen are durable. It notes them all before
// it waits for any, so that writes that begin meanwhile do not hold it up.
func (s *Store) settle(ctx context.Context, stripes ...*stripe) error {
	var pending []*write
	for _, st := range stripes {
		pending = appendPending(pending, st)
	}
	return s.awaitAll(ctx, pending)
}

// settleAll is settle for a read of everything.
func (s *Store) settleAll(ctx context.Context) error {
	var pending []*write
	for i := range s.stripes {
		pending = appendPending(pending, &s.stripes[i])
	}
	return s.awaitAll(ctx, pending)
}

func appendPending(pending []*write, st *stripe) []*write {
	w := st.latest.Load()
	if w == nil {
		return pending
	}
	select {
	case <-w.done:
		if w.err == nil {
			return pending
		}
	default:
	}
	return append(pending, w)
}

func (s *Store) awaitAll(ctx context.Context, pending []*write) error {
	for _, w := range pending {
		if err := s.await(ctx, w); err != nil {
			return err
		}
	}
	return nil
}
