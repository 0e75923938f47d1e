// Package follow reads the log of a task for as long as a reader wants: what is there, then what comes, as one sequence. It is
// the only place where replay becomes live.
//
// A reader is a position. It reads a page behind it from the store, hands the page on, and when there is nothing more waits
// for the Hub to wake it. Readers that are woken at one position read one page. Nothing is queued for a reader, so that one
// which does not keep up costs one page of memory and delays nobody, and it holds no resource of the store between pages.
// Every event comes exactly once and in order, because each page starts behind the last seq of the page before, and one log is
// never taken for another of the same id.
package follow

import (
	"context"
	"errors"
	"math"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Until is when a read ends.
type Until uint8

// The ends.
const (
	// Head ends at the last event that the log had when the read began.
	Head Until = iota + 1
	// Terminal ends at the log's final seq, and waits for it.
	Terminal
	// Forever never ends by itself.
	Forever
)

// Request says what to read.
type Request struct {
	Key   backend.Key
	Owner backend.Owner
	Start backend.Start
	Until Until
	// Limit, unless 0, ends a read until Head after so many events.
	Limit int
	// Task also reads the task, of the instant at which the log is opened.
	Task bool
	// ExcludeOrigin, unless "", leaves out what that origin wrote.
	ExcludeOrigin string
}

// Reason is why a read ended.
type Reason uint8

// The reasons.
const (
	// AtHead: everything that was there has been read.
	AtHead Reason = iota + 1
	// AtLimit: the limit was reached.
	AtLimit
	// AtFinal: the log's final seq has been reached.
	AtFinal
)

// ErrAgain is what a Sink returns that has no room now for what it was given: the same is read again, once it is Ready.
var ErrAgain = errors.New("no room now")

// Sink takes what is read. An error from it ends the read, except ErrAgain.
type Sink interface {
	// Ready is called before anything is read. It may wait until there is room.
	Ready(ctx context.Context) error
	// Rest is called when what was read has been handed on, or could not be read, and while another reads it: then Ready comes
	// again before it is handed on. It may be called more than once.
	Rest()
	// Opened comes first. Where the read waits for an id that does not exist yet, the log is empty and begins at 1.
	Opened(log backend.LogInfo, task *backend.Stored) error
	// Events come in order, at least one at a time. Other Sinks may have the same slice.
	Events(events []backend.Event) error
}

// Reader reads logs.
type Reader struct {
	Store backend.Store
	Hub   *Hub
	// PageEvents and PageBytes bound a page, and with it the memory that a slow reader holds. A single larger event is a page.
	PageEvents int
	PageBytes  int
}

// Read reads until the request's end, and returns why it ended and the position reached. With an error the position is valid,
// too: a read after it goes on without loss or repetition. It is negative if the read ended before it was known, then nothing
// was handed on.
//
// Errors are ErrTaskNotFound, also once the log has been deleted, ErrLogRange if the log does not reach back to the position,
// also once retention has overtaken the reader, those of the Sink and the Store, and the cause of ctx's end.
func (r *Reader) Read(ctx context.Context, req *Request, sink Sink) (Reason, int64, error) {
	run := &run{Reader: r, req: req, sink: sink, start: req.Start, at: -1}
	if req.Start.Kind == backend.AfterSeq {
		run.at = req.Start.N
	}
	if req.Until != Head {
		// Before the first read, so that no change falls between a read and the wait behind it.
		run.sub = r.Hub.Subscribe(req.Key)
		defer run.sub.Close()
		run.wake = run.sub.C
	}
	reason, err := run.read(ctx)
	return reason, run.at, err
}

// run is the state of one Read.
type run struct {
	*Reader
	req  *Request
	sink Sink
	sub  *Subscription // nil until Head, which waits for nothing
	wake <-chan struct{}

	// start is where the next page starts. at is the position: everything up to it has been handed on, or was not wanted;
	// negative until it is known.
	start backend.Start
	at    int64
	// seen is what the latest page said of the log that is being read; zero while there is none.
	seen   backend.LogInfo
	opened bool
	// bound is where a read until Head ends.
	bound int64
	sent  int
}

func (r *run) read(ctx context.Context) (Reason, error) {
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err := r.sink.Ready(ctx); err != nil {
			return 0, err
		}
		page, err := r.page(ctx)
		switch {
		case err == nil:
			reason, err := r.take(page)
			r.sink.Rest()
			if errors.Is(err, ErrAgain) {
				if !r.opened {
					r.seen = backend.LogInfo{} // where the read starts is what the description says that is handed on
				}
				continue
			}
			if err != nil || reason != 0 {
				return reason, err
			}
			if r.at < page.Log.LastSeq && len(page.Events) > 0 {
				continue // there is more
			}
		case r.mayWait(err):
			r.sink.Rest()
			if err := r.open(backend.LogInfo{FirstSeq: 1}, nil); err != nil {
				return 0, err
			}
			// What comes is new, also to a reader that wants only what is new.
			r.start, r.at = backend.Start{}, 0
		default:
			r.sink.Rest()
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-r.wake:
		}
	}
}

