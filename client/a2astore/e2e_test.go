package a2astore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/a2a-taskstore/taskstore/backend/pebble"
	"github.com/a2a-taskstore/taskstore/client"
	"github.com/a2a-taskstore/taskstore/client/a2astore"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
)

// These tests run the SDK's own server stack, with its three bindings, on two replicas that share one store.

// newStore serves a store on loopback and returns its address.
func newStore(t *testing.T) string {
	t.Helper()
	store, err := pebble.Open(pebble.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(store, server.Config{Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-served
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l.Addr().String()
}

// agent does what the text of the message says.
type agent struct{ store taskstore.Store }

// atWork waits until the SDK has stored what the agent has said so far.
func (g agent) atWork(ctx context.Context, id a2a.TaskID) {
	for ctx.Err() == nil {
		got, err := g.store.Get(asUser(ctx), id)
		if err == nil && got.Task.Status.State == a2a.TaskStateWorking {
			return
		}
	}
}

func (g agent) Execute(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		word := exec.Message.Parts[0].Text()
		status := func(state a2a.TaskState, text string) bool {
			var m *a2a.Message
			if text != "" {
				m = a2a.NewMessageForTask(a2a.MessageRoleAgent, exec, a2a.NewTextPart(text))
				m.Metadata = map[string]any{"n": 1.5, "list": []any{"x", true}, "map": map[string]any{"k": "v"}}
			}
			return yield(a2a.NewStatusUpdateEvent(exec, state, m), nil)
		}
		if word == "message" {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("no task")), nil)
			return
		}
		if exec.StoredTask == nil && !yield(a2a.NewSubmittedTask(exec, exec.Message), nil) {
			return
		}
		if !status(a2a.TaskStateWorking, "at work") {
			return
		}
		switch word {
		case "chunks":
			first := a2a.NewArtifactEvent(exec, a2a.NewTextPart("chunk 0"))
			first.Artifact.Name, first.Artifact.Metadata = "out", map[string]any{"chunk": 0.0}
			if !yield(first, nil) {
				return
			}
			for i := range 20 {
				more := a2a.NewArtifactUpdateEvent(exec, first.Artifact.ID, a2a.NewTextPart(fmt.Sprint("chunk ", i+1)))
				more.Artifact.Metadata = map[string]any{"chunk": float64(i + 1)}
				if !yield(more, nil) {
					return
				}
			}
			data := a2a.NewArtifactEvent(exec, a2a.NewDataPart(map[string]any{"list": []any{1.0, "two", nil}}), a2a.NewRawPart([]byte{0, 255}), a2a.NewFileURLPart("https://example.com/f", "text/plain"))
			if !yield(data, nil) {
				return
			}
			status(a2a.TaskStateCompleted, "done")
		case "ask":
			status(a2a.TaskStateInputRequired, "which one?")
		case "wait":
			for { // a stream of updates that a cancel from another replica must get through
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Millisecond):
				}
				if !status(a2a.TaskStateWorking, "") {
					return
				}
			}
		case "fail":
			g.atWork(ctx, exec.TaskID)
			yield(nil, errors.New("the agent failed"))
		case "panic":
			g.atWork(ctx, exec.TaskID)
			panic("the agent panics")
		default:
			status(a2a.TaskStateCompleted, "")
		}
	}
}

func (agent) Cancel(_ context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCanceled, nil), nil)
	}
}

// mirrored writes to the store under test and to the SDK's own one, and reports where they differ.
type mirrored struct {
	t *testing.T
	taskstore.Store
	own *taskstore.InMemory

	mu sync.Mutex
}

func (m *mirrored) Create(ctx context.Context, task *a2a.Task) (taskstore.TaskVersion, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.Store.Create(ctx, task)
	w, ownErr := m.own.Create(ctx, task)
	m.compare("create", task.ID, v, w, err, ownErr)
	return v, err
}

func (m *mirrored) Update(ctx context.Context, req *taskstore.UpdateRequest) (taskstore.TaskVersion, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.Store.Update(ctx, req)
	w, ownErr := m.own.Update(ctx, req)
	m.compare("update", req.Task.ID, v, w, err, ownErr)
	return v, err
}

