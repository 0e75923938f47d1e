package postgres

import (
	"context"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// op is a write on its way through a committer.
type op struct {
	ctx  context.Context
	plan planner
	// names are the ids, of tasks and claims, that no other op of the same batch may touch.
	names []name
	size  int // of what it carries, about
	born  time.Time
	// done takes the one outcome. The planner has the result.
	done chan error

	// What follows belongs to the committer.

	// sure is set once a guess was wrong: what is remembered of the row is not used again.
	sure bool
	// tried is the stamp of a write whose outcome is unknown; 0 if there is none.
	tried int64
	// held counts how often another transaction has held the row, and notBefore is when to try again: alone, so that nobody
	// else waits for it.
	held      int
	notBefore time.Time
	// cause is why the last attempt failed.
	cause error
	in    *facts
	out   outcome // of the last plan that wanted something written
}

// name names a task, or a claim.
type name struct {
	claim  bool
	tenant string
	owner  backend.Owner
	id     string
}

func taskName(k backend.Key) name { return name{tenant: k.Tenant, id: k.TaskID} }

func claimName(k backend.ClaimKey) name {
	return name{claim: true, tenant: k.Tenant, owner: k.Owner, id: k.Key}
}

// planner is one kind of write. Its methods may be called several times, each time with newer facts.
type planner interface {
	// asks says what the plan needs to know.
	asks() ask
	// guess makes facts of what is remembered of the row (nil if nothing is); nil if it must be read.
	guess(m *memory) *facts
	// plan decides.
	plan(f *facts) (outcome, error)
}

// ask is what a plan needs to know. One of row, log and doc may be set.
type ask struct {
	key    backend.Key
	row    bool
	log    *backend.AppendRequest // the row, and what its log holds of this request
	doc    *docAsk                // the row, and pieces of the document
	body   bool                   // the whole document
	oldest int                    // so many of the log's oldest events, without their content
	claim  *backend.ClaimKey
}

// facts are the answers to an ask.
type facts struct {
	now time.Time
	// rec is the zero record if there is no row.
	rec    record
	log    logFacts
	stored *stored
	body   *body
	oldest []backend.Event
	// claim is nil if there is none; claimStamp then is 0.
	claim      *backend.Claim
	claimStamp int64
	// retried is set if an attempt's answer was lost.
	retried bool
	// from is the memory that the facts are a guess from; nil if they were read.
	from *memory
	// absentWrite is an assumption that the write has to check: no event has this write_id.
	absentWrite string
}

// outcome is what a plan wants written: at most one of the two. With neither, the op has its result.
type outcome struct {
	change *change
	claim  *claimChange
}

func (o outcome) nothing() bool { return o.change == nil && o.claim == nil }

func (o outcome) stamp() int64 {
	if o.change != nil {
		return o.change.next.stamp
	}
	return o.claim.stamp
}

// finish tells the caller. It must be called once.
func (o *op) finish(err error) { o.done <- err }

// over reports whether nobody waits for the op any longer, or it has been tried for too long.
func (o *op) over() bool { return o.ctx.Err() != nil || impatient(o.ctx, o.born) }

// impatient reports whether a call that began at the time has taken too long for a caller who set no deadline.
func impatient(ctx context.Context, began time.Time) bool {
	_, bounded := ctx.Deadline()
	return !bounded && time.Since(began) > patience
}

// giveUp finishes an op that is over.
func (o *op) giveUp() {
	if o.tried != 0 {
		o.finish(unknownOutcome(o.cause))
		return
	}
	o.finish(unavailable(o.cause))
}

// do has a write carried out by the committer of its first name, and waits for its outcome.
func (s *Store) do(ctx context.Context, p planner, size int, names ...name) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.enter() {
		return errClosed()
	}
	defer s.leave()
	o := &op{ctx: ctx, plan: p, names: names, size: size, born: time.Now(), done: make(chan error, 1)}
	if c := s.committerOf(names[0]); !c.lead(o) {
		c.enqueue(o)
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		select {
		case err := <-o.done:
			if err == nil { // carried out by the caller itself, so it is known although the time is over
				return nil
			}
		default:
		}
		return ctx.Err()
	}
}
