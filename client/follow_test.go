package client_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var gone = problem(codes.Unavailable, "DRAINING", nil)

func opened(earliest, last int64) *taskstorev1.ReadEventsResponse {
	return &taskstorev1.ReadEventsResponse{Frame: &taskstorev1.ReadEventsResponse_Opened{
		Opened: &taskstorev1.OpenedFrame{EarliestSeq: earliest, LastSeq: last},
	}}
}

func frame(seqs ...int64) *taskstorev1.ReadEventsResponse {
	events := &taskstorev1.EventsFrame{}
	for _, seq := range seqs {
		events.Events = append(events.Events, &taskstorev1.LogEvent{Seq: seq})
	}
	return &taskstorev1.ReadEventsResponse{Frame: &taskstorev1.ReadEventsResponse_Events{Events: events}}
}

func end(reason taskstorev1.EndReason, last int64) *taskstorev1.ReadEventsResponse {
	return &taskstorev1.ReadEventsResponse{Frame: &taskstorev1.ReadEventsResponse_End{
		End: &taskstorev1.EndFrame{Reason: reason, LastSeq: last},
	}}
}

// turn is what one stream does: it sends frames and then ends with err.
type turn struct {
	frames []*taskstorev1.ReadEventsResponse
	err    error
}

// play serves the n-th stream with the n-th turn, and fails the test's read when there are more streams than turns.
func play(turns ...turn) func(int, *taskstorev1.ReadEventsRequest, eventStream) error {
	return func(n int, _ *taskstorev1.ReadEventsRequest, stream eventStream) error {
		if n > len(turns) {
			return problem(codes.FailedPrecondition, "ONE_STREAM_TOO_MANY", nil)
		}
		for _, f := range turns[n-1].frames {
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		return turns[n-1].err
	}
}

// collect iterates to the end.
func collect(events iter.Seq2[*taskstorev1.LogEvent, error]) (seqs []int64, err error) {
	for event, e := range events {
		if err = e; err == nil {
			seqs = append(seqs, event.GetSeq())
		}
	}
	return seqs, err
}

// How a read goes on after a break, by what it asked for and what it had got.
func TestFollowResumes(t *testing.T) {
	t.Parallel()
	const (
		head     = taskstorev1.ReadUntil_READ_UNTIL_HEAD
		terminal = taskstorev1.ReadUntil_READ_UNTIL_TERMINAL
		forever  = taskstorev1.ReadUntil_READ_UNTIL_FOREVER
	)
	type frames = []*taskstorev1.ReadEventsResponse
	fromNow := func() *taskstorev1.ReadEventsRequest {
		return &taskstorev1.ReadEventsRequest{Start: &taskstorev1.ReadEventsRequest_FromNow{FromNow: &emptypb.Empty{}}}
	}
	afterVersion := func() *taskstorev1.ReadEventsRequest {
		return &taskstorev1.ReadEventsRequest{Start: &taskstorev1.ReadEventsRequest_AfterVersion{AfterVersion: 4}}
	}
	afterSeq := func(seq int64) *taskstorev1.ReadEventsRequest {
		return &taskstorev1.ReadEventsRequest{Start: &taskstorev1.ReadEventsRequest_AfterSeq{AfterSeq: seq}}
	}
	with := func(req *taskstorev1.ReadEventsRequest, until taskstorev1.ReadUntil, limit int32) *taskstorev1.ReadEventsRequest {
		req.Until, req.Limit = until, limit
		return req
	}
	headEnd := func(last int64) *taskstorev1.EndFrame {
		return &taskstorev1.EndFrame{Reason: taskstorev1.EndReason_END_REASON_HEAD, LastSeq: last}
	}
	limitEnd := func(last int64) *taskstorev1.EndFrame {
		return &taskstorev1.EndFrame{Reason: taskstorev1.EndReason_END_REASON_LIMIT, LastSeq: last}
	}
	terminalEnd := func(last int64) *taskstorev1.EndFrame {
		return &taskstorev1.EndFrame{Reason: taskstorev1.EndReason_END_REASON_TERMINAL, LastSeq: last}
	}
	ended := func(e *taskstorev1.EndFrame) *taskstorev1.ReadEventsResponse {
		return end(e.GetReason(), e.GetLastSeq())
	}
	final := func(f *taskstorev1.ReadEventsResponse, seq int64) *taskstorev1.ReadEventsResponse {
		f.GetOpened().FinalSeq = &seq
		return f
	}

	tests := map[string]struct {
		req   *taskstorev1.ReadEventsRequest
		turns []turn
		sent  []*taskstorev1.ReadEventsRequest // from the second on
		got   []int64
		end   *taskstorev1.EndFrame
		err   error
	}{
		"behind the last event": {
			req: with(afterSeq(2), terminal, 0),
			turns: []turn{
				{frames{opened(1, 4), frame(3, 4)}, gone},
				{frames{opened(1, 5), frame(5), ended(terminalEnd(5))}, nil},
			},
			sent: []*taskstorev1.ReadEventsRequest{with(afterSeq(4), terminal, 0)},
			got:  []int64{3, 4, 5}, end: terminalEnd(5),
		},
		"a stream that only ends": {
			req:   afterSeq(2),
			turns: []turn{{frames{opened(1, 4)}, nil}, {frames{opened(1, 4), frame(3), ended(terminalEnd(3))}, nil}},
			sent:  []*taskstorev1.ReadEventsRequest{afterSeq(2)},
			got:   []int64{3}, end: terminalEnd(3),
		},
		"from the first event": {
			req:   with(afterSeq(0), forever, 0),
			turns: []turn{{frames{opened(11, 12)}, gone}, {frames{opened(12, 12)}, problem(codes.OutOfRange, "LOG_RANGE", nil)}},
			sent:  []*taskstorev1.ReadEventsRequest{with(afterSeq(10), forever, 0)},
			err:   client.ErrLogRange,
		},
		"from the first event, which is gone": {
			req:   with(afterSeq(0), forever, 0),
			turns: []turn{{frames{opened(1, 12)}, gone}, {frames{opened(2, 12), frame(2)}, nil}},
			sent:  []*taskstorev1.ReadEventsRequest{with(afterSeq(0), forever, 0)},
			err:   client.ErrLogRange,
		},
		"from the first event, yet to come": {
			req:   &taskstorev1.ReadEventsRequest{},
			turns: []turn{{frames{opened(1, 0)}, gone}, {frames{opened(7, 7), frame(7), ended(terminalEnd(7))}, nil}},
			sent:  []*taskstorev1.ReadEventsRequest{{}},
			got:   []int64{7}, end: terminalEnd(7),
		},
		"from now": {
			req:   fromNow(),
			turns: []turn{{frames{}, gone}, {frames{opened(1, 9)}, gone}, {frames{opened(1, 11), frame(10, 11), ended(terminalEnd(11))}, nil}},
			sent:  []*taskstorev1.ReadEventsRequest{fromNow(), afterSeq(9)},
			got:   []int64{10, 11}, end: terminalEnd(11),
		},
		"after a version": {
			req: afterVersion(),
			turns: []turn{
				{frames{opened(1, 9)}, gone},
				{frames{opened(1, 9), frame(8)}, gone},
				{frames{opened(1, 9), frame(9), ended(terminalEnd(9))}, nil},
			},
			sent: []*taskstorev1.ReadEventsRequest{afterVersion(), afterSeq(8)},
			got:  []int64{8, 9}, end: terminalEnd(9),
		},
		"head stays the first one": {
			req:   with(afterSeq(0), head, 0),
			turns: []turn{{frames{opened(1, 3), frame(1)}, gone}, {frames{opened(1, 6), frame(2, 3, 4, 5, 6), ended(headEnd(6))}, nil}},
			sent:  []*taskstorev1.ReadEventsRequest{with(afterSeq(1), head, 0)},
			got:   []int64{1, 2, 3}, end: headEnd(3),
		},
		"head with its end frame lost": {
			req:   with(afterSeq(0), head, 0),
			turns: []turn{{frames{opened(1, 3), frame(1, 2, 3)}, gone}},
			got:   []int64{1, 2, 3}, end: headEnd(3),
		},
		"head from now": {
			req:   with(fromNow(), head, 0),
			turns: []turn{{frames{opened(1, 3)}, gone}},
			end:   headEnd(3),
		},
		"limit counts over all streams": {
			req:   with(afterSeq(0), head, 4),
			turns: []turn{{frames{opened(1, 9), frame(1, 2, 3)}, gone}, {frames{opened(1, 9), frame(4), ended(limitEnd(4))}, nil}},
			sent:  []*taskstorev1.ReadEventsRequest{with(afterSeq(3), head, 1)},
			got:   []int64{1, 2, 3, 4}, end: limitEnd(4),
		},
		"limit with its end frame lost": {
			req:   with(afterSeq(0), head, 2),
			turns: []turn{{frames{opened(1, 9), frame(1, 2)}, gone}},
			got:   []int64{1, 2}, end: limitEnd(2),
		},
		"terminal with its end frame lost": {
			req:   with(afterSeq(0), terminal, 0),
			turns: []turn{{frames{final(opened(1, 3), 2), frame(1, 2)}, gone}},
			got:   []int64{1, 2}, end: terminalEnd(2),
		},
		"what comes twice": {
			req:   with(afterSeq(3), terminal, 0),
			turns: []turn{{frames{opened(1, 5), frame(3, 4), frame(4, 5), frame(5), ended(terminalEnd(5))}, nil}},
			got:   []int64{4, 5}, end: terminalEnd(5),
		},
		"no opened frame": {
			req:   afterSeq(0),
			turns: []turn{{frames{frame(1)}, nil}},
			err:   errAny,
		},
		"deleted meanwhile": {
			req:   afterSeq(0),
			turns: []turn{{frames{opened(1, 1), frame(1)}, gone}, {nil, problem(codes.NotFound, "TASK_NOT_FOUND", nil)}},
			sent:  []*taskstorev1.ReadEventsRequest{afterSeq(1)},
			got:   []int64{1}, err: client.ErrNotFound,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fake, n *network) {
				f.readEvents = play(tt.turns...)
				c := connect(t, n)
				var end *taskstorev1.EndFrame
				before := proto.CloneOf(tt.req)
				got, err := collect(c.Follow(t.Context(), tt.req, client.OnEnd(func(e *taskstorev1.EndFrame) { end = e })))
				if (err == nil) != (tt.err == nil) || (tt.err != errAny && !errors.Is(err, tt.err)) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if diff := cmp.Diff(tt.got, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.end, end, protocmp.Transform()); diff != "" {
					t.Errorf("end (-want +got):\n%s", diff)
				}
				sent := requests[*taskstorev1.ReadEventsRequest](f, "ReadEvents")
				if diff := cmp.Diff(append([]*taskstorev1.ReadEventsRequest{before}, tt.sent...), sent, protocmp.Transform()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(before, tt.req, protocmp.Transform()); diff != "" {
					t.Errorf("the caller's request changed (-before +after):\n%s", diff)
				}
			})
		})
	}
}