func (m *mirrored) compare(op string, id a2a.TaskID, v, w taskstore.TaskVersion, err, ownErr error) {
	if v != w || errors.Is(err, taskstore.ErrConcurrentModification) != errors.Is(ownErr, taskstore.ErrConcurrentModification) || (err == nil) != (ownErr == nil) {
		m.t.Errorf("%s %s: version %d, %v; the SDK's store: version %d, %v", op, id, v, err, w, ownErr)
		return
	}
	ctx := asUser(context.Background())
	got, err := m.Store.Get(ctx, id)
	if err != nil {
		m.t.Errorf("get %s: %v", id, err)
		return
	}
	want, err := m.own.Get(ctx, id)
	if err != nil {
		m.t.Errorf("get %s from the SDK's store: %v", id, err)
		return
	}
	if diff := cmp.Diff(want.Task, got.Task, cmp.Comparer(time.Time.Equal)); diff != "" || got.Version != want.Version {
		m.t.Errorf("%s %s: version %d, want %d; the task differs (-want +got):\n%s", op, id, got.Version, want.Version, diff)
	}
}

const user = "ann"

func asUser(ctx context.Context) context.Context {
	ctx, call := a2asrv.NewCallContext(ctx, nil)
	call.User = a2asrv.NewAuthenticatedUser(user, nil)
	return ctx
}

type signedIn struct {
	a2asrv.PassthroughCallInterceptor
}

func (signedIn) Before(ctx context.Context, call *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	call.User = a2asrv.NewAuthenticatedUser(user, nil)
	return ctx, nil, nil
}

// replica serves the agent with all three bindings and returns a client for each.
func replica(t *testing.T, store taskstore.Store) map[a2a.TransportProtocol]*a2aclient.Client {
	t.Helper()
	handler := a2asrv.NewHandler(agent{store}, a2asrv.WithTaskStore(store), a2asrv.WithCallInterceptors(signedIn{}),
		a2asrv.WithLogger(slog.New(slog.DiscardHandler)),
		a2asrv.WithExecutionPanicHandler(func(r any) error { return fmt.Errorf("panic: %v", r) }))
	rpc := httptest.NewServer(a2asrv.NewJSONRPCHandler(handler))
	rest := httptest.NewServer(a2asrv.NewRESTHandler(handler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(gs)
	go gs.Serve(l)
	t.Cleanup(func() { rpc.Close(); rest.Close(); gs.Stop() })

	clients := map[a2a.TransportProtocol]*a2aclient.Client{}
	for protocol, url := range map[a2a.TransportProtocol]string{
		a2a.TransportProtocolJSONRPC: rpc.URL, a2a.TransportProtocolHTTPJSON: rest.URL, a2a.TransportProtocolGRPC: l.Addr().String(),
	} {
		c, err := a2aclient.NewFromEndpoints(t.Context(), []*a2a.AgentInterface{a2a.NewAgentInterface(url, protocol)},
			a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Destroy() })
		clients[protocol] = c
	}
	return clients
}

func dial(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func send(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

func TestAgentReplicasShareTasks(t *testing.T) {
	address := newStore(t)
	first := dial(t, address)
	mirror := &mirrored{t: t, Store: a2astore.New(first), own: taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: a2asrv.NewTaskStoreAuthenticator()})}
	a := replica(t, mirror)
	// Where both replicas write one task, the mirror would miss what B writes.
	plain := replica(t, a2astore.New(first))
	b := replica(t, a2astore.New(dial(t, address)))

	for protocol := range a {
		t.Run(string(protocol), func(t *testing.T) {
			a, plain, b := a[protocol], plain[protocol], b[protocol]
			for word, want := range map[string]a2a.TaskState{
				"complete": a2a.TaskStateCompleted, "chunks": a2a.TaskStateCompleted, "ask": a2a.TaskStateInputRequired,
				"fail": a2a.TaskStateFailed, "panic": a2a.TaskStateFailed,
			} {
				id, events := stream(t, a, send(word))
				got, err := b.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
				if err != nil {
					t.Fatalf("%s: get through B: %v", word, err)
				}
				if got.Status.State != want {
					t.Errorf("%s: B reads %s", word, got.Status.State)
				}
				checkLog(t, first, id, events, got)
			}
			turns(t, plain, b)
			cancel(t, plain, b)

			list, err := b.ListTasks(t.Context(), &a2a.ListTasksRequest{PageSize: 3})
			if err != nil || len(list.Tasks) != 3 || list.NextPageToken == "" || list.TotalSize < 7 {
				t.Errorf("list through B: %+v, %v", list, err)
			}
		})
	}
}

// stream sends a message and returns the task and the events that came. The SDK breaks the stream of an agent that fails,
// sometimes before its first event.
func stream(t *testing.T, c *a2aclient.Client, req *a2a.SendMessageRequest) (id a2a.TaskID, events []a2a.Event) {
	t.Helper()
	if req.Message.ContextID == "" {
		req.Message.ContextID = a2a.NewContextID()
	}
	for event, err := range c.SendStreamingMessage(t.Context(), req) {
		if err != nil {
			break
		}
		events = append(events, event)
	}
	list, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: req.Message.ContextID})
	if err != nil || len(list.Tasks) != 1 {
		t.Fatalf("list of the context: %+v, %v", list, err)
	}
	return list.Tasks[0].ID, events
}

