package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Bounds of one batch: a commit is shared by as many as are waiting, up to where its size makes them wait for each other.
const (
	maxBatchOps   = 128
	maxBatchBytes = 4 << 20
)

const (
	// attemptTimeout ends an attempt on a database that does not answer. Late success of an abandoned attempt does no harm.
	attemptTimeout = 15 * time.Second
	// leadPatience is how long an attempt goes on whose caller, who makes it himself, has left. Longer than a statement takes.
	leadPatience = 100 * time.Millisecond
	// patience is how long a call is tried for a caller who set no deadline.
	patience = 10 * time.Second
	// firstPause and longestPause bound the wait before another attempt.
	firstPause   = 5 * time.Millisecond
	longestPause = 500 * time.Millisecond
	// lockTimeout is how long a batch waits for a row that another transaction holds. No Store holds one for longer than a
	// statement takes, but an administrator's session may.
	lockTimeout = time.Second
	// firstHeld and longestHeld bound how long a write whose row is held waits before it is tried again.
	firstHeld   = 100 * time.Millisecond
	longestHeld = 5 * time.Second
	// conflictPause bounds the wait after a conflict with another transaction, which is over by then.
	conflictPause = 10 * time.Millisecond
)

// committer writes the ops of its share of the ids, batch by batch, on one connection at a time. An op that finds nobody
// before it is carried out by its caller, which saves the way there and back; the others are queued.
type committer struct {
	pool    *pgxpool.Pool
	clock   *clock
	changed func([]backend.Key)
	tracer  Tracer // nil: none

	turn     sync.Mutex // held by who executes
	memory   *memories  // belongs to who has the turn
	failures int        // attempts in a row, as well

	mu     sync.Mutex
	queue  []*op
	wake   chan struct{} // holds a token while the queue may not be empty
	closed bool

	transactions, commits atomic.Int64 // see Stats
}

func newCommitter(pool *pgxpool.Pool, clock *clock, changed func([]backend.Key)) *committer {
	return &committer{pool: pool, clock: clock, memory: newMemories(), changed: changed, wake: make(chan struct{}, 1)}
}

// lead carries an op out if nobody is before it and the database works; else it reports false. The op may come back to the
// queue.
func (c *committer) lead(o *op) bool {
	c.mu.Lock()
	leads := len(c.queue) == 0 && c.turn.TryLock()
	c.mu.Unlock()
	if !leads {
		return false
	}
	defer c.turn.Unlock()
	if c.failures > 0 {
		return false // the attempts are spaced out, by run
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A caller who leaves costs a connection only if the database does not answer.
	defer context.AfterFunc(o.ctx, func() { time.AfterFunc(leadPatience, cancel) })()
	again, err := c.execute(ctx, []*op{o})
	c.ended(err)
	c.putBack(again)
	return true
}

// enqueue hands an op over.
func (c *committer) enqueue(o *op) {
	c.mu.Lock()
	c.queue = append(c.queue, o)
	c.mu.Unlock()
	signal(c.wake)
}

// stop makes run return once the queue is empty.
func (c *committer) stop() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	signal(c.wake)
}

// run works until stop is called.
func (c *committer) run() {
	for {
		c.turn.Lock()
		batch, later, closed := c.take(time.Now())
		if len(batch) == 0 {
			c.turn.Unlock()
			if closed {
				return
			}
			c.wait(later)
			continue
		}
		again, err := c.execute(context.Background(), batch)
		rest := c.ended(err)
		c.putBack(again)
		c.turn.Unlock()
		time.Sleep(rest)
	}
}

// ended notes how an attempt has ended, and returns how long to wait before the next one.
func (c *committer) ended(err error) time.Duration {
	switch {
	case err == nil:
		c.failures = 0
		return 0
	case classify(err) == conflict:
		return rand.N(conflictPause)
	default:
		c.failures++
		return pause(c.failures)
	}
}

// pause is how long to wait after so many failures in a row, with jitter.
func pause(failures int) time.Duration {
	d := min(firstPause<<min(failures-1, 10), longestPause)
	return d/2 + rand.N(d)
}

// wait returns when there may be something to do, in any case after a while unless that is 0.
func (c *committer) wait(later time.Duration) {
	if later == 0 {
		<-c.wake
		return
	}
	timer := time.NewTimer(later)
	defer timer.Stop()
	select {
	case <-c.wake:
	case <-timer.C:
	}
}

// take removes the next batch from the queue: in order, each id once. An op whose row is held by others comes alone. Without
// a batch, later says when the first of those that must wait may be tried; 0 if none has to.
func (c *committer) take(now time.Time) (batch []*op, later time.Duration, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := 0
	taken := make(map[name]struct{}, len(c.queue))
	rest := c.queue[:0]
	for _, o := range c.queue {
		alone := o.held > 0
		switch {
		case o.over():
			o.giveUp()
			continue
		case now.Before(o.notBefore):
			rest = append(rest, o)
			if left := o.notBefore.Sub(now); later == 0 || left < later {
				later = left
			}
		case len(batch) > 0 && (alone || batch[0].held > 0), len(batch) == maxBatchOps, len(batch) > 0 && size+o.size > maxBatchBytes, touches(taken, o.names):
			rest = append(rest, o)
		default:
			batch = append(batch, o)
			size += o.size
		}
		for _, n := range o.names {
			taken[n] = struct{}{} // also of those left behind: one id's writes keep their order
		}
	}
	clear(c.queue[len(rest):])
	c.queue = rest
	return batch, later, c.closed && len(rest) == 0
}

