package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
)

// sharedPage is what one of the readers of a log has read, for those that follow it beside that one: each of a thousand would
// else ask the store for the same event.
//
// It is shared only as long as nobody has been woken since before it was read. A reader that finds nothing in it may wait, as
// after a read of its own: what it has not seen, it will be woken for.
type sharedPage struct {
	changes uint64 // of the topic, before it was read
	owner   backend.Owner
	log     int64 // the incarnation that is followed
	after   int64

	done chan struct{} // closed once it is read
	page backend.LogPage
	err  error
}

// errUnread is the error of a page whose reader did not come back from the store.
var errUnread = errors.New("the page was not read")

// read reads the page that req asks for, or takes it from a page that is shared. The log is the incarnation that the
// subscriber follows, and the request's start a position in it up to which everything has been read.
func (s *Subscription) read(ctx context.Context, req *backend.ReadLogRequest, log int64) (backend.LogPage, error) {
	shared, mine := s.share(req, log)
	if shared == nil {
		return s.hub.store.ReadLog(ctx, req)
	}
	if mine {
		defer close(shared.done)
		shared.page, shared.err = s.hub.store.ReadLog(ctx, req)
		return shared.page, shared.err
	}
	select {
	case <-shared.done:
	case <-ctx.Done():
		return backend.LogPage{}, context.Cause(ctx)
	}
	if !shared.covers(req.Start.N) {
		return s.hub.store.ReadLog(ctx, req) // with an error of its own, if need be
	}
	return shared.behind(req.Start.N), nil
}

// share returns the page that has, or may have, what the request asks for; nil if it has to be read for this subscriber alone.
// If it is mine, the caller reads it and closes done.
func (s *Subscription) share(req *backend.ReadLogRequest, log int64) (page *sharedPage, mine bool) {
	p := s.hub.part(s.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.topics[s.key]
	if len(t.subs) == 1 {
		return nil, false
	}
	after := req.Start.N
	if page := t.page.Value(); page != nil && page.changes == t.changes && page.owner == req.Owner && page.log == log {
		if after < page.after {
			return nil, false // the others are ahead
		}
		select {
		case <-page.done:
			if page.covers(after) {
				return page, false
			}
		default:
			return page, false
		}
	}
	page = &sharedPage{
		changes: t.changes, owner: req.Owner, log: log, after: after, done: make(chan struct{}), err: errUnread,
	}
	t.share(page)
	return page, true
}

// covers reports whether the page, which is read, has what a read behind this position would have found, or the start of it.
// Its end is as good as an empty page only where the log ended, too.
func (p *sharedPage) covers(after int64) bool {
	if p.err != nil || p.page.Log.Incarnation != p.log || after < p.after {
		return false
	}
	if n := len(p.page.Events); n > 0 {
		end := p.page.Events[n-1].Seq
		return after < end || after == end && end >= p.page.Log.LastSeq
	}
	return after == p.after
}

// behind is the part of the page behind a position that it covers.
func (p *sharedPage) behind(after int64) backend.LogPage {
	page := p.page
	n, _ := slices.BinarySearchFunc(page.Events, after+1, func(e backend.Event, seq int64) int { return cmp.Compare(e.Seq, seq) })
	page.From, page.Events = after, page.Events[n:]
	return page
}