// checkLog compares the log in the store with what the SDK streamed.
func checkLog(t *testing.T, c *client.Client, id a2a.TaskID, streamed []a2a.Event, final *a2a.Task) {
	t.Helper()
	owner := user
	var kinds []string
	var last *taskstorev1.LogEvent
	for event, err := range c.Follow(t.Context(), &taskstorev1.ReadEventsRequest{
		Scope: &taskstorev1.Scope{Owner: &owner}, TaskId: string(id), Until: taskstorev1.ReadUntil_READ_UNTIL_HEAD,
	}) {
		if err != nil {
			t.Fatalf("read the log: %v", err)
		}
		kinds = append(kinds, fmt.Sprintf("%T", event.GetEvent().GetPayload())[len("*taskstorev1.StreamResponse_"):])
		last = event
	}
	var want []string
	for _, e := range streamed {
		switch e.(type) {
		case *a2a.Task:
			want = append(want, "Task")
		case *a2a.TaskStatusUpdateEvent:
			want = append(want, "StatusUpdate")
		case *a2a.TaskArtifactUpdateEvent:
			want = append(want, "ArtifactUpdate")
		}
	}
	if final.Status.State == a2a.TaskStateFailed {
		want = []string{"Task", "StatusUpdate", "Task"} // of which the SDK streams what it gets to before the failure
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("the log holds %v, the stream brought %v", kinds, want)
	}
	if final.Status.State.Terminal() {
		state := last.GetEvent().GetStatusUpdate().GetStatus().GetState()
		if last.GetEvent().GetTask() != nil {
			state = last.GetEvent().GetTask().GetStatus().GetState()
		}
		if state.String() != string(final.Status.State) {
			t.Errorf("the last event says %s, the task %s", state, final.Status.State)
		}
	}
}

// turns asks through one replica and answers through the other.
func turns(t *testing.T, a, b *a2aclient.Client) {
	t.Helper()
	id, _ := stream(t, a, send("ask"))
	answer := send("complete")
	answer.Message.TaskID = id
	result, err := b.SendMessage(t.Context(), answer)
	if err != nil {
		t.Fatalf("answer through B: %v", err)
	}
	task, ok := result.(*a2a.Task)
	if !ok || task.Status.State != a2a.TaskStateCompleted {
		t.Fatalf("B answers %+v", result)
	}
	got, err := a.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
	if err != nil {
		t.Fatalf("get through A: %v", err)
	}
	if diff := cmp.Diff(task, got, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("A reads another task than B wrote:\n%s", diff)
	}
}

// cancel ends, through one replica, a task that the other one writes a thousand times a second.
func cancel(t *testing.T, a, b *a2aclient.Client) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	stored, ended := make(chan a2a.TaskID, 1), make(chan error, 1)
	go func() {
		var first sync.Once
		var last error
		for event, err := range a.SendStreamingMessage(ctx, send("wait")) {
			if last = err; err != nil {
				break
			}
			first.Do(func() { stored <- event.TaskInfo().TaskID }) // the SDK streams what it has stored
		}
		ended <- last
	}()
	var id a2a.TaskID
	select {
	case id = <-stored:
	case err := <-ended:
		t.Fatalf("the stream through A: %v", err)
	}
	task, err := b.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id})
	if err != nil {
		t.Errorf("cancel through B: %v", err)
	} else if task.Status.State != a2a.TaskStateCanceled {
		t.Errorf("B says %s", task.Status.State)
	}
	if err := <-ended; err != nil {
		t.Errorf("the stream through A: %v", err)
	}
	got, err := a.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
	if err != nil || got.Status.State != a2a.TaskStateCanceled {
		t.Errorf("A reads %v, %v", got, err)
	}
}
