package a2astore

import (
	"context"
	"math"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// A2A bounds the page size.
const maxPageSize = 100

// List returns a page of the tasks of the user of the call, which match all filters, newest status first; tasks without a status
// timestamp come last, and equal ones by id, largest first. The tasks are copies that are the caller's to change.
//
// A page may hold fewer tasks than asked for although NextPageToken says that more follow: it is also bounded in bytes.
// Histories are complete unless HistoryLength is set. StatusTimestampAfter excludes tasks without a timestamp. The tenant is
// that of the call, not that of the request.
//
// Errors: a2a.ErrUnauthenticated also for a user without a name (see [WithAuthenticator]); a2a.ErrInvalidRequest for a
// page size, state, time or history length that is none; a2a.ErrParseError for a page token that is not from this list, or
// from a list with other filters.
func (s *Store) List(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	scope, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if scope.GetOwner() == "" {
		return nil, &storeError{"tasks can be listed for a user with a name only", []error{a2a.ErrUnauthenticated}}
	}
	pb, err := encodeListRequest(req)
	if err != nil {
		return nil, err
	}
	pb.Scope = scope
	resp, err := s.api.List(ctx, pb)
	if err != nil {
		return nil, readError(ctx, "list", err)
	}
	tasks := make([]*a2a.Task, len(resp.GetTasks())) // never nil: JSON would show null for a list that A2A requires
	for i, t := range resp.GetTasks() {
		tasks[i] = decodeTask(t.GetTask())
	}
	return &a2a.ListTasksResponse{
		Tasks:         tasks,
		TotalSize:     int(resp.GetTotalSize()),
		PageSize:      int(resp.GetPageSize()),
		NextPageToken: resp.GetNextPageToken(),
	}, nil
}

func encodeListRequest(req *a2a.ListTasksRequest) (*taskstorev1.ListRequest, error) {
	if req == nil {
		req = &a2a.ListTasksRequest{}
	}
	pb := &taskstorev1.ListRequest{
		ContextId:        req.ContextID,
		PageToken:        req.PageToken,
		IncludeArtifacts: req.IncludeArtifacts,
	}
	if err := checkTexts(text{"pageToken", req.PageToken}); err != nil {
		return nil, invalid(a2a.ErrParseError, "invalid page token")
	}
	if err := checkTexts(text{"contextId", req.ContextID}); err != nil {
		return nil, invalid(a2a.ErrInvalidRequest, "the context id is not valid UTF-8")
	}
	state, ferr := encodeState(req.Status)
	if _, known := taskstorev1.TaskState_name[int32(state)]; ferr != nil || !known {
		return nil, invalid(a2a.ErrInvalidRequest, "unknown task state "+quoteShort(string(req.Status)))
	}
	pb.Status = state
	if req.StatusTimestampAfter != nil {
		after, err := encodeTime(*req.StatusTimestampAfter)
		if err != nil {
			return nil, invalid(a2a.ErrInvalidRequest, "status timestamp: "+err.reason)
		}
		pb.StatusTimestampAfter = after
	}
	switch {
	case req.PageSize < 0 || req.PageSize > maxPageSize:
		return nil, invalid(a2a.ErrInvalidRequest, "the page size must be between 1 and 100")
	case req.PageSize > 0:
		pb.PageSize = proto.Int32(int32(req.PageSize))
	}
	if n := req.HistoryLength; n != nil {
		if *n < 0 {
			return nil, invalid(a2a.ErrInvalidRequest, "the history length must not be negative")
		}
		pb.HistoryLength = proto.Int32(int32(min(*n, math.MaxInt32)))
	}
	return pb, nil
}
