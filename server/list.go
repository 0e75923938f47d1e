package server

import (
	"context"
	"math"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

const defaultPageSize = 50

func (s *service) list(ctx context.Context, in *taskstorev1.ListRequest) (*wirev1.ListResponse, error) {
	v := s.validator()
	req := v.list(in)
	if err := v.err(); err != nil {
		return nil, err
	}
	req.MaxBytes = s.pageBudget(req.Size)
	res, err := s.store.List(ctx, req)
	if err != nil {
		return nil, err
	}
	weight := 0
	for i := range res.Rows {
		weight += len(res.Rows[i].Task)
	}
	if err := s.admit.respond(callOf(ctx), weight); err != nil {
		return nil, err
	}
	out := &wirev1.ListResponse{
		Tasks:     make([]*wirev1.StoredTask, len(res.Rows)),
		PageSize:  int32(req.Size),
		TotalSize: int32(min(res.Total, math.MaxInt32)),
	}
	for i := range res.Rows {
		out.Tasks[i] = storedTask(&res.Rows[i])
	}
	if res.Next != nil {
		out.NextPageToken = encodeToken(req, res.Next)
	}
	return out, nil
}

func (v *validator) list(in *taskstorev1.ListRequest) *backend.ListRequest {
	req := &backend.ListRequest{ContextID: in.GetContextId(), State: int32(in.GetStatus()), SkipTotal: in.GetSkipTotal()}
	req.Tenant, req.Owner = v.scope(in.GetScope())
	v.text("context_id", in.GetContextId(), 0, maxID)
	if !document.KnownState(req.State) {
		v.fail("status", "is unknown")
	}
	if t := in.GetStatusTimestampAfter(); t != nil {
		since, err := document.NewTimestamp(t.GetSeconds(), t.GetNanos())
		v.payload("status_timestamp_after", err)
		req.Since = since
	}
	req.Size = defaultPageSize
	if in.PageSize != nil {
		req.Size = int(in.GetPageSize())
		if req.Size < 1 || req.Size > maxPageSize {
			v.fail("page_size", "is not within 1 and %d", maxPageSize)
		}
	}
	req.Extent = backend.Extent{History: v.history(in.HistoryLength), OmitArtifacts: !in.GetIncludeArtifacts()}
	if token := in.GetPageToken(); token != "" && len(v.violations) == 0 {
		after, ok := decodeToken(req, token)
		if !ok {
			v.fail("page_token", "is not a token of a list of this scope and these filters")
		}
		req.After = after
	}
	return req
}

func storedTask(t *backend.Stored) *wirev1.StoredTask {
	return &wirev1.StoredTask{Task: t.Task, Version: t.Version, Owner: t.Owner}
}
