package a2astore

import (
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/google/go-cmp/cmp"
)

func TestUpdateVersions(t *testing.T) {
	t.Parallel()
	s := newStore(newFake())
	ctx := as(t.Context(), "alice")
	_, err := s.Update(ctx, &taskstore.UpdateRequest{Task: plainTask()})
	wantError(t, err, a2a.ErrTaskNotFound)
	_, err = s.Update(ctx, &taskstore.UpdateRequest{Task: plainTask(), PrevVersion: 1})
	wantError(t, err, a2a.ErrTaskNotFound)
	mustCreate(t, s, ctx, plainTask())

	steps := []struct {
		name  string
		user  string
		state a2a.TaskState
		prev  taskstore.TaskVersion
		want  taskstore.TaskVersion
		err   error
	}{
		{"at the version", "alice", a2a.TaskStateWorking, 1, 2, nil},
		{"at an old version", "alice", a2a.TaskStateWorking, 1, 0, taskstore.ErrConcurrentModification},
		{"unchecked", "alice", a2a.TaskStateWorking, 0, 3, nil},
		{"somebody else's", "bob", a2a.TaskStateWorking, 0, 0, a2a.ErrTaskNotFound},
		{"to the end", "alice", a2a.TaskStateCompleted, 3, 4, nil},
		{"the same end again", "alice", a2a.TaskStateCompleted, 4, 5, nil},
		// a2a-go reads the task again on a concurrent modification, and ends with what it finds.
		{"out of a terminal state", "alice", a2a.TaskStateWorking, 5, 0, taskstore.ErrConcurrentModification},
		{"to another end, unchecked", "alice", a2a.TaskStateFailed, 0, 0, taskstore.ErrConcurrentModification},
	}
	for _, step := range steps {
		task := plainTask()
		task.Status.State = step.state
		v, err := s.Update(as(t.Context(), step.user), &taskstore.UpdateRequest{Task: task, PrevVersion: step.prev})
		wantError(t, err, step.err)
		if v != step.want {
			t.Errorf("%s: version %d, want %d", step.name, v, step.want)
		}
	}

	moved := plainTask()
	moved.ContextID, moved.Status.State = "other", a2a.TaskStateCompleted
	_, err = s.Update(ctx, &taskstore.UpdateRequest{Task: moved})
	wantError(t, err, a2a.ErrInvalidParams)
	_, err = s.Update(ctx, nil)
	wantError(t, err, a2a.ErrInvalidParams)
	_, err = s.Update(ctx, &taskstore.UpdateRequest{})
	wantError(t, err, a2a.ErrInvalidParams)
}

