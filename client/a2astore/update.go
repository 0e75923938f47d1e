package a2astore

import (
	"context"
	"errors"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Update replaces a task of the user of the call, if it has the version PrevVersion; 0 stands for any version.
//
// It sends what changed, if the store remembers the version ([WithMemory]) and the change is one of those that a2a-go makes:
// the status or the metadata; one artifact that is new, replaced, or got more parts; messages behind the history, or the
// oldest ones gone. Otherwise, and where it cannot be certain that the result is the same, it sends the whole task.
//
// It appends to the task's log what tells the new state: a status update that holds the status of the task, or an artifact
// update whose artifact is in the task; otherwise, also without an event, the task as it is stored. A message is a turn
// of the user that went into the history, and appends nothing. PrevTask is not used.
//
// Errors: a2a.ErrTaskNotFound, also for a task of somebody else. taskstore.ErrConcurrentModification if the task has another
// version, or is in a terminal state and the update would change it: a terminal state stays, whatever the version.
// a2a.ErrInvalidParams for what cannot be stored, or for another context id.
//
// A status update to CANCELED does not lose against a task that changes all the time. It gets
// taskstore.ErrConcurrentModification like any other update of an old version, but the task is then canceled nevertheless,
// as the caller finds when it reads it again. See cancel.
func (s *Store) Update(ctx context.Context, update *taskstore.UpdateRequest) (taskstore.TaskVersion, error) {
	if update == nil || update.Task == nil {
		return taskstore.TaskVersionMissing, invalid(a2a.ErrInvalidParams, "the update has no task")
	}
	ctx, stop := s.writeContext(ctx)
	defer stop()
	scope, err := s.scope(ctx)
	if err != nil {
		return taskstore.TaskVersionMissing, err
	}
	known := s.memory.take(keyOf(scope, update.Task.ID), int64(update.PrevVersion))
	req, err := s.encodeUpdate(scope, update, known)
	if err != nil {
		s.memory.put(known) // for the FAILED that a2a-go stores next
		return taskstore.TaskVersionMissing, err
	}
	resp, err := s.api.Save(ctx, req)
	if doesNotFit(err) {
		known = nil
		if req, err = s.encodeUpdate(scope, update, nil); err != nil {
			return taskstore.TaskVersionMissing, err
		}
		resp, err = s.api.Save(ctx, req)
	}
	if err == nil {
		s.remember(req, resp.GetVersion(), known)
		return versionOf(resp.GetVersion())
	}
	s.memory.put(known.unchanged(err))
	if event := cancellation(req.GetEvents()); event != nil && errors.Is(err, client.ErrVersionConflict) {
		if cancelErr := s.cancel(ctx, scope, string(update.Task.ID), event); cancelErr != nil {
			return taskstore.TaskVersionMissing, writeError(ctx, "cancel", cancelErr)
		}
	}
	return taskstore.TaskVersionMissing, writeError(ctx, "update", err)
}

// encodeUpdate returns the write of an update: of what changed, if that can be told from what is known, else of the task.
func (s *Store) encodeUpdate(scope *taskstorev1.Scope, update *taskstore.UpdateRequest, known *memo) (*taskstorev1.SaveRequest, error) {
	req := &taskstorev1.SaveRequest{Scope: scope, Precondition: ifVersion(update.PrevVersion), Origin: s.opts.origin}
	if delta := known.deltaTo(update.Task); delta != nil {
		req.Write = &taskstorev1.SaveRequest_Delta{Delta: delta}
	} else {
		task, err := encodeTask(update.Task)
		if err != nil {
			return nil, err
		}
		req.Write = &taskstorev1.SaveRequest_Task{Task: task}
	}
	var err error
	req.Events, err = eventsOf(update)
	return req, err
}

// remember keeps what a write has left, which uses up the request and what was known before.
func (s *Store) remember(req *taskstorev1.SaveRequest, version int64, known *memo) {
	switch {
	case !s.memory.keeps():
	case req.GetDelta() != nil:
		s.memory.put(known.changed(req.GetDelta(), version))
	default:
		s.memory.put(written(keyOf(req.GetScope(), a2a.TaskID(req.GetTask().GetId())), req.GetTask(), version))
	}
}

// ifVersion is the precondition of an update of a task that was read at a version; 0 is none.
func ifVersion(v taskstore.TaskVersion) *taskstorev1.Precondition {
	if v == taskstore.TaskVersionMissing {
		return &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Present{Present: &emptypb.Empty{}}}
	}
	return &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Version{Version: int64(v)}}
}

// eventsOf returns what an update appends to the log of the task.
func eventsOf(update *taskstore.UpdateRequest) ([]*taskstorev1.EventInput, error) {
	task := update.Task
	switch e := update.Event.(type) {
	case *a2a.Message:
		// Readers wait for the end of the task: they must see it, whatever comes with it.
		if task.Status.State.Terminal() {
			return []*taskstorev1.EventInput{snapshot()}, nil
		}
		return nil, nil
	case *a2a.TaskStatusUpdateEvent:
		if e == nil || e.Status.State != task.Status.State || !namesTask(e, task) {
			break
		}
		return eventInput(e, task, func(event *taskstorev1.StreamResponse) bool {
			return sameStatus(&task.Status, event.GetStatusUpdate().GetStatus())
		})
	case *a2a.TaskArtifactUpdateEvent:
		// It cannot tell that the task has ended. In the FAILED that a2a-go stores when an event could not be processed, it is
		// that event, and looks like one that was if the agent repeats itself.
		if e == nil || e.Artifact == nil || task.Status.State.Terminal() || !namesTask(e, task) {
			break
		}
		return eventInput(e, task, func(event *taskstorev1.StreamResponse) bool {
			return hasArtifact(task, event.GetArtifactUpdate())
		})
	}
	// A task as an event is the task that is stored, so that it need not be sent twice.
	return []*taskstorev1.EventInput{snapshot()}, nil
}

// eventInput is the event if it agrees with the task, else the task. An event that cannot be stored refuses the update, but
// not one to FAILED, which is how a2a-go answers that refusal.
func eventInput(e a2a.Event, task *a2a.Task, agrees func(*taskstorev1.StreamResponse) bool) ([]*taskstorev1.EventInput, error) {
	event, err := encodeEvent(e)
	if err != nil && task.Status.State != a2a.TaskStateFailed {
		return nil, err
	}
	if err != nil || !agrees(event) {
		return []*taskstorev1.EventInput{snapshot()}, nil
	}
	return []*taskstorev1.EventInput{{Input: &taskstorev1.EventInput_Event{Event: event}}}, nil
}

// namesTask reports whether the ids in an event, where set, are the task's: the service refuses others.
func namesTask(e a2a.Event, task *a2a.Task) bool {
	info := e.TaskInfo()
	return (info.TaskID == "" || info.TaskID == task.ID) && (info.ContextID == "" || info.ContextID == task.ContextID)
}

// hasArtifact reports whether the task has what the event says: the artifact, or, at the end of the artifact, the parts.
func hasArtifact(task *a2a.Task, event *taskstorev1.TaskArtifactUpdateEvent) bool {
	for _, a := range task.Artifacts {
		if string(a.ID) != event.GetArtifact().GetArtifactId() {
			continue
		}
		if !event.GetAppend() {
			return sameArtifact(a, event.GetArtifact())
		}
		parts := event.GetArtifact().GetParts()
		skip := len(a.Parts) - len(parts)
		return skip >= 0 && startsWith(a.Parts[skip:], parts, samePart)
	}
	return false
}

func isTerminal(s taskstorev1.TaskState) bool { return decodeState(s).Terminal() }
