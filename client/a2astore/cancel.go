package a2astore

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// exactCancels is how often cancel asks for the version that it read.
const exactCancels = 3

// cancellation returns the status update to CANCELED among the events of an update, or nil.
func cancellation(events []*taskstorev1.EventInput) *taskstorev1.StreamResponse {
	for _, e := range events {
		if e.GetEvent().GetStatusUpdate().GetStatus().GetState() == taskstorev1.TaskState_TASK_STATE_CANCELED {
			return e.GetEvent()
		}
	}
	return nil
}

// cancel applies a status update to CANCELED to whatever the task is now. It returns nil if the task is in a terminal state
// afterwards, not necessarily by this call.
//
// a2a-go cancels by reading the task, changing its status, and writing it back if nobody wrote in between, ten times at
// most. An agent that streams its answer through another replica writes every few milliseconds, and the user's cancel
// would lose ten times in a row and be given up. So an update to CANCELED that lost does here what a2a-go would do next, but
// with a change that leaves artifacts and history alone, and in the end without asking for a version. The update itself
// still reports the conflict, because the task is not the one that the caller made: a2a-go reads it again, finds it
// canceled, and is done. The streaming replica gets the conflict with its next write and stops.
//
// Only the last attempt can miss something: the metadata that the racing write merged, if the event has metadata itself,
// and the status message that it replaced, which should have gone into the history.
func (s *Store) cancel(ctx context.Context, scope *taskstorev1.Scope, taskID string, event *taskstorev1.StreamResponse) error {
	for attempt := 0; ; attempt++ {
		current, err := s.api.Get(ctx, &taskstorev1.GetRequest{
			Scope: scope, TaskId: taskID, HistoryLength: proto.Int32(0), OmitArtifacts: true,
		})
		if err != nil {
			return err
		}
		if isTerminal(current.GetTask().GetStatus().GetState()) {
			return nil
		}
		precondition := &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Version{Version: current.GetVersion()}}
		last := attempt == exactCancels
		if last {
			precondition.Condition = &taskstorev1.Precondition_NotTerminal{NotTerminal: &emptypb.Empty{}}
		}
		_, err = s.api.Save(ctx, &taskstorev1.SaveRequest{
			Scope:        scope,
			Write:        &taskstorev1.SaveRequest_Delta{Delta: cancelDelta(current.GetTask(), event.GetStatusUpdate())},
			Precondition: precondition,
			Events:       []*taskstorev1.EventInput{{Input: &taskstorev1.EventInput_Event{Event: event}}},
			Origin:       s.opts.origin,
		})
		switch {
		case err == nil, errors.Is(err, client.ErrTerminalState):
			return nil
		case last || !errors.Is(err, client.ErrVersionConflict):
			return err
		}
	}
}

// cancelDelta changes what a2a-go changes for a status update: the status; the message of the old one goes into the history;
// the metadata of the event is merged into the task's.
func cancelDelta(task *taskstorev1.Task, event *taskstorev1.TaskStatusUpdateEvent) *taskstorev1.TaskDelta {
	delta := &taskstorev1.TaskDelta{TaskId: task.GetId()}
	if m := task.GetStatus().GetMessage(); m != nil {
		delta.AppendHistory = []*taskstorev1.Message{m}
	}
	if event.GetMetadata() == nil {
		delta.HeadChange = &taskstorev1.TaskDelta_Status{Status: event.GetStatus()}
		return delta
	}
	head := proto.CloneOf(task) // with the fields that a2a-go does not know
	head.Artifacts, head.History = nil, nil
	head.Status = event.GetStatus()
	if head.Metadata == nil {
		head.Metadata = &structpb.Struct{}
	}
	if head.Metadata.Fields == nil {
		head.Metadata.Fields = map[string]*structpb.Value{}
	}
	for k, v := range event.GetMetadata().GetFields() {
		head.Metadata.Fields[k] = v
	}
	delta.HeadChange = &taskstorev1.TaskDelta_Head{Head: head}
	return delta
}