func touches(taken map[name]struct{}, names []name) bool {
	for _, n := range names {
		if _, ok := taken[n]; ok {
			return true
		}
	}
	return false
}

// putBack puts ops in front of the queue.
func (c *committer) putBack(ops []*op) {
	if len(ops) == 0 {
		return
	}
	c.mu.Lock()
	c.queue = append(ops, c.queue...)
	c.mu.Unlock()
	signal(c.wake)
}

// execute tries to carry out the ops, and finishes those that it can. It returns the others, and why they failed: nil if
// their guesses were wrong.
func (c *committer) execute(ctx context.Context, ops []*op) (again []*op, err error) {
	again, err = c.attempt(ctx, ops)
	if err == nil {
		return again, nil
	}
	for _, o := range again {
		o.cause = err
	}
	kind := classify(err)
	switch {
	case kind != fault && kind != locked:
		return again, err
	case len(ops) > 1:
	case kind == locked:
		for _, o := range again {
			o.held++
			o.notBefore = time.Now().Add(min(firstHeld<<min(o.held-1, 10), longestHeld))
		}
		return again, nil
	default:
		for _, o := range again {
			o.finish(faulty(err))
		}
		return nil, nil
	}
	// What is wrong with one must not become the trouble of all.
	var rest []*op
	for _, o := range again {
		left, _ := c.execute(ctx, []*op{o})
		rest = append(rest, left...)
	}
	return rest, nil
}

// attempt plans and writes the ops once.
func (c *committer) attempt(ctx context.Context, ops []*op) (again []*op, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	ctx = c.traced(ctx, ops)
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return ops, err
	}
	defer func() {
		release(c.pool, conn, err)
	}()

	ready, unsure := c.guess(ops)
	if len(unsure) > 0 {
		if err := after(conn, load(ctx, conn.Conn(), unsure, c.clock)); err != nil {
			c.doubt(ops)
			return ops, err
		}
		ready = append(ready, c.decide(unsure)...)
	}
	if len(ready) == 0 {
		return nil, nil
	}

	var changes []*change
	var claims []*claimChange
	for _, o := range ready {
		if o.out.change != nil {
			changes = append(changes, o.out.change)
		} else {
			claims = append(claims, o.out.claim)
		}
	}
	won, err := write(ctx, conn.Conn(), changes, claims)
	if err = after(conn, err); err != nil {
		c.doubt(ready)
		if classify(err) == lost {
			for _, o := range ready {
				o.tried = o.out.stamp()
			}
		}
		return ready, err
	}
	return c.settle(ready, won), nil
}

// guess plans the ops that what is remembered is enough for. The others, also those whose plan writes nothing, are unsure.
func (c *committer) guess(ops []*op) (ready, unsure []*op) {
	for _, o := range ops {
		if o.sure {
			unsure = append(unsure, o)
			continue
		}
		o.in = o.plan.guess(c.memory.get(o.plan.asks().key))
		if o.in != nil {
			now, ok := c.clock.estimate()
			if touched := backend.At(o.in.rec.Touched); now.Before(touched) {
				now = touched // an estimate must not turn a row's time back
			}
			o.in.now = now
			if ok {
				out, err := o.plan.plan(o.in)
				if err == nil && !out.nothing() {
					o.out = out
					o.out.change.absentWrite = o.in.absentWrite
					ready = append(ready, o)
					continue
				}
			}
		}
		unsure = append(unsure, o)
	}
	return ready, unsure
}

// decide plans ops with facts, and finishes those that have nothing to write.
func (c *committer) decide(ops []*op) (ready []*op) {
	for _, o := range ops {
		if o.tried != 0 && (o.in.rec.stamp == o.tried || o.in.claimStamp == o.tried) {
			// The attempt whose answer was lost had succeeded. Nothing is remembered: the facts are those of after it.
			c.changed(changedKeys([]*op{o}))
			o.finish(nil)
			continue
		}
		out, err := o.plan.plan(o.in)
		switch {
		case err != nil:
			o.finish(err)
		case out.nothing():
			o.finish(nil)
		default:
			o.out = out
			ready = append(ready, o)
		}
	}
	return ready
}

// settle finishes the ops whose stamps have won, and returns the others.
func (c *committer) settle(ops []*op, won map[int64]struct{}) (again []*op) {
	var winners []*op
	for _, o := range ops {
		if _, ok := won[o.out.stamp()]; ok {
			winners = append(winners, o)
		} else {
			again = append(again, o)
		}
	}
	c.transactions.Add(1)
	c.commits.Add(int64(len(winners)))
	c.doubt(again)
	c.changed(changedKeys(winners))
	for _, o := range winners {
		c.done(o)
	}
	return again
}

// done finishes an op that was carried out.
func (c *committer) done(o *op) {
	if ch := o.out.change; ch != nil {
		c.memory.put(ch.key, remember(o.in, ch))
	}
	o.finish(nil)
}

// doubt makes sure that the next plan of the ops is made on what is read then.
func (c *committer) doubt(ops []*op) {
	for _, o := range ops {
		o.sure = true
		if o.out.change != nil {
			c.memory.forget(o.out.change.key)
		}
	}
}

func changedKeys(ops []*op) []backend.Key {
	keys := make([]backend.Key, 0, len(ops))
	for _, o := range ops {
		if o.out.change != nil {
			keys = append(keys, o.out.change.key)
		}
	}
	return keys
}
