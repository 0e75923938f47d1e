package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// shareFor is for how long a page is shared, from when its read begins. It bounds what a read that hangs costs those who wait
// for it, and the age of what is read where a hint comes late.
const shareFor = time.Second

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
	until   time.Time // when it is shared no longer

	done chan struct{} // closed once it is read
	page backend.LogPage
	err  error
}

// errUnread is the error of a page whose reader did not come back from the store.
var errUnread = errors.New("the page was not read")

// share returns the page that has, or may have, what the request asks for; nil if it has to be read for this subscriber alone.
// If it is mine, the caller reads it and closes done. Seen is what the caller knows of the log that it follows, and the
// request's start a position in it up to which it has everything.
func (s *Subscription) share(req *backend.ReadLogRequest, seen *backend.LogInfo) (page *sharedPage, mine bool) {
	now := time.Now()
	p := s.hub.part(s.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.topics[s.key]
	if len(t.subs) == 1 {
		return nil, false
	}
	after := req.Start.N
	page = t.page.Value()
	if page != nil && page.changes == t.changes && page.owner == req.Owner && page.log == seen.Incarnation {
		read, current := page.read(), now.Before(page.until)
		switch {
		case after < page.after:
			return nil, false // the others are ahead
		case current && (!read || page.covers(after, seen)):
			return page, false
		case !read, current && page.err != nil:
			return nil, false // each finds out for itself
		}
	}
	page = &sharedPage{
		changes: t.changes, owner: req.Owner, log: seen.Incarnation, after: after, until: now.Add(shareFor),
		done: make(chan struct{}), err: errUnread,
	}
	t.share(page)
	return page, true
}

// await returns when the page is read, or is not shared any more.
func (p *sharedPage) await(ctx context.Context) error {
	timer := time.NewTimer(time.Until(p.until))
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *sharedPage) read() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// covers reports whether the page is read and has what a read behind this position would have found, or the start of it, and is
// not of an earlier instant than what has been seen. Its end is as good as an empty page only where the log ended, too.
func (p *sharedPage) covers(after int64, seen *backend.LogInfo) bool {
	if !p.read() || p.err != nil || after < p.after {
		return false
	}
	if log := &p.page.Log; log.Incarnation != p.log || log.LastSeq < seen.LastSeq || log.Version < seen.Version {
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