var errAny = errors.New("any error")

// The task comes once, and so does the frame; each iteration is a read of its own.
func TestFollowOpened(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		f.readEvents = func(n int, _ *taskstorev1.ReadEventsRequest, stream eventStream) error {
			if err := stream.Send(opened(1, int64(n))); err != nil || n%2 == 1 {
				return errors.Join(err, gone)
			}
			return stream.Send(end(taskstorev1.EndReason_END_REASON_TERMINAL, 0))
		}
		c := connect(t, n, client.WithScope(&taskstorev1.Scope{Tenant: "acme"}))
		var frames, breaks int
		events := c.Follow(t.Context(), &taskstorev1.ReadEventsRequest{IncludeTask: true},
			client.OnOpened(func(*taskstorev1.OpenedFrame) { frames++ }),
			client.OnBreak(func(err error) {
				breaks++
				if !errors.Is(err, client.ErrUnavailable) {
					t.Errorf("break %v", err)
				}
			}))
		for i := 1; i <= 2; i++ {
			if _, err := collect(events); err != nil {
				t.Fatal(err)
			}
			if frames != i || breaks != i {
				t.Errorf("%d opened frames and %d breaks after %d reads", frames, breaks, i)
			}
		}
		for i, req := range requests[*taskstorev1.ReadEventsRequest](f, "ReadEvents") {
			if req.GetIncludeTask() != (i%2 == 0) || req.GetScope().GetTenant() != "acme" {
				t.Errorf("request %d: %v", i, req)
			}
		}
	})
}

// A stream that ends because its token does not count any more is opened once more, with the token of then.
func TestFollowReplacesItsToken(t *testing.T) {
	t.Parallel()
	revoked := problem(codes.Unauthenticated, "CREDENTIALS_INVALID", nil)
	for name, tt := range map[string]struct {
		second turn
		want   error
		events []int64
	}{
		"replaced": {turn{[]*taskstorev1.ReadEventsResponse{
			opened(1, 2), frame(2), end(taskstorev1.EndReason_END_REASON_TERMINAL, 2),
		}, nil}, nil, []int64{1, 2}},
		"gone": {turn{nil, revoked}, client.ErrUnauthenticated, []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fake, n *network) {
				f.readEvents = play(turn{[]*taskstorev1.ReadEventsResponse{opened(1, 1), frame(1)}, revoked}, tt.second)
				tokens := 0
				c := connect(t, n, client.WithTokenSource(func(context.Context) (string, error) {
					tokens++
					return "token", nil
				}))
				got, err := collect(c.Follow(t.Context(), &taskstorev1.ReadEventsRequest{}))
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if diff := cmp.Diff(tt.events, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if tokens != 2 {
					t.Errorf("%d tokens were asked for", tokens)
				}
			})
		})
	}
}
