package bench

import (
	"context"
	"errors"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// direct calls a backend in process. It parses payloads, as there is no other way to make a backend's requests, and does
// nothing else that the server does. It knows the fields that workloads set.
type direct struct{ store backend.Store }

var _ api = direct{}

func ownerOf(s *taskstorev1.Scope) backend.Owner {
	return backend.Owner{Set: s.Owner != nil, Name: s.GetOwner()}
}

func (d direct) save(ctx context.Context, in *wirev1.SaveRequest) error {
	req, err := saveRequest(in)
	if err != nil {
		return err
	}
	_, err = d.store.Save(ctx, req)
	return err
}

func saveRequest(in *wirev1.SaveRequest) (*backend.SaveRequest, error) {
	req := &backend.SaveRequest{
		Key: backend.Key{Tenant: in.GetScope().GetTenant()}, Owner: ownerOf(in.GetScope()), WriteID: in.GetWriteId(),
		Pre: backend.Precondition{Condition: backend.Any},
	}
	var errs [4]error
	for _, b := range in.GetTask() {
		if req.Task, errs[0] = document.ParseTask(b); errs[0] == nil {
			req.Key.TaskID = req.Task.ID
		}
	}
	if delta := in.GetDelta(); delta != nil {
		req.Key.TaskID = delta.GetTaskId()
		req.Delta, errs[1] = deltaOf(delta)
	}
	req.Events = make([]backend.EventInput, len(in.GetEvents()))
	for i, e := range in.GetEvents() {
		req.Events[i].Event, errs[2] = document.ParseEvent(e.GetEvent()[0])
	}
	return req, errors.Join(errs[:]...)
}

func deltaOf(in *wirev1.TaskDelta) (d *document.Delta, err error) {
	d = &document.Delta{MaxHistory: -1}
	var errs [3]error
	for _, b := range in.GetStatus() {
		d.Status, errs[0] = document.ParseStatus(b)
	}
	if a := in.GetAppendParts(); a != nil {
		d.Append = &document.AppendToArtifact{ID: a.GetArtifactId(), Base: -1}
		d.Append.Parts, errs[1] = document.ParseParts(a.GetParts())
	}
	d.History, errs[2] = document.ParseHistory(in.GetAppendHistory())
	if in.MaxHistory != nil {
		d.MaxHistory = int(in.GetMaxHistory())
	}
	return d, errors.Join(errs[:]...)
}

func (d direct) get(ctx context.Context, in *taskstorev1.GetRequest) error {
	_, err := d.store.Get(ctx, &backend.GetRequest{
		Key: backend.Key{Tenant: in.GetScope().GetTenant(), TaskID: in.GetTaskId()}, Owner: ownerOf(in.GetScope()), Extent: backend.All,
	})
	return err
}

// list knows no page tokens, and returns the rows alone.
func (d direct) list(ctx context.Context, in *taskstorev1.ListRequest) (*wirev1.ListResponse, error) {
	page, err := d.store.List(ctx, &backend.ListRequest{
		Tenant: in.GetScope().GetTenant(), Owner: ownerOf(in.GetScope()),
		ContextID: in.GetContextId(), State: int32(in.GetStatus()), Size: int(in.GetPageSize()), MaxBytes: 3 << 20,
		Extent: backend.Extent{OmitArtifacts: !in.GetIncludeArtifacts(), History: -1}, SkipTotal: in.GetSkipTotal(),
	})
	if err != nil {
		return nil, err
	}
	resp := &wirev1.ListResponse{Tasks: make([]*wirev1.StoredTask, len(page.Rows))}
	for i, row := range page.Rows {
		resp.Tasks[i] = &wirev1.StoredTask{Task: row.Task, Version: row.Version, Owner: row.Owner}
	}
	return resp, nil
}

func (d direct) claim(ctx context.Context, in *taskstorev1.ClaimKeyRequest) (taskstorev1.ClaimOutcome, error) {
	res, err := d.store.ClaimKey(ctx, &backend.ClaimRequest{
		Key:       backend.ClaimKey{Tenant: in.GetScope().GetTenant(), Owner: ownerOf(in.GetScope()), Key: in.GetKey()},
		MessageID: in.GetMessageId(), TaskID: in.GetTaskId(), Token: in.GetToken(),
		Lease: in.GetLease().AsDuration(), TTL: in.GetTtl().AsDuration(),
	})
	return taskstorev1.ClaimOutcome(res.Outcome), err
}
