package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// newStore returns an empty store that sees to what a Server of the default configuration may store.
func newStore(t testing.TB) backend.Store {
	t.Helper()
	store, err := memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: backend.Limits{TaskBytes: TaskBytes(0)}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// opener opens an empty store.
type opener func(testing.TB) backend.Store

// eachStore runs a test over each kind of store that is in the process.
func eachStore(t *testing.T, test func(*testing.T, opener)) {
	t.Run("memory", func(t *testing.T) { test(t, newStore) })
	t.Run("pebble", func(t *testing.T) { test(t, newPebble) })
}

func newPebble(t testing.TB) backend.Store {
	t.Helper()
	store, err := pebble.Open(pebble.Config{Dir: "store", FS: vfs.NewMem(), Limits: backend.Limits{TaskBytes: TaskBytes(0)}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// fixture is a server over a store, and a connection to it.
type fixture struct {
	pb.TaskStoreServiceClient
	server *Server
	store  backend.Store
	conn   *grpc.ClientConn
	dial   func(context.Context, string) (net.Conn, error)
}

// start serves the store until the end of the test.
func start(t testing.TB, store backend.Store, cfg Config, options ...grpc.DialOption) *fixture {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := New(store, cfg)
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }
	options = append([]grpc.DialOption{
		insecureCredentials,
		grpc.WithContextDialer(dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)),
	}, options...)
	conn, err := grpc.NewClient("passthrough:bufconn", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &fixture{pb.NewTaskStoreServiceClient(conn), s, store, conn, dial}
}

func working(id string) *pb.Task {
	return &pb.Task{Id: id, ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING}}
}

func completed(id string) *pb.Task {
	return &pb.Task{Id: id, ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_COMPLETED}}
}

// whole is a Save of a whole task that appends a snapshot.
func whole(task *pb.Task) *pb.SaveRequest {
	return &pb.SaveRequest{
		Write:        &pb.SaveRequest_Task{Task: task},
		Precondition: &pb.Precondition{Condition: &pb.Precondition_Any{Any: &emptypb.Empty{}}},
		Events:       []*pb.EventInput{{Input: &pb.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}}},
	}
}

func (f *fixture) mustSave(t testing.TB, req *pb.SaveRequest) *pb.SaveResponse {
	t.Helper()
	res, err := f.Save(t.Context(), req)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return res
}

// said is an event that says something.
func said(text string) *pb.StreamResponse {
	return &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{
		MessageId: "m", Role: pb.Role_ROLE_AGENT, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: text}}},
	}}}
}

func (f *fixture) mustAppend(t testing.TB, id string, texts ...string) *pb.AppendEventResponse {
	t.Helper()
	req := &pb.AppendEventRequest{TaskId: id}
	for _, text := range texts {
		req.Events = append(req.Events, said(text))
	}
	res, err := f.AppendEvent(t.Context(), req)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return res
}

// read is a stream of events, taken apart.
type read struct {
	stream grpc.ServerStreamingClient[pb.ReadEventsResponse]
	opened *pb.OpenedFrame
	events []*pb.LogEvent
	end    *pb.EndFrame
}

// open opens a stream, as far as its first frame.
func (f *fixture) open(ctx context.Context, req *pb.ReadEventsRequest) (*read, error) {
	stream, err := f.ReadEvents(ctx, req)
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if first.GetOpened() == nil {
		return nil, errors.New("the first frame is not opened")
	}
	return &read{stream: stream, opened: first.GetOpened()}, nil
}

// next receives a frame; io.EOF behind the last.
func (r *read) next() error {
	frame, err := r.stream.Recv()
	switch {
	case err == io.EOF && r.end == nil:
		return errors.New("no end frame")
	case err != nil:
		return err
	case r.end != nil:
		return errors.New("a frame behind end")
	case frame.GetEvents() != nil:
		if len(frame.GetEvents().GetEvents()) == 0 {
			return errors.New("an empty frame")
		}
		r.events = append(r.events, frame.GetEvents().GetEvents()...)
	case frame.GetEnd() != nil:
		r.end = frame.GetEnd()
	default:
		return errors.New("a frame of an unexpected kind")
	}
	return nil
}

// drain receives until the stream ends.
func (r *read) drain() error {
	for {
		if err := r.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (f *fixture) readAll(ctx context.Context, req *pb.ReadEventsRequest) (*read, error) {
	r, err := f.open(ctx, req)
	if err != nil {
		return nil, err
	}
	return r, r.drain()
}

func (r *read) seqs() []int64 {
	seqs := make([]int64, len(r.events))
	for i, e := range r.events {
		seqs[i] = e.GetSeq()
	}
	return seqs
}

// detail returns the detail of a type in an error's status, or the zero value.
func detail[T proto.Message](err error) (none T) {
	for _, d := range status.Convert(err).Details() {
		if found, ok := d.(T); ok {
			return found
		}
	}
	return none
}

func wantCode(t testing.TB, err error, code codes.Code) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Errorf("code %v, want %v (%v)", got, code, err)
	}
}

// wantReason checks the code and the ErrorInfo of an error, and returns its metadata.
func wantReason(t testing.TB, err error, reason backend.Reason) map[string]string {
	t.Helper()
	wantCode(t, err, errorCodes[reason])
	info := detail[*errdetails.ErrorInfo](err)
	if info.GetReason() != string(reason) || info.GetDomain() != "a2ataskstore" {
		t.Errorf("error info %v, want reason %s (%v)", info, reason, err)
	}
	return info.GetMetadata()
}

func waitFor(newerThan int64, timeout time.Duration) *pb.Wait {
	return &pb.Wait{NewerThan: newerThan, Timeout: durationpb.New(timeout)}
}

var insecureCredentials = grpc.WithTransportCredentials(insecure.NewCredentials())
