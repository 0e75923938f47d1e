package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

const followOp = "Follow"

// A stream that held for this long shows that the store is well: when it breaks, the pauses start small again, also if it
// brought no event.
const steadyStream = 5 * time.Second

// FollowOption configures one [Client.Follow].
type FollowOption func(*followOptions)

type followOptions struct {
	onOpened  func(*taskstorev1.OpenedFrame)
	onEnd     func(*taskstorev1.EndFrame)
	onBreak   func(error)
	maxOutage time.Duration
	outageSet bool
	call      []grpc.CallOption
}

// OnOpened calls f with the opened frame, before the first event: the bounds of the log and, with include_task, the task,
// of the same instant. It is called once; that a stream was opened again later does not show.
func OnOpened(f func(*taskstorev1.OpenedFrame)) FollowOption {
	return func(o *followOptions) { o.onOpened = f }
}

// OnEnd calls f with the end frame, after the last event. It is not called if the iteration ends with an error or is left
// early.
func OnEnd(f func(*taskstorev1.EndFrame)) FollowOption {
	return func(o *followOptions) { o.onEnd = f }
}

// OnBreak calls f with the failure of each stream, or attempt to open one, that Follow is about to repeat: for logs and
// metrics.
func OnBreak(f func(error)) FollowOption {
	return func(o *followOptions) { o.onBreak = f }
}

// MaxOutage bounds the time without an open stream, after which Follow ends with [ErrUnavailable]; 0 is no bound. The
// default is no bound, except for reads until HEAD under a context without deadline, which give up after the retry budget.
func MaxOutage(d time.Duration) FollowOption {
	return func(o *followOptions) { o.maxOutage, o.outageSet = d, true }
}

// FollowCallOptions passes options to each of the streams, for example credentials.
func FollowCallOptions(opts ...grpc.CallOption) FollowOption {
	return func(o *followOptions) { o.call = append(o.call, opts...) }
}

// Follow reads the log of a task: what is there, then what comes, until the end that req names. It yields each event exactly
// once and in order. A stream that breaks is opened again behind the last event received:
//
//	for event, err := range c.Follow(ctx, &taskstorev1.ReadEventsRequest{TaskId: id}) {
//		if err != nil {
//			return err
//		}
//		...
//	}
//
// Where a read starts and ends is decided when it is first opened: from_now means behind what the log held then, and HEAD
// ends where the head was then, limit counting over all streams. A request without a scope gets [WithScope].
//
// One loss cannot be seen: in a log that was empty when it was first opened, events that are both written and dropped by
// retention while no stream is open. And a reader that skips its own events with exclude_origin stands, for a resume, at
// the last event that it was sent, so that retention can overtake it although it missed nothing.
//
// The iteration ends after the last event, or with one pair of a nil event and an error: [ErrNotFound] (also when the task
// is deleted meanwhile), [ErrLogRange] if retention has dropped what comes next, [ErrInvalidArgument],
// [ErrUnauthenticated], [ErrPermissionDenied], [ErrResourceExhausted], [ErrClosed], the context's error, and
// [ErrUnavailable] after [MaxOutage].
//
// Events come in the goroutine that iterates, and nothing runs ahead of it but what the connection buffers; leaving the loop
// closes the stream. Each iteration over the result is a read of its own.
func (c *Client) Follow(
	ctx context.Context, req *taskstorev1.ReadEventsRequest, opts ...FollowOption,
) iter.Seq2[*taskstorev1.LogEvent, error] {
	var o followOptions
	for _, opt := range opts {
		opt(&o)
	}
	req = shallowCopy(req)
	c.fillScope(&req.Scope)
	if _, bounded := ctx.Deadline(); !o.outageSet && !bounded && req.GetUntil() == taskstorev1.ReadUntil_READ_UNTIL_HEAD {
		o.maxOutage = c.opts.retryBudget
	}
	return func(yield func(*taskstorev1.LogEvent, error) bool) {
		f := &follower{c: c, req: req, opts: o}
		if err := f.run(ctx, yield); err != nil {
			yield(nil, err)
		}
	}
}

// follower is one iteration.
type follower struct {
	c    *Client
	req  *taskstorev1.ReadEventsRequest // as the caller wants it, with the scope
	opts followOptions

	// isOpen is set by the first opened frame, which also fixes the bounds: the seq of the first event, if the read
	// starts with it and there is one, else 0; the log's last seq; and its final seq, or 0.
	isOpen                bool
	first, head, finalSeq int64
	// Once resolved, everything up to pos has been yielded or is not wanted, and a stream is opened behind it. Before,
	// the caller's start is sent as it is.
	resolved bool
	pos      int64
	// count is how many events have been yielded.
	count int64
}

