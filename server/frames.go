package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
	"github.com/a2a-taskstore/taskstore/server/follow"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// smallFrame is below what size a frame is not counted. gRPC queues up to 64 KiB of them for a stream, and no more.
const smallFrame = 4 << 10

// frames sends what is read as the frames of a stream. A frame that is not small is counted in the budget from before it is
// made until it is written, and nothing more is read for the reader meanwhile.
type frames struct {
	stream grpc.ServerStream
	call   *call
	admit  *admission
	// share is the principal's of the memory of frames; without principals, the connection's.
	share *limit.Share

	// reading is set while the page that is read is not counted.
	reading bool
	// need is what to take before the next page is read, and taken what was.
	need, taken int64
	// sent is the latest frame that was counted; nil if it is written.
	sent *limit.Held
	// pace is how long to wait until the bytes that were sent are within the rates.
	pace time.Duration
}

// Ready waits until the frame before was written, there is memory for the next, and few others read.
func (f *frames) Ready(ctx context.Context) error {
	if f.pace > 0 {
		if err := pause(ctx, f.pace); err != nil {
			return err
		}
		f.pace = 0
	}
	if f.sent != nil {
		if err := f.share.Await(ctx, f.sent.Done(), f.admit.limits.StallTimeout); err != nil {
			return err
		}
		f.sent = nil
	}
	if f.need > 0 {
		if err := f.share.Take(ctx, f.need); err != nil {
			return err
		}
		f.taken, f.need = f.need, 0
	}
	select {
	case f.admit.reads <- struct{}{}:
		f.reading = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Rest lets others read.
func (f *frames) Rest() {
	if f.reading {
		f.reading = false
		<-f.admit.reads
	}
}

// close gives back what is not in a frame, and sees to it that the last frame does not hold memory for ever.
func (f *frames) close() {
	f.Rest()
	if f.taken > 0 {
		f.share.Give(f.taken)
		f.taken = 0
	}
	if f.sent != nil && !f.sent.Released() {
		f.admit.orphan(f.call.connection(), f.share, f.sent)
	}
	f.share.Close()
}

// holder is whose share of the memory of frames, and of the bulk, a call's are: the principal's; without principals, the
// connection's.
func (c *call) holder() any {
	if c.session != nil {
		return c.session.Principal.Name
	}
	return c.connection()
}

// orphan cuts the connection of a frame whose stream has ended, when others wait for its memory: gRPC keeps what a caller
// does not take as long as there is a connection.
func (a *admission) orphan(conn *limit.Conn, share *limit.Share, sent *limit.Held) {
	time.AfterFunc(a.limits.StallTimeout, func() {
		switch {
		case sent.Released():
		case share.Blocked() > 0 && conn != nil:
			a.log.Warn("closing the connection of a reader that stalls, others wait for the memory", "peer", conn.String())
			conn.Cut()
		default:
			a.orphan(conn, share, sent)
		}
	})
}

// Opened sends the first frame.
func (f *frames) Opened(log backend.LogInfo, task *backend.Stored) error {
	opened := &wirev1.OpenedFrame{EarliestSeq: log.FirstSeq, LastSeq: log.LastSeq}
	if log.Final {
		opened.FinalSeq = &log.FinalSeq
	}
	size := 0
	if task != nil {
		opened.Task, size = storedTask(task), len(task.Task)
	}
	return f.send(&wirev1.ReadEventsResponse{Frame: &wirev1.ReadEventsResponse_Opened{Opened: opened}}, size)
}

// Events sends a frame of events.
func (f *frames) Events(events []backend.Event) error {
	size := 0
	for i := range events {
		size += len(events[i].Bytes)
	}
	err := f.send(eventsFrame(events), size)
	if err == nil {
		f.admit.seen.Lag(events[0].CreatedAt, f.call.began)
	}
	return err
}

// send sends a frame whose payloads have so many bytes, or returns follow.ErrAgain if that has to wait.
func (f *frames) send(frame *wirev1.ReadEventsResponse, size int) error {
	if size < smallFrame && f.taken == 0 {
		f.Rest() // SendMsg may wait for the caller
		f.meter(size)
		return f.stream.SendMsg(frame)
	}
	n := min(int64(size), f.admit.limits.StreamBytes)
	switch {
	case f.sent != nil && !f.sent.Released():
		return follow.ErrAgain
	case f.taken < n && !f.share.TryTake(n-f.taken):
		f.share.Give(f.taken)
		// What is read then may be more, but not than a page, unless it is this one event.
		f.taken, f.need = 0, max(n, min(frameBytes, f.admit.limits.StreamBytes))
		return follow.ErrAgain
	case f.taken > n:
		f.share.Give(f.taken - n)
	}
	f.taken = 0
	f.sent = f.call.connection().Hold(func() { f.share.Give(n) })
	f.Rest()
	f.meter(size)
	if n < smallFrame { // whose buffer gRPC does not free
		defer f.sent.Release()
	}
	if err := f.stream.SendMsg(&heldMessage{frame, f.sent}); err != nil {
		f.sent.Release() // there may be no buffer that would
		return err
	}
	return nil
}

func (f *frames) meter(size int) {
	if f.call.metered() {
		f.pace = f.admit.moved(f.call, size)
	}
}

func eventsFrame(events []backend.Event) *wirev1.ReadEventsResponse {
	out := make([]*wirev1.LogEvent, len(events))
	for i := range events {
		e := &events[i]
		out[i] = &wirev1.LogEvent{
			Seq: e.Seq, Version: e.Version, Event: e.Bytes, Origin: e.Origin, CreatedAt: timestamppb.New(e.CreatedAt),
		}
	}
	return &wirev1.ReadEventsResponse{Frame: &wirev1.ReadEventsResponse_Events{Events: &wirev1.EventsFrame{Events: out}}}
}

// end sends the last frame.
func (f *frames) end(reason follow.Reason, at int64) error {
	return f.stream.SendMsg(&wirev1.ReadEventsResponse{Frame: &wirev1.ReadEventsResponse_End{
		End: &taskstorev1.EndFrame{Reason: endReasons[reason], LastSeq: at},
	}})
}

// pause waits, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
