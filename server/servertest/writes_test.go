package servertest

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Save saves through the client.
func (r *remote) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	out := &pb.SaveRequest{
		Scope: scope(req.Key.Tenant, req.Owner), Precondition: precondition(req.Pre),
		WriteId: req.WriteID, Origin: req.Origin, Claim: claimOf(req.Claim),
	}
	if req.Task != nil {
		task, err := payload(req.Task.AppendTask(nil), &pb.Task{})
		if err != nil {
			return backend.SaveResult{}, err
		}
		out.Write = &pb.SaveRequest_Task{Task: task}
	} else {
		delta, err := deltaOf(req.Key.TaskID, req.Delta)
		if err != nil {
			return backend.SaveResult{}, err
		}
		out.Write = &pb.SaveRequest_Delta{Delta: delta}
	}
	for _, in := range req.Events {
		if in.Snapshot {
			out.Events = append(out.Events, &pb.EventInput{Input: &pb.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}})
			continue
		}
		event, err := payload(in.Event.Bytes, &pb.StreamResponse{})
		if err != nil {
			return backend.SaveResult{}, err
		}
		out.Events = append(out.Events, &pb.EventInput{Input: &pb.EventInput_Event{Event: event}})
	}
	res, err := r.client.Save(ctx, out)
	if err != nil {
		return backend.SaveResult{}, fault(err)
	}
	return backend.SaveResult{
		Version: res.GetVersion(), Seq: res.GetSeq(), UpdatedAt: res.GetUpdatedAt().AsTime(), Replayed: res.GetReplayed(),
	}, nil
}

func precondition(p backend.Precondition) *pb.Precondition {
	switch p.Condition {
	case backend.AtVersion:
		return &pb.Precondition{Condition: &pb.Precondition_Version{Version: p.Version}}
	case backend.Present:
		return &pb.Precondition{Condition: &pb.Precondition_Present{Present: &emptypb.Empty{}}}
	case backend.NotTerminal:
		return &pb.Precondition{Condition: &pb.Precondition_NotTerminal{NotTerminal: &emptypb.Empty{}}}
	case backend.Any:
		return &pb.Precondition{Condition: &pb.Precondition_Any{Any: &emptypb.Empty{}}}
	default:
		return nil // the same as absent
	}
}

func deltaOf(taskID string, d *document.Delta) (*pb.TaskDelta, error) {
	out := &pb.TaskDelta{TaskId: taskID}
	switch {
	case d.Head != nil:
		head, err := payload(d.Head.Head, &pb.Task{})
		if err != nil {
			return nil, err
		}
		out.HeadChange = &pb.TaskDelta_Head{Head: head}
	case d.Status != nil:
		status, err := payload(d.Status.Bytes, &pb.TaskStatus{})
		if err != nil {
			return nil, err
		}
		out.HeadChange = &pb.TaskDelta_Status{Status: status}
	}
	switch {
	case d.Artifacts != nil:
		task, err := payload(d.Artifacts.Bytes, &pb.Task{})
		if err != nil {
			return nil, err
		}
		out.ArtifactChange = &pb.TaskDelta_ReplaceArtifacts{ReplaceArtifacts: &pb.ArtifactList{Artifacts: task.GetArtifacts()}}
	case d.Put != nil:
		task, err := payload(document.AppendArtifact(nil, d.Put), &pb.Task{})
		if err != nil {
			return nil, err
		}
		out.ArtifactChange = &pb.TaskDelta_PutArtifact{PutArtifact: task.GetArtifacts()[0]}
	case d.Append != nil:
		parts, err := payload(d.Append.Parts.Bytes, &pb.Artifact{})
		if err != nil {
			return nil, err
		}
		appended := &pb.AppendParts{ArtifactId: d.Append.ID, Parts: parts.GetParts()}
		if base := int32(d.Append.Base); base >= 0 {
			appended.BaseParts = &base
		}
		if d.Append.Replace {
			if appended.Artifact, err = payload(d.Append.Fields, &pb.Artifact{}); err != nil {
				return nil, err
			}
		}
		out.ArtifactChange = &pb.TaskDelta_AppendParts{AppendParts: appended}
	}
	task, err := payload(d.History.Bytes, &pb.Task{})
	if err != nil {
		return nil, err
	}
	out.AppendHistory = task.GetHistory()
	if keep := int32(d.MaxHistory); keep >= 0 {
		out.MaxHistory = &keep
	}
	return out, nil
}

// Delete deletes through the client.
func (r *remote) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	out := &pb.DeleteRequest{Scope: scope(req.Key.Tenant, req.Owner), TaskId: req.Key.TaskID}
	if req.Version != 0 {
		out.Version = &req.Version
	}
	res, err := r.client.Delete(ctx, out)
	return res.GetDeleted(), fault(err)
}

// AppendEvents appends through the client.
func (r *remote) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	out := &pb.AppendEventRequest{
		Scope: scope(req.Key.Tenant, req.Owner), TaskId: req.Key.TaskID, WriteId: req.WriteID, Origin: req.Origin,
		Claim: claimOf(req.Claim), RequireTask: req.RequireTask,
	}
	if req.Seq != 0 {
		out.Seq = &req.Seq
	}
	for _, e := range req.Events {
		event, err := payload(e.Bytes, &pb.StreamResponse{})
		if err != nil {
			return backend.AppendResult{}, err
		}
		out.Events = append(out.Events, event)
	}
	res, err := r.client.AppendEvent(ctx, out)
	if err != nil {
		return backend.AppendResult{}, fault(err)
	}
	return backend.AppendResult{
		FirstSeq: res.GetFirstSeq(), LastSeq: res.GetLastSeq(), Version: res.GetVersion(), Replayed: res.GetReplayed(),
	}, nil
}

// ClaimKey claims through the client.
func (r *remote) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	out := &pb.ClaimKeyRequest{
		Scope: scope(req.Key.Tenant, req.Key.Owner), Key: req.Key.Key, MessageId: req.MessageID, TaskId: req.TaskID,
		Token: req.Token, Lease: durationpb.New(req.Lease), Ttl: durationpb.New(req.TTL),
	}
	res, err := r.client.ClaimKey(ctx, out)
	if err != nil {
		return backend.ClaimResult{}, fault(err)
	}
	claimed := backend.ClaimResult{TaskID: res.GetTaskId()}
	if t := res.GetExpiresAt(); t != nil {
		claimed.Expires = t.AsTime()
	}
	switch res.GetOutcome() {
	case pb.ClaimOutcome_CLAIM_OUTCOME_CLAIMED:
		claimed.Outcome = backend.Claimed
	case pb.ClaimOutcome_CLAIM_OUTCOME_REPLAY:
		claimed.Outcome = backend.Replay
	case pb.ClaimOutcome_CLAIM_OUTCOME_CONFLICT:
		claimed.Outcome = backend.Conflict
	}
	return claimed, nil
}

// ReleaseKey releases through the client.
func (r *remote) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	_, err := r.client.ReleaseKey(ctx, &pb.ReleaseKeyRequest{
		Scope: scope(req.Key.Tenant, req.Key.Owner), Key: req.Key.Key, Token: req.Token,
	})
	return fault(err)
}