// stream is how one stream went.
type stream struct {
	done     bool  // the end was reached, or the caller left
	err      error // else: what broke it
	opened   time.Time
	noAnswer bool // it was given up because no opened frame came
}

var errNoAnswer = errors.New("no answer in time")

// run reads streams until the end (nil), or the error that ends the iteration.
func (f *follower) run(ctx context.Context, yield func(*taskstorev1.LogEvent, error) bool) error {
	pacer := f.c.newPacer()
	timeout := f.c.opts.attemptTimeout
	inReach := time.Now()
	attempts, resets := 0, 0
	for {
		if f.reached() {
			return nil
		}
		patience := timeout
		if f.opts.maxOutage > 0 {
			patience = min(patience, f.opts.maxOutage-time.Since(inReach))
		}
		before := f.count
		attempts++
		s := f.read(ctx, patience, yield)
		if s.done {
			return nil
		}
		broken := time.Now()
		if !s.opened.IsZero() {
			inReach = broken
		}
		if f.count > before || (!s.opened.IsZero() && broken.Sub(s.opened) >= steadyStream) {
			pacer, attempts, resets, timeout = f.c.newPacer(), 1, 0, f.c.opts.attemptTimeout
		}

		fail := f.judge(s)
		fail.err.Attempts = attempts
		if !fail.retry {
			return fail.err
		}
		if e := f.c.interruption(ctx, followOp, attempts, fail.err); e != nil {
			return e
		}
		if fail.reset {
			resets++
		}
		if resets > maxResets {
			return fail.err
		}
		pause := max(pacer.pause(), spread(fail.delay))
		if f.opts.maxOutage > 0 && time.Since(inReach)+pause > f.opts.maxOutage {
			fail.err.Message = fmt.Sprintf("gave up after %d attempts: %s", attempts, fail.err.Message)
			return fail.err
		}
		if fail.timeout {
			// Bounded, so that a long outage does not blind the follower to a connection that swallows everything.
			timeout = min(2*timeout, 8*f.c.opts.attemptTimeout)
		}
		if f.opts.onBreak != nil {
			f.opts.onBreak(fail.err)
		}
		if !f.c.sleep(ctx, pause) {
			return f.c.interruption(ctx, followOp, attempts, fail.err)
		}
	}
}

func (f *follower) judge(s stream) failure {
	var own *Error
	switch {
	case errors.As(s.err, &own):
		return failure{err: own}
	case s.noAnswer:
		// What gRPC says about our own cancellation names the connection error behind it, if there is one.
		said, _, _ := parseError(followOp, s.err)
		return failure{
			err:   &Error{Op: followOp, Code: codes.Unavailable, Message: errNoAnswer.Error() + ": " + said.Message},
			retry: true, timeout: true,
		}
	case errors.Is(s.err, io.EOF):
		// A proxy that shuts down may end streams as if all were well; the store's last frame is end.
		return failure{
			err:   &Error{Op: followOp, Code: codes.Unavailable, Message: "the stream ended without an end frame"},
			retry: true,
		}
	default:
		fail := judge(followOp, s.err, f.req)
		if fail.err.Code == codes.Unauthenticated && !s.opened.IsZero() {
			// The credential was good when the stream began, and has been replaced meanwhile. Another attempt has the new one,
			// or is refused at once.
			fail.retry = true
		}
		return fail
	}
}

// read opens one stream and yields its events. The opened frame must come within timeout.
func (f *follower) read(ctx context.Context, timeout time.Duration, yield func(*taskstorev1.LogEvent, error) bool) stream {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(timeout, func() { cancel(errNoAnswer) })
	defer timer.Stop()

	var s stream
	broken := func(err error) stream {
		s.err, s.noAnswer = err, context.Cause(ctx) == errNoAnswer
		return s
	}
	frames, err := f.c.rpc.ReadEvents(ctx, f.request(), f.opts.call...)
	if err != nil {
		return broken(err)
	}
	for {
		resp, err := frames.Recv()
		if err != nil {
			return broken(err)
		}
		if _, ok := resp.GetFrame().(*taskstorev1.ReadEventsResponse_Opened); !ok && s.opened.IsZero() {
			return broken(&Error{Op: followOp, Code: codes.Internal, Message: "the stream did not begin with an opened frame"})
		}
		switch frame := resp.GetFrame().(type) {
		case *taskstorev1.ReadEventsResponse_Opened:
			timer.Stop()
			s.opened = time.Now()
			if f.isOpen {
				if err := f.overtaken(frame.Opened); err != nil {
					return broken(err)
				}
				continue
			}
			f.open(frame.Opened)
		case *taskstorev1.ReadEventsResponse_Events:
			for _, event := range frame.Events.GetEvents() {
				seq := event.GetSeq()
				if f.resolved && seq <= f.pos {
					continue
				}
				if f.untilHead() && seq > f.head {
					// A later stream reads up to a later head.
					f.end(taskstorev1.EndReason_END_REASON_HEAD, f.head)
					return stream{done: true}
				}
				f.resolved, f.pos = true, seq
				f.count++
				if !yield(event, nil) {
					return stream{done: true}
				}
			}
		case *taskstorev1.ReadEventsResponse_End:
			last := frame.End.GetLastSeq()
			if f.untilHead() {
				last = min(last, f.head)
			}
			f.end(frame.End.GetReason(), last)
			return stream{done: true}
		}
	}
}

