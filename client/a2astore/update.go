package a2astore

import (
	"context"
	"errors"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Update replaces a task of the user of the call, if it has the version PrevVersion; 0 stands for any version.
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
	if update == nil {
		return taskstore.TaskVersionMissing, invalid(a2a.ErrInvalidParams, "the update is nil")
	}
	task, err := encodeTask(update.Task)
	if err != nil {
		return taskstore.TaskVersionMissing, err
	}
	events, err := eventsOf(update, task)
	if err != nil {
		return taskstore.TaskVersionMissing, err
	}
	ctx, stop := s.writeContext(ctx)
	defer stop()
	scope, err := s.scope(ctx)
	if err != nil {
		return taskstore.TaskVersionMissing, err
	}
	resp, err := s.api.Save(ctx, &taskstorev1.SaveRequest{
		Scope:        scope,
		Write:        &taskstorev1.SaveRequest_Task{Task: task},
		Precondition: unchanged(update.PrevVersion),
		Events:       events,
		Origin:       s.opts.origin,
	})
	if err == nil {
		return versionOf(resp.GetVersion())
	}
	if event := cancellation(events); event != nil && errors.Is(err, client.ErrVersionConflict) {
		if cancelErr := s.cancel(ctx, scope, task.GetId(), event); cancelErr != nil {
			return taskstore.TaskVersionMissing, writeError(ctx, "cancel", cancelErr)
		}
	}
	return taskstore.TaskVersionMissing, writeError(ctx, "update", err)
}

// unchanged is the precondition of an update of a task that was read at a version; 0 is none.
func unchanged(v taskstore.TaskVersion) *taskstorev1.Precondition {
	if v == taskstore.TaskVersionMissing {
		return &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Present{Present: &emptypb.Empty{}}}
	}
	return &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Version{Version: int64(v)}}
}

// eventsOf returns what an update appends to the log of the task, which it leaves as given.
func eventsOf(update *taskstore.UpdateRequest, task *taskstorev1.Task) ([]*taskstorev1.EventInput, error) {
	state := task.GetStatus().GetState()
	switch e := update.Event.(type) {
	case *a2a.Message:
		// Readers wait for the end of the task: they must see it, whatever comes with it.
		if isTerminal(state) {
			return []*taskstorev1.EventInput{snapshot()}, nil
		}
		return nil, nil
	case *a2a.TaskStatusUpdateEvent:
		if e == nil || e.Status.State != update.Task.Status.State || !namesTask(e, update.Task) {
			break
		}
		return eventInput(e, task, func(event *taskstorev1.StreamResponse) bool {
			return proto.Equal(event.GetStatusUpdate().GetStatus(), task.GetStatus())
		})
	case *a2a.TaskArtifactUpdateEvent:
		// It cannot tell that the task has ended. In the FAILED that a2a-go stores when an event could not be processed, it is
		// that event, and looks like one that was if the agent repeats itself.
		if e == nil || e.Artifact == nil || isTerminal(state) || !namesTask(e, update.Task) {
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
func eventInput(e a2a.Event, task *taskstorev1.Task, agrees func(*taskstorev1.StreamResponse) bool) ([]*taskstorev1.EventInput, error) {
	event, err := encodeEvent(e)
	if err != nil && task.GetStatus().GetState() != taskstorev1.TaskState_TASK_STATE_FAILED {
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
func hasArtifact(task *taskstorev1.Task, event *taskstorev1.TaskArtifactUpdateEvent) bool {
	for _, a := range task.GetArtifacts() {
		if a.GetArtifactId() != event.GetArtifact().GetArtifactId() {
			continue
		}
		if !event.GetAppend() {
			return proto.Equal(a, event.GetArtifact())
		}
		parts := event.GetArtifact().GetParts()
		skip := len(a.GetParts()) - len(parts)
		if skip < 0 {
			return false
		}
		for i, p := range parts {
			if !proto.Equal(a.GetParts()[skip+i], p) {
				return false
			}
		}
		return true
	}
	return false
}

func isTerminal(s taskstorev1.TaskState) bool { return decodeState(s).Terminal() }
