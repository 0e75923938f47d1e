package servertest

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/client"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Get reads through the client.
func (r *remote) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	out := &pb.GetRequest{
		Scope: scope(req.Key.Tenant, req.Owner), TaskId: req.Key.TaskID, HistoryLength: history(&req.Extent),
		OmitArtifacts: req.Extent.OmitArtifacts,
	}
	if req.Extent.StateOnly {
		out.View = pb.TaskView_TASK_VIEW_STATE
	}
	res, err := r.client.Get(ctx, out)
	if err != nil {
		return backend.GetResult{}, fault(err)
	}
	got := backend.GetResult{
		LastSeq: res.GetLastSeq(), Final: res.FinalSeq != nil, FinalSeq: res.GetFinalSeq(),
		CreatedAt: res.GetCreatedAt().AsTime(), UpdatedAt: res.GetUpdatedAt().AsTime(), Now: res.GetNow().AsTime(),
	}
	if t := res.GetFinalizedAt(); t != nil {
		got.FinalizedAt = t.AsTime()
	}
	got.Stored, err = stored(res.GetTask(), res.GetVersion(), res.GetOwner())
	return got, err
}

// List lists through the client. A Position holds a page token in place of an id: pages start where an earlier one ended.
func (r *remote) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	size := int32(req.Size)
	out := &pb.ListRequest{
		Scope: scope(req.Tenant, req.Owner), ContextId: req.ContextID, Status: pb.TaskState(req.State), PageSize: &size,
		HistoryLength: history(&req.Extent), IncludeArtifacts: !req.Extent.OmitArtifacts, SkipTotal: req.SkipTotal,
	}
	if req.Since.Valid {
		out.StatusTimestampAfter = &timestamppb.Timestamp{Seconds: req.Since.Seconds, Nanos: req.Since.Nanos}
	}
	if req.After != nil {
		out.PageToken = req.After.TaskID
	}
	res, err := r.client.List(ctx, out)
	if err != nil {
		return backend.ListResult{}, fault(err)
	}
	page := backend.ListResult{Total: int(res.GetTotalSize())}
	if token := res.GetNextPageToken(); token != "" {
		page.Next = &backend.Position{TaskID: token}
	}
	for _, row := range res.GetTasks() {
		s, err := stored(row.GetTask(), row.GetVersion(), row.GetOwner())
		if err != nil {
			return page, err
		}
		page.Rows = append(page.Rows, s)
	}
	return page, nil
}

// ReadLog reads what there is, as far as the page goes.
func (r *remote) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	out := &pb.ReadEventsRequest{
		Scope: scope(req.Key.Tenant, req.Owner), TaskId: req.Key.TaskID, Until: pb.ReadUntil_READ_UNTIL_HEAD,
		Limit: int32(req.MaxEvents), IncludeTask: req.Task != nil,
	}
	switch req.Start.Kind {
	case backend.AfterSeq:
		out.Start = &pb.ReadEventsRequest_AfterSeq{AfterSeq: req.Start.N}
	case backend.AfterVersion:
		out.Start = &pb.ReadEventsRequest_AfterVersion{AfterVersion: req.Start.N}
	case backend.FromNow:
		out.Start = &pb.ReadEventsRequest_FromNow{FromNow: &emptypb.Empty{}}
	}
	var page backend.LogPage
	var taskErr error
	opened := func(frame *pb.OpenedFrame) {
		page.Log = backend.LogInfo{
			FirstSeq: frame.GetEarliestSeq(), LastSeq: frame.GetLastSeq(), Final: frame.FinalSeq != nil, FinalSeq: frame.GetFinalSeq(),
		}
		if row := frame.GetTask(); row != nil {
			s, err := stored(row.GetTask(), row.GetVersion(), row.GetOwner())
			page.Task, taskErr = &s, err
		}
	}
	for event, err := range r.client.Follow(ctx, out, client.OnOpened(opened)) {
		if err != nil {
			return backend.LogPage{}, fault(err)
		}
		b, err := proto.Marshal(event.GetEvent())
		if err != nil {
			return backend.LogPage{}, err
		}
		page.Events = append(page.Events, backend.Event{
			Seq: event.GetSeq(), Version: event.GetVersion(), Origin: event.GetOrigin(), CreatedAt: event.GetCreatedAt().AsTime(), Bytes: b,
		})
	}
	return page, taskErr
}