// open takes the bounds from the first opened frame, and turns a start that would mean something else next time into a
// position.
func (f *follower) open(frame *taskstorev1.OpenedFrame) {
	f.isOpen, f.head, f.finalSeq = true, frame.GetLastSeq(), frame.GetFinalSeq()
	switch start := f.req.GetStart().(type) {
	case *taskstorev1.ReadEventsRequest_FromNow:
		f.resolved, f.pos = true, f.head
	case *taskstorev1.ReadEventsRequest_AfterVersion:
		// Means the same place whenever it is sent.
	case *taskstorev1.ReadEventsRequest_AfterSeq:
		if start.AfterSeq > 0 {
			f.resolved, f.pos = true, start.AfterSeq
			break
		}
		f.fromFirst(frame)
	default:
		f.fromFirst(frame)
	}
	if f.opts.onOpened != nil {
		f.opts.onOpened(frame)
	}
}

// fromFirst fixes what the first event is, so that a later stream cannot begin behind one that retention drops meanwhile. In
// an empty log it is yet to come.
func (f *follower) fromFirst(frame *taskstorev1.OpenedFrame) {
	if frame.GetEarliestSeq() <= frame.GetLastSeq() {
		f.first = frame.GetEarliestSeq()
		f.resolved, f.pos = true, f.first-1
	}
}

// overtaken is the error of a later stream that begins behind events which the first one would have brought. The store
// refuses a position that it cannot serve, but 0 means whatever the first event is by then.
func (f *follower) overtaken(frame *taskstorev1.OpenedFrame) error {
	if !f.resolved || f.pos != 0 || frame.GetEarliestSeq() <= f.first || f.first == 0 {
		return nil
	}
	return &Error{
		Op: followOp, Code: codes.OutOfRange, Reason: "LOG_RANGE",
		Metadata: map[string]string{
			"earliest_seq": strconv.FormatInt(frame.GetEarliestSeq(), 10),
			"last_seq":     strconv.FormatInt(frame.GetLastSeq(), 10),
		},
		Message: "retention has dropped the events that come next",
	}
}

// request is what to open the next stream with.
func (f *follower) request() *taskstorev1.ReadEventsRequest {
	req := shallowCopy(f.req)
	if !f.isOpen {
		return req
	}
	req.IncludeTask = false
	if f.resolved {
		req.Start = &taskstorev1.ReadEventsRequest_AfterSeq{AfterSeq: f.pos}
	}
	if f.untilHead() && req.GetLimit() > 0 {
		req.Limit -= int32(f.count)
	}
	return req
}

// reached tells whether everything has been read, so that only the end frame was lost, and then ends the read.
func (f *follower) reached() bool {
	switch {
	case !f.isOpen:
		return false
	case f.untilHead() && f.req.GetLimit() > 0 && f.count >= int64(f.req.GetLimit()):
		f.end(taskstorev1.EndReason_END_REASON_LIMIT, f.pos)
	case f.untilHead() && f.resolved && f.pos >= f.head:
		f.end(taskstorev1.EndReason_END_REASON_HEAD, f.head)
	case f.untilTerminal() && f.finalSeq > 0 && f.resolved && f.pos >= f.finalSeq:
		f.end(taskstorev1.EndReason_END_REASON_TERMINAL, f.pos)
	default:
		return false
	}
	return true
}

func (f *follower) untilHead() bool {
	return f.req.GetUntil() == taskstorev1.ReadUntil_READ_UNTIL_HEAD
}

func (f *follower) untilTerminal() bool {
	until := f.req.GetUntil()
	return until == taskstorev1.ReadUntil_READ_UNTIL_TERMINAL || until == taskstorev1.ReadUntil_READ_UNTIL_UNSPECIFIED
}

func (f *follower) end(reason taskstorev1.EndReason, lastSeq int64) {
	if f.opts.onEnd != nil {
		f.opts.onEnd(&taskstorev1.EndFrame{Reason: reason, LastSeq: lastSeq})
	}
}
