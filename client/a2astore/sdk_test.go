package a2astore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// agent is an executor made of functions; cancel answers CANCELED unless set.
type agent struct {
	execute func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool)
	cancel  func(ec *a2asrv.ExecutorContext) a2a.Event
}

func (a *agent) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) { a.execute(ctx, ec, yield) }
}

func (a *agent) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if a.cancel != nil {
			yield(a.cancel(ec), nil)
			return
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

func newHandler(a *agent, s *Store) a2asrv.RequestHandler {
	return a2asrv.NewHandler(a, a2asrv.WithTaskStore(s), a2asrv.WithLogger(slog.New(slog.DiscardHandler)))
}

func userMessage(text string) *a2a.Message {
	return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
}

// The agent streams an answer; what the service holds afterwards is what the client of the agent got.
func TestSDKStream(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	h := newHandler(&agent{execute: func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
		artifact := a2a.NewArtifactEvent(ec, a2a.NewDataPart([]any{1, "two", map[string]any{}, []any{}}))
		artifact.Artifact.ID = "a"
		chunk := a2a.NewArtifactUpdateEvent(ec, "a", a2a.NewRawPart(nil))
		chunk.Artifact.Metadata = map[string]any{"more": true}
		for _, e := range []a2a.Event{
			a2a.NewSubmittedTask(ec, ec.Message),
			a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart("soon"))),
			artifact, chunk,
			a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil),
		} {
			if !yield(e, nil) {
				return
			}
		}
	}}, s)

	ctx := as(t.Context(), "alice")
	var id a2a.TaskID
	for e, err := range h.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: userMessage("hi")}) {
		if err != nil {
			t.Fatal(err)
		}
		id = e.TaskInfo().TaskID
	}
	want := []string{"task TASK_STATE_SUBMITTED", "status TASK_STATE_WORKING", "artifact a", "artifact a", "status TASK_STATE_COMPLETED"}
	if diff := cmp.Diff(want, f.events("", string(id))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	task := mustGet(t, s, ctx, id).Task
	if len(task.History) != 2 || len(task.Artifacts) != 1 || task.Status.State != a2a.TaskStateCompleted {
		t.Errorf("task %+v", task)
	}
	wantParts := a2a.ContentParts{a2a.NewDataPart([]any{1.0, "two", map[string]any{}, []any{}}), a2a.NewRawPart([]byte{})}
	if diff := cmp.Diff(wantParts, task.Artifacts[0].Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// However an agent breaks, its task ends as FAILED, and whoever follows the log sees it.
func TestSDKFailures(t *testing.T) {
	t.Parallel()
	tests := map[string]func(ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool){
		"error": func(_ *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) { yield(nil, errors.New("boom")) },
		"panic": func(*a2asrv.ExecutorContext, func(a2a.Event, error) bool) { panic("boom") },
		"event that cannot be stored": func(ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
			e := a2a.NewArtifactEvent(ec, a2a.NewTextPart("x"))
			e.Metadata = map[string]any{"bad": make(chan int)}
			yield(e, nil)
		},
		"failure that cannot be stored": func(ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
			e := a2a.NewStatusUpdateEvent(ec, a2a.TaskStateFailed, &a2a.Message{Role: "robot"})
			yield(e, nil)
		},
		"event of another task": func(_ *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
			yield(&a2a.TaskStatusUpdateEvent{TaskID: "other", Status: a2a.TaskStatus{State: a2a.TaskStateFailed}}, nil)
		},
	}
	for name, breaks := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			s := newStore(f)
			// a2a-go drops events that an agent that has crashed emitted before; the task must be stored first.
			created := make(chan struct{})
			var once sync.Once
			f.saved = func() { once.Do(func() { close(created) }) }
			h := newHandler(&agent{execute: func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
				if yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
					<-created
					breaks(ec, yield)
				}
			}}, s)
			ctx := as(t.Context(), "alice")
			res, err := h.SendMessage(ctx, &a2a.SendMessageRequest{Message: userMessage("hi")})
			if err != nil {
				t.Fatal(err)
			}
			id := res.TaskInfo().TaskID
			if got := mustGet(t, s, ctx, id).Task.Status.State; got != a2a.TaskStateFailed {
				t.Errorf("state %v", got)
			}
			if diff := cmp.Diff([]string{"task TASK_STATE_SUBMITTED", "task TASK_STATE_FAILED"}, f.events("", string(id))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// The user's second message goes into the history, and is not an event.
func TestSDKInputRequired(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	h := newHandler(&agent{execute: func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
		if ec.StoredTask == nil {
			_ = yield(a2a.NewSubmittedTask(ec, ec.Message), nil) &&
				yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, nil), nil)
			return
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}}, s)
	ctx := as(t.Context(), "alice")
	res, err := h.SendMessage(ctx, &a2a.SendMessageRequest{Message: userMessage("one")})
	if err != nil {
		t.Fatal(err)
	}
	info := res.TaskInfo()
	second := userMessage("two")
	second.TaskID = info.TaskID
	if _, err := h.SendMessage(ctx, &a2a.SendMessageRequest{Message: second}); err != nil {
		t.Fatal(err)
	}
	want := []string{"task TASK_STATE_SUBMITTED", "status TASK_STATE_INPUT_REQUIRED", "status TASK_STATE_COMPLETED"}
	if diff := cmp.Diff(want, f.events("", string(info.TaskID))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if task := mustGet(t, s, ctx, info.TaskID).Task; len(task.History) != 2 || task.History[1].ID != second.ID {
		t.Errorf("history %v", task.History)
	}
}

// A writer gets in before every write of the canceling replica that asks for a version, so that only one that asks for none
// can end it.
func TestCancelAgainstAWriterThatAlwaysWins(t *testing.T) {
	t.Parallel()
	for _, metadata := range []map[string]any{nil, {"by": "user"}} {
		t.Run(fmt.Sprint("metadata ", metadata), func(t *testing.T) {
			t.Parallel()
			f := newFake()
			writer, s := newStore(f), newStore(f, WithOrigin("canceling"))
			ctx := as(t.Context(), "alice")
			first := plainTask()
			mustCreate(t, writer, ctx, first)
			var chunks int
			f.before = func(_ context.Context, req proto.Message) error {
				save, ok := req.(*taskstorev1.SaveRequest)
				if !ok || save.GetOrigin() != "canceling" || save.GetPrecondition().GetVersion() == 0 {
					return nil
				}
				chunks++
				return appendChunk(writer, ctx, chunks)
			}
			h := newHandler(&agent{cancel: func(ec *a2asrv.ExecutorContext) a2a.Event {
				e := a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil)
				e.Metadata = metadata
				return e
			}}, s)

			task, err := h.CancelTask(ctx, &a2a.CancelTaskRequest{ID: first.ID})
			if err != nil {
				t.Fatal(err)
			}
			stored := mustGet(t, s, ctx, first.ID).Task
			if diff := cmp.Diff(stored, task, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the answer is not what is stored (-stored +answer):\n%s", diff)
			}
			want := plainTask() // with what a2a-go changes for a status update, and with every chunk of the writer
			want.Status = a2a.TaskStatus{State: a2a.TaskStateCanceled, Timestamp: task.Status.Timestamp}
			want.History = append(want.History, first.Status.Message)
			for n := range chunks {
				want.Artifacts[0].Parts = append(want.Artifacts[0].Parts, chunk(n+1))
			}
			for k, v := range metadata {
				want.Metadata[k] = v
			}
			if diff := cmp.Diff(want, task, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if events := f.events("", "task-1"); events[len(events)-1] != "status TASK_STATE_CANCELED" {
				t.Errorf("events %v", events)
			}
			if err := appendChunk(writer, ctx, chunks+1); !errors.Is(err, taskstore.ErrConcurrentModification) {
				t.Errorf("the writer goes on: %v", err)
			}
		})
	}
}

func chunk(n int) *a2a.Part { return a2a.NewTextPart(fmt.Sprint("chunk ", n)) }

// appendChunk is what a streaming replica does for each event.
func appendChunk(s *Store, ctx context.Context, n int) error {
	stored, err := s.Get(ctx, "task-1")
	if err != nil {
		return err
	}
	if stored.Task.Status.State.Terminal() {
		return taskstore.ErrConcurrentModification
	}
	a := stored.Task.Artifacts[0]
	a.Parts = append(a.Parts, chunk(n))
	_, err = s.Update(ctx, &taskstore.UpdateRequest{
		Task: stored.Task, Event: a2a.NewArtifactUpdateEvent(stored.Task, a.ID, chunk(n)), PrevVersion: stored.Version,
	})
	return err
}

// Four writers as fast as they can: the cancel ends, every accepted chunk stays, and nothing is written afterwards.
func TestCancelUnderAStream(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	ctx := as(t.Context(), "alice")
	mustCreate(t, s, ctx, plainTask())
	var accepted atomic.Int64
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for range cap(started) {
		wg.Go(func() {
			for n := 0; ; n++ {
				err := appendChunk(s, ctx, n)
				switch {
				case err == nil:
					accepted.Add(1)
				case !errors.Is(err, taskstore.ErrConcurrentModification):
					t.Error(err)
					return
				}
				if n == 0 {
					started <- struct{}{}
				}
				if mustGet(t, s, ctx, "task-1").Task.Status.State.Terminal() {
					return
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	h := newHandler(&agent{}, s)
	if _, err := h.CancelTask(ctx, &a2a.CancelTaskRequest{ID: "task-1"}); err != nil {
		t.Error(err)
	}
	wg.Wait()
	task := mustGet(t, s, ctx, "task-1").Task
	if got, want := len(task.Artifacts[0].Parts), len(plainTask().Artifacts[0].Parts)+int(accepted.Load()); got != want {
		t.Errorf("%d parts, want %d", got, want)
	}
	events := f.events("", "task-1")
	if i := slices.Index(events, "status TASK_STATE_CANCELED"); i != len(events)-1 {
		t.Errorf("CANCELED is event %d of %d", i, len(events))
	}
}

// A cancel that finds the task ended by somebody else leaves it alone.
func TestCancelOfATaskThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFake()
	writer, s := newStore(f), newStore(f, WithOrigin("canceling"))
	ctx := as(t.Context(), "alice")
	mustCreate(t, writer, ctx, plainTask())
	var once sync.Once
	f.before = func(_ context.Context, req proto.Message) error {
		if save, ok := req.(*taskstorev1.SaveRequest); ok && save.GetOrigin() == "canceling" {
			once.Do(func() {
				done := plainTask()
				done.Status = a2a.TaskStatus{State: a2a.TaskStateCompleted}
				if _, err := writer.Update(ctx, &taskstore.UpdateRequest{Task: done}); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	}
	h := newHandler(&agent{}, s)
	if task, err := h.CancelTask(ctx, &a2a.CancelTaskRequest{ID: "task-1"}); err == nil {
		t.Errorf("canceled: %v", task)
	}
	if got := mustGet(t, s, ctx, "task-1").Task.Status.State; got != a2a.TaskStateCompleted {
		t.Errorf("state %v", got)
	}
}