func TestEventsOfUpdates(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	status := func(state a2a.TaskState) a2a.TaskStatus { return a2a.TaskStatus{State: state, Timestamp: &at} }
	dots := func(n int) a2a.ContentParts {
		var parts a2a.ContentParts
		for range n {
			parts = append(parts, a2a.NewTextPart("."))
		}
		return parts
	}
	task := func(s a2a.TaskStatus, artifacts ...*a2a.Artifact) *a2a.Task {
		return &a2a.Task{ID: "t", ContextID: "c", Status: s, Artifacts: artifacts}
	}
	working, failed := status(a2a.TaskStateWorking), status(a2a.TaskStateFailed)
	bad := map[string]any{"bad": struct{}{}}

	tests := []struct {
		name  string
		task  *a2a.Task
		event a2a.Event
		want  []string
		err   error
	}{
		{"no event", task(working), nil, []string{"task TASK_STATE_WORKING"}, nil},
		{"status", task(working), &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: working}, []string{"status TASK_STATE_WORKING"}, nil},
		{"status without ids", task(working), &a2a.TaskStatusUpdateEvent{Status: working}, []string{"status TASK_STATE_WORKING"}, nil},
		{"status, gob made nil of empty", task(a2a.TaskStatus{State: a2a.TaskStateWorking, Message: &a2a.Message{Parts: a2a.ContentParts{{Content: a2a.Raw(nil)}}}}),
			&a2a.TaskStatusUpdateEvent{Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: &a2a.Message{Parts: a2a.ContentParts{{Content: a2a.Raw{}}}}}},
			[]string{"status TASK_STATE_WORKING"}, nil},
		{"status of another task", task(working), &a2a.TaskStatusUpdateEvent{TaskID: "other", Status: working}, []string{"task TASK_STATE_WORKING"}, nil},
		{"status of another context", task(working), &a2a.TaskStatusUpdateEvent{ContextID: "other", Status: working}, []string{"task TASK_STATE_WORKING"}, nil},
		{"another state", task(failed), &a2a.TaskStatusUpdateEvent{Status: working}, []string{"task TASK_STATE_FAILED"}, nil},
		{"another time", task(a2a.TaskStatus{State: a2a.TaskStateFailed}), &a2a.TaskStatusUpdateEvent{Status: failed}, []string{"task TASK_STATE_FAILED"}, nil},
		{"nil status event", task(working), (*a2a.TaskStatusUpdateEvent)(nil), []string{"task TASK_STATE_WORKING"}, nil},
		{"status that cannot be stored", task(working), &a2a.TaskStatusUpdateEvent{Status: working, Metadata: bad}, nil, a2a.ErrInvalidParams},
		{"FAILED for a status that cannot be stored", task(failed), &a2a.TaskStatusUpdateEvent{Status: failed, Metadata: bad}, []string{"task TASK_STATE_FAILED"}, nil},

		{"new artifact", task(working, &a2a.Artifact{ID: "a", Parts: dots(1)}),
			&a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ID: "a", Parts: dots(1)}}, []string{"artifact a"}, nil},
		{"appended parts", task(working, &a2a.Artifact{ID: "a", Parts: dots(3)}),
			&a2a.TaskArtifactUpdateEvent{Append: true, Artifact: &a2a.Artifact{ID: "a", Parts: dots(2)}}, []string{"artifact a"}, nil},
		{"artifact that is not there", task(working), &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ID: "a", Parts: dots(1)}}, []string{"task TASK_STATE_WORKING"}, nil},
		{"other parts", task(working, &a2a.Artifact{ID: "a", Parts: dots(3)}),
			&a2a.TaskArtifactUpdateEvent{Append: true, Artifact: &a2a.Artifact{ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart("x")}}}, []string{"task TASK_STATE_WORKING"}, nil},
		{"more parts than there are", task(working, &a2a.Artifact{ID: "a", Parts: dots(1)}),
			&a2a.TaskArtifactUpdateEvent{Append: true, Artifact: &a2a.Artifact{ID: "a", Parts: dots(2)}}, []string{"task TASK_STATE_WORKING"}, nil},
		{"replaced by something else", task(working, &a2a.Artifact{ID: "a", Parts: dots(2)}),
			&a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ID: "a", Parts: dots(1)}}, []string{"task TASK_STATE_WORKING"}, nil},
		{"nil artifact", task(working), &a2a.TaskArtifactUpdateEvent{}, []string{"task TASK_STATE_WORKING"}, nil},
		{"artifact that cannot be stored", task(working), &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ID: "a", Metadata: bad}}, nil, a2a.ErrInvalidParams},
		{"FAILED for an artifact that cannot be stored", task(failed), &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ID: "a", Metadata: bad}}, []string{"task TASK_STATE_FAILED"}, nil},
		{"FAILED for parts that look like those before", task(failed, &a2a.Artifact{ID: "a", Parts: dots(3)}),
			&a2a.TaskArtifactUpdateEvent{Append: true, Artifact: &a2a.Artifact{ID: "a", Parts: dots(1)}}, []string{"task TASK_STATE_FAILED"}, nil},

		{"the task itself", task(working), task(working), []string{"task TASK_STATE_WORKING"}, nil},
		{"another task", task(failed), task(working), []string{"task TASK_STATE_FAILED"}, nil},
		{"user's message", task(working), a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("x")), nil, nil},
		{"message at the end", task(failed), a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("x")), []string{"task TASK_STATE_FAILED"}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			s := newStore(f)
			ctx := as(t.Context(), "alice")
			v := mustCreate(t, s, ctx, task(status(a2a.TaskStateSubmitted)))
			_, err := s.Update(ctx, &taskstore.UpdateRequest{Task: tc.task, Event: tc.event, PrevVersion: v})
			wantError(t, err, tc.err)
			got := f.events("", "t")[1:]
			if diff := cmp.Diff(append([]string{}, tc.want...), got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
