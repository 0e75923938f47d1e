package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/follow"
)

// A frame of events is smaller than it may be: a reader that does not take its frames holds one, and larger ones are not
// faster.
const (
	frameBytes  = 512 << 10
	frameEvents = 512
)

func (s *service) appendEvent(ctx context.Context, in *wirev1.AppendEventRequest) (*taskstorev1.AppendEventResponse, error) {
	v := s.validator()
	req := v.appendEvent(in)
	if err := v.err(); err != nil {
		return nil, err
	}
	res, err := s.store.AppendEvents(ctx, req)
	if err != nil {
		return nil, err
	}
	return &taskstorev1.AppendEventResponse{
		FirstSeq: res.FirstSeq, LastSeq: res.LastSeq, Version: res.Version, Replayed: res.Replayed,
	}, nil
}

func (v *validator) appendEvent(in *wirev1.AppendEventRequest) *backend.AppendRequest {
	req := &backend.AppendRequest{
		Events: make([]document.Event, len(in.GetEvents())), Seq: in.GetSeq(),
		WriteID: v.writeID(in.GetWriteId()), Origin: in.GetOrigin(), Claim: v.claim(in.GetClaim()), RequireTask: in.GetRequireTask(),
	}
	req.Key, req.Owner = v.taskKey(in.GetScope(), in.GetTaskId())
	v.text("origin", in.GetOrigin(), 0, maxToken)
	for i, b := range in.GetEvents() {
		req.Events[i] = v.event(i, "", b)
	}
	if len(in.GetEvents()) == 0 {
		v.fail("events", "is empty")
	}
	if in.Seq != nil {
		number(v, "seq", in.GetSeq(), 1)
		if in.GetSeq() > maxSeq {
			v.fail("seq", "is larger than 2^62")
		}
		if len(in.GetEvents()) > 1 {
			v.fail("seq", "is for one event only")
		}
	}
	return req
}

func (s *service) readEvents(in *taskstorev1.ReadEventsRequest, stream grpc.ServerStream) error {
	v := s.validator()
	req := v.readEvents(in)
	if err := v.err(); err != nil {
		return err
	}
	ctx := stream.Context()
	s.seen.Readers.Inc()
	defer s.seen.Readers.Dec()
	c := callOf(ctx)
	out := &frames{stream: stream, call: c, admit: s.admit, share: s.admit.frames.Open(c.holder())}
	defer out.close()
	reason, at, err := s.reader.Read(ctx, req, out)
	if err != nil {
		switch cause := context.Cause(ctx); {
		case ctx.Err() == nil:
		case isDraining(cause):
			return errDraining(at)
		case errors.Is(cause, reasonConnectionAge):
			return errConnectionAge(at)
		case auth.Refused(cause):
			return cause
		}
		return err
	}
	return out.end(reason, at)
}

var endReasons = map[follow.Reason]taskstorev1.EndReason{
	follow.AtHead:  taskstorev1.EndReason_END_REASON_HEAD,
	follow.AtLimit: taskstorev1.EndReason_END_REASON_LIMIT,
	follow.AtFinal: taskstorev1.EndReason_END_REASON_TERMINAL,
}

func (v *validator) readEvents(in *taskstorev1.ReadEventsRequest) *follow.Request {
	req := &follow.Request{
		Limit: int(in.GetLimit()), Task: in.GetIncludeTask(), ExcludeOrigin: in.GetExcludeOrigin(),
	}
	req.Key, req.Owner = v.taskKey(in.GetScope(), in.GetTaskId())
	v.text("exclude_origin", in.GetExcludeOrigin(), 0, maxToken)
	switch start := in.GetStart().(type) {
	case *taskstorev1.ReadEventsRequest_AfterSeq:
		number(v, "after_seq", start.AfterSeq, 0)
		req.Start = backend.Start{Kind: backend.AfterSeq, N: start.AfterSeq}
	case *taskstorev1.ReadEventsRequest_AfterVersion:
		number(v, "after_version", start.AfterVersion, 0)
		req.Start = backend.Start{Kind: backend.AfterVersion, N: start.AfterVersion}
	case *taskstorev1.ReadEventsRequest_FromNow:
		req.Start = backend.Start{Kind: backend.FromNow}
	}
	switch in.GetUntil() {
	case taskstorev1.ReadUntil_READ_UNTIL_UNSPECIFIED, taskstorev1.ReadUntil_READ_UNTIL_TERMINAL:
		req.Until = follow.Terminal
	case taskstorev1.ReadUntil_READ_UNTIL_HEAD:
		req.Until = follow.Head
	case taskstorev1.ReadUntil_READ_UNTIL_FOREVER:
		req.Until = follow.Forever
	default:
		v.fail("until", "is unknown")
	}
	number(v, "limit", in.GetLimit(), 0)
	if in.GetLimit() > 0 && req.Until != follow.Head {
		v.fail("limit", "goes with until HEAD only")
	}
	return req
}
