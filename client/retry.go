package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/proto"
)

// maxResets bounds how often in a row an INTERNAL that the store did not make is taken for a broken stream. A cut connection
// does not repeat itself for ever; an answer that cannot be decoded does.
const maxResets = 3

// pacer makes the pauses between attempts.
type pacer struct {
	next, limit time.Duration
}

func (c *Client) newPacer() *pacer {
	return &pacer{next: c.opts.baseDelay, limit: c.opts.maxDelay}
}

// pause is how long to wait now: between half and the whole of a time that doubles from pause to pause. The random
// half keeps callers apart that one event has interrupted.
func (p *pacer) pause() time.Duration {
	d := p.next
	p.next = min(2*d, p.limit)
	return d/2 + rand.N(d/2+1)
}

// spread lengthens a delay that a server has asked of many callers by up to a half, so that they do not come back as one.
func spread(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// failure is a failed attempt, and what may be done about it.
type failure struct {
	err     *Error
	retry   bool
	delay   time.Duration // the least that the server wants to be left alone for
	timeout bool          // nothing was heard in the attempt's time
	reset   bool          // the stream broke off in a way that counts against maxResets
}

// judge decides whether an attempt that failed with err may be repeated. Every request that gets here is safe to repeat.
func judge(op string, err error, req proto.Message) failure {
	e, retryAfter, hasRetryInfo := parseError(op, err)
	f := failure{err: e}
	switch e.Code {
	case codes.Unavailable:
		f.retry, f.delay = true, retryAfter
	case codes.ResourceExhausted:
		// A full quota may empty, a task that is too large will not shrink: only the server can tell.
		f.retry, f.delay = hasRetryInfo, retryAfter
	case codes.DeadlineExceeded:
		// The caller's own deadline is checked before this counts, so it is the attempt that took too long.
		f.retry, f.timeout = true, true
		e.Code, e.Message = codes.Unavailable, "no answer in time: "+e.Message
	case codes.Canceled:
		// Not by the caller, which is checked before this counts: the server went away under its handler.
		f.retry = true
		e.Code, e.Message = codes.Unavailable, "cut off: "+e.Message
	case codes.Internal:
		if e.Reason != "" {
			break
		}
		// gRPC says INTERNAL both when a peer or proxy resets the stream and when the request cannot be encoded.
		if _, merr := proto.Marshal(req); merr != nil {
			e.Code = codes.InvalidArgument
			break
		}
		f.retry, f.reset = true, true
	}
	return f
}

// do makes a call until it succeeds, fails for good, or its time is over. wait is how long the server is asked to wait
// with its answer.
func do[R any](ctx context.Context, c *Client, op string, req proto.Message, wait time.Duration,
	attempt func(context.Context) (R, error),
) (R, error) {
	extra := max(wait, 0) + transferTime(req)
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(c.opts.retryBudget + extra)
	}
	timeout := c.opts.attemptTimeout
	pacer := c.newPacer()
	resets := 0
	for n := 1; ; n++ {
		attemptCtx, cancel := context.WithDeadline(ctx, earlier(deadline, time.Now().Add(timeout+extra)))
		resp, err := attempt(attemptCtx)
		cancel()
		if err == nil {
			return resp, nil
		}
		var none R
		f := judge(op, err, req)
		f.err.Attempts = n
		if !f.retry {
			return none, f.err
		}
		if e := c.interruption(ctx, op, n, f.err); e != nil {
			return none, e
		}
		if f.reset {
			resets++
		}
		if resets > maxResets || n == c.opts.maxAttempts {
			return none, f.err
		}
		pause := max(pacer.pause(), spread(f.delay))
		if time.Until(deadline) <= pause {
			if bounded && f.timeout {
				// The deadline of attempt and caller are the same here, and the attempt's was noticed first.
				return none, contextError(op, context.DeadlineExceeded, n, nil)
			}
			f.err.Message = fmt.Sprintf("gave up after %d attempts: %s", n, f.err.Message)
			return none, f.err
		}
		if f.timeout {
			timeout *= 2
		}
		if !c.sleep(ctx, pause) {
			return none, c.interruption(ctx, op, n, f.err)
		}
	}
}

// interruption is the error that ends a call or follow from this side, or nil if it may go on.
func (c *Client) interruption(ctx context.Context, op string, attempts int, last *Error) *Error {
	if c.isClosed() {
		return &Error{Op: op, Code: codes.Canceled, Message: "client closed", Attempts: attempts, cause: ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return contextError(op, err, attempts, last)
	}
	return nil
}

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		// The connection may have been closed directly, through Conn.
		return c.conn.GetState() == connectivity.Shutdown
	}
}

// sleep waits for d, and reports false if the context or the client ended before.
func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-c.closed:
		return false
	}
}

// transferTime is what a request may take on the way, at a slow 1 MiB per second.
func transferTime(req proto.Message) time.Duration {
	return time.Duration(proto.Size(req)) * time.Second / (1 << 20)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
