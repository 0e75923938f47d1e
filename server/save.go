package server

import (
	"context"
	"crypto/rand"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

func (s *service) save(ctx context.Context, in *wirev1.SaveRequest) (*taskstorev1.SaveResponse, error) {
	v := s.validator()
	req := v.save(in)
	if err := v.err(); err != nil {
		return nil, err
	}
	inserted, err := s.quotas.mayInsert(ctx, callOf(ctx), req)
	if err != nil {
		return nil, err
	}
	res, err := s.store.Save(ctx, req)
	if err != nil {
		return nil, err
	}
	if !res.Replayed && (res.Version == 1 || req.Pre.Condition == backend.Absent) {
		inserted()
	}
	return &taskstorev1.SaveResponse{
		Version: res.Version, Seq: res.Seq, UpdatedAt: timestamppb.New(res.UpdatedAt), Replayed: res.Replayed,
	}, nil
}

func (v *validator) save(in *wirev1.SaveRequest) *backend.SaveRequest {
	req := &backend.SaveRequest{
		Pre: v.precondition(in.GetPrecondition()), WriteID: v.writeID(in.GetWriteId()), Origin: in.GetOrigin(),
		Claim: v.claim(in.GetClaim()),
	}
	v.text("origin", in.GetOrigin(), 0, maxToken)
	req.Key.Tenant, req.Owner = v.scope(in.GetScope())

	task, whole := v.single("task", in.GetTask())
	switch {
	case len(in.GetTask()) > 0 && in.GetDelta() != nil:
		v.fail("delta", "is set together with task")
	case whole:
		if t := v.task("task", task); t != nil {
			req.Task, req.Key.TaskID = t, t.ID
		}
	case in.GetDelta() != nil:
		if req.Pre.Condition == backend.Absent {
			v.fail("precondition", "of a delta must be version, present, not_terminal or any")
		}
		req.Delta, req.Key.TaskID = v.delta(in.GetDelta()), in.GetDelta().GetTaskId()
	case len(in.GetTask()) == 0:
		v.fail("task", "is missing, and so is delta")
	}

	req.Events = make([]backend.EventInput, len(in.GetEvents()))
	for i, e := range in.GetEvents() {
		switch n := len(e.GetEvent()); {
		case n > 0 && e.GetSnapshot() != nil:
			v.fail(eventField(i, ""), "has both an event and a snapshot")
		case n > 1:
			v.fail(eventField(i, ".event"), "occurs twice")
		case n == 1:
			req.Events[i].Event = v.event(i, ".event", e.GetEvent()[0])
		case e.GetSnapshot() != nil:
			req.Events[i].Snapshot = true
		default:
			v.fail(eventField(i, ""), "is empty")
		}
	}
	return req
}

// writeID checks the id of a write, or makes one: a backend that repeats a write whose outcome it does not know needs it.
func (v *validator) writeID(id string) string {
	if id == "" {
		return rand.Text()
	}
	v.text("write_id", id, 0, maxToken)
	return id
}

func (v *validator) precondition(p *taskstorev1.Precondition) backend.Precondition {
	switch c := p.GetCondition().(type) {
	case *taskstorev1.Precondition_Version:
		number(v, "precondition.version", c.Version, 1)
		return backend.Precondition{Condition: backend.AtVersion, Version: c.Version}
	case *taskstorev1.Precondition_Present:
		return backend.Precondition{Condition: backend.Present}
	case *taskstorev1.Precondition_NotTerminal:
		return backend.Precondition{Condition: backend.NotTerminal}
	case *taskstorev1.Precondition_Any:
		return backend.Precondition{Condition: backend.Any}
	default:
		return backend.Precondition{}
	}
}

func (v *validator) delta(in *wirev1.TaskDelta) *document.Delta {
	v.text("delta.task_id", in.GetTaskId(), 1, maxID)
	d := &document.Delta{MaxHistory: -1}

	head, hasHead := v.single("delta.head", in.GetHead())
	status, hasStatus := v.single("delta.status", in.GetStatus())
	if len(in.GetHead()) > 0 && len(in.GetStatus()) > 0 {
		v.fail("delta.status", "is set together with head")
	}
	if hasHead {
		d.Head = v.task("delta.head", head)
		if d.Head != nil && d.Head.ID != in.GetTaskId() {
			v.fail("delta.head.id", "is not the task_id of the delta")
		}
		if d.Head != nil && d.Head.Artifacts.Count+d.Head.History.Count > 0 {
			v.fail("delta.head", "has artifacts or history")
		}
	}
	if hasStatus {
		s, err := document.ParseStatus(status)
		v.payload("delta.status", err)
		d.Status = s
	}

	v.artifactChange(d, in)

	history, err := document.ParseHistory(in.GetAppendHistory())
	v.payload("delta.append_history", err)
	d.History = history
	if in.MaxHistory != nil {
		number(v, "delta.max_history", in.GetMaxHistory(), 0)
		d.MaxHistory = int(in.GetMaxHistory())
	}
	return d
}

func (v *validator) artifactChange(d *document.Delta, in *wirev1.TaskDelta) {
	changes := 0
	if in.GetReplaceArtifacts() != nil {
		changes++
		list, err := document.ParseArtifacts(in.GetReplaceArtifacts().GetArtifacts())
		v.payload("delta.replace_artifacts.artifacts", err)
		d.Artifacts = &list
	}
	if len(in.GetPutArtifact()) > 0 {
		changes++
		if b, ok := v.single("delta.put_artifact", in.GetPutArtifact()); ok {
			a, err := document.ParseArtifact(b)
			v.payload("delta.put_artifact", err)
			d.Put = a
		}
	}
	if in.GetAppendParts() != nil {
		changes++
		d.Append = v.appendParts(in.GetAppendParts())
	}
	if changes > 1 {
		v.fail("delta", "changes the artifacts in several ways")
	}
}

func (v *validator) appendParts(in *wirev1.AppendParts) *document.AppendToArtifact {
	a := &document.AppendToArtifact{ID: in.GetArtifactId(), Base: -1}
	parts, err := document.ParseParts(in.GetParts())
	v.payload("delta.append_parts.parts", err)
	a.Parts = parts
	if in.BaseParts != nil {
		number(v, "delta.append_parts.base_parts", in.GetBaseParts(), 0)
		a.Base = int(in.GetBaseParts())
	}
	b, ok := v.single("delta.append_parts.artifact", in.GetArtifact())
	if !ok {
		return a
	}
	artifact, err := document.ParseArtifact(b)
	if !v.payload("delta.append_parts.artifact", err) {
		return a
	}
	if artifact.Parts.Count > 0 {
		v.fail("delta.append_parts.artifact.parts", "must be empty")
	}
	if artifact.ID != in.GetArtifactId() {
		v.fail("delta.append_parts.artifact.artifact_id", "is not the artifact_id of append_parts")
	}
	a.Replace, a.Fields = true, artifact.Fields
	return a
}