// mayWait reports whether a read that failed with err waits for the id to appear.
func (r *run) mayWait(err error) bool {
	return errors.Is(err, backend.ErrTaskNotFound) && r.seen.Incarnation == 0 && r.req.Until != Head &&
		(r.start.Kind == backend.FromNow || r.start.N == 0)
}

// page reads the next page, of the log that is being read.
func (r *run) page(ctx context.Context) (backend.LogPage, error) {
	req := &backend.ReadLogRequest{
		Key: r.req.Key, Owner: r.req.Owner, Start: r.start, MaxEvents: r.PageEvents, MaxBytes: r.PageBytes,
	}
	if !r.opened && r.req.Task {
		req.Task = &backend.All
	}
	page, err := r.readLog(ctx, req)
	if errors.Is(err, backend.ErrLogRange) && r.seen.Incarnation != 0 && r.replaced(ctx) {
		return page, errDeleted()
	}
	if err != nil {
		return page, err
	}
	if r.seen.Incarnation == 0 {
		r.bound, r.at = page.Log.LastSeq, page.From
	} else if r.seen.Incarnation != page.Log.Incarnation {
		return page, errDeleted()
	}
	r.seen = page.Log
	return page, nil
}

// readLog reads the page that req asks for, or takes it from one that another reader of the log has read. The first is never
// another's: it must be no older than the call.
func (r *run) readLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	if r.sub == nil || r.seen.Incarnation == 0 {
		return r.Store.ReadLog(ctx, req)
	}
	page, mine := r.sub.share(req, &r.seen)
	switch {
	case page == nil:
		return r.Store.ReadLog(ctx, req)
	case mine:
		defer close(page.done)
		page.page, page.err = r.Store.ReadLog(ctx, req)
		return page.page, page.err
	case !page.read():
		// Who waits for another must not hold what others need to read.
		r.sink.Rest()
		if err := page.await(ctx); err != nil {
			return backend.LogPage{}, err
		}
		if err := r.sink.Ready(ctx); err != nil {
			return backend.LogPage{}, err
		}
	}
	if !page.covers(req.Start.N, &r.seen) {
		return r.Store.ReadLog(ctx, req) // with an error of its own, if need be
	}
	return page.behind(req.Start.N), nil
}

// replaced reports whether the log under the key is no longer the one that is being read. A log that does not reach back to
// the position may be a new one that began behind it.
func (r *run) replaced(ctx context.Context) bool {
	heads, err := r.Store.Heads(ctx, []backend.Key{r.req.Key})
	return err == nil && heads[0].Incarnation != r.seen.Incarnation
}

// errDeleted is what an unknown id gives.
func errDeleted() error {
	return &backend.Error{Reason: backend.ErrTaskNotFound, Detail: "task not found"}
}

// take hands a page on, as far as the request wants it, and returns a Reason if that was all.
func (r *run) take(page backend.LogPage) (Reason, error) {
	if err := r.open(page.Log, page.Task); err != nil {
		return 0, err
	}
	r.start = backend.Start{Kind: backend.AfterSeq, N: r.at}
	end, reason := r.end(&page.Log)
	if r.at >= end {
		return reason, nil
	}
	wanted, at := r.wanted(page.Events, end)
	if len(wanted) > 0 {
		if err := r.sink.Events(wanted); err != nil {
			return 0, err
		}
		r.sent += len(wanted)
	}
	r.at, r.start = at, backend.Start{Kind: backend.AfterSeq, N: at}
	switch {
	case r.at >= end:
		return reason, nil
	case r.full(0):
		return AtLimit, nil
	case r.req.Until == Head && len(page.Events) == 0:
		return AtHead, nil // retention has dropped the rest
	default:
		return 0, nil
	}
}

// wanted returns which of the events behind the position and up to end the request wants, as far as its limit goes, and the
// position that this leads to.
func (r *run) wanted(events []backend.Event, end int64) (wanted []backend.Event, at int64) {
	at = r.at
	if r.req.ExcludeOrigin != "" {
		wanted = make([]backend.Event, 0, len(events))
	}
	for i := range events {
		e := &events[i]
		if e.Seq > end || r.full(len(wanted)) {
			break
		}
		at = e.Seq
		switch {
		case r.req.ExcludeOrigin == "":
			wanted = events[:i+1]
		case r.req.ExcludeOrigin != e.Origin:
			wanted = append(wanted, *e)
		}
	}
	return wanted, at
}

// open hands the description of the log on, once.
func (r *run) open(log backend.LogInfo, task *backend.Stored) error {
	if r.opened {
		return nil
	}
	if err := r.sink.Opened(log, task); err != nil {
		return err
	}
	r.opened = true
	return nil
}

// full reports whether more events, on top of those handed on, reach the limit.
func (r *run) full(more int) bool { return r.req.Limit > 0 && r.sent+more >= r.req.Limit }

// end returns the position at which the read ends, as far as it is known, and the reason.
func (r *run) end(log *backend.LogInfo) (int64, Reason) {
	switch {
	case r.req.Until == Head:
		return r.bound, AtHead
	case r.req.Until == Terminal && log.Final:
		return log.FinalSeq, AtFinal
	default:
		return math.MaxInt64, 0
	}
}
