package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a store with just enough behaviour for the client's side of the contract, whose failures a test scripts.
type fake struct {
	taskstorev1.UnimplementedTaskStoreServiceServer

	// before runs ahead of the n-th call (1, 2, …) of a method, and after behind it, when its effect stands; an error is
	// the reply.
	before, after func(ctx context.Context, method string, n int) error
	// readEvents serves the n-th stream.
	readEvents func(n int, req *taskstorev1.ReadEventsRequest, stream grpc.ServerStreamingServer[taskstorev1.ReadEventsResponse]) error

	mu     sync.Mutex
	calls  map[string][]proto.Message
	tasks  map[string]*taskstorev1.StoredTask
	last   map[string]string // the last write id of a task
	writes int
	conns  []net.Conn

	net.Listener
}

// serve starts a fake on lis, and returns it with the function that stops it.
func serve(lis net.Listener, opts ...grpc.ServerOption) (*fake, func()) {
	f := &fake{
		calls:    map[string][]proto.Message{},
		tasks:    map[string]*taskstorev1.StoredTask{},
		last:     map[string]string{},
		Listener: lis,
	}
	srv := grpc.NewServer(append([]grpc.ServerOption{
		grpc.UnaryInterceptor(f.intercept),
		grpc.MaxRecvMsgSize(64 << 20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 20 * time.Second}),
	}, opts...)...)
	taskstorev1.RegisterTaskStoreServiceServer(srv, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(f)
	}()
	return f, func() { srv.Stop(); <-done }
}

// Accept remembers connections, so that they can be cut.
func (f *fake) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err == nil {
		f.mu.Lock()
		f.conns = append(f.conns, conn)
		f.mu.Unlock()
	}
	return conn, err
}

// cut breaks all connections, as kill -9 would.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.conns = nil
}

func (f *fake) record(method string, req proto.Message) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method] = append(f.calls[method], req)
	return len(f.calls[method])
}

func (f *fake) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	n := f.record(method, req.(proto.Message))
	if f.before != nil {
		if err := f.before(ctx, method, n); err != nil {
			return nil, err
		}
	}
	resp, err := handler(ctx, req)
	if f.after != nil {
		if err := f.after(ctx, method, n); err != nil {
			return nil, err
		}
	}
	return resp, err
}

func (f *fake) Save(_ context.Context, req *taskstorev1.SaveRequest) (*taskstorev1.SaveResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := req.GetTask().GetId()
	stored := f.tasks[id]
	if stored != nil && f.last[id] == req.GetWriteId() {
		return &taskstorev1.SaveResponse{Version: stored.GetVersion(), Replayed: true}, nil
	}
	switch p := req.GetPrecondition().GetCondition().(type) {
	case nil, *taskstorev1.Precondition_Absent:
		if stored != nil {
			return nil, problem(codes.AlreadyExists, "TASK_EXISTS", nil)
		}
	case *taskstorev1.Precondition_Version:
		if p.Version != stored.GetVersion() {
			return nil, problem(codes.Aborted, "VERSION_CONFLICT",
				map[string]string{"current_version": strconv.FormatInt(stored.GetVersion(), 10)})
		}
	}
	f.writes++
	f.last[id] = req.GetWriteId()
	f.tasks[id] = &taskstorev1.StoredTask{Task: req.GetTask(), Version: stored.GetVersion() + 1}
	return &taskstorev1.SaveResponse{Version: stored.GetVersion() + 1}, nil
}

func (f *fake) Get(_ context.Context, req *taskstorev1.GetRequest) (*taskstorev1.GetResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stored := f.tasks[req.GetTaskId()]
	if stored == nil {
		return nil, problem(codes.NotFound, "TASK_NOT_FOUND", nil)
	}
	return &taskstorev1.GetResponse{Task: stored.GetTask(), Version: stored.GetVersion()}, nil
}

func (f *fake) List(context.Context, *taskstorev1.ListRequest) (*taskstorev1.ListResponse, error) {
	return &taskstorev1.ListResponse{}, nil
}

func (f *fake) Delete(context.Context, *taskstorev1.DeleteRequest) (*taskstorev1.DeleteResponse, error) {
	return &taskstorev1.DeleteResponse{Deleted: true}, nil
}

func (f *fake) ClaimKey(context.Context, *taskstorev1.ClaimKeyRequest) (*taskstorev1.ClaimKeyResponse, error) {
	return &taskstorev1.ClaimKeyResponse{Outcome: taskstorev1.ClaimOutcome_CLAIM_OUTCOME_CLAIMED}, nil
}

func (f *fake) ReleaseKey(context.Context, *taskstorev1.ReleaseKeyRequest) (*taskstorev1.ReleaseKeyResponse, error) {
	return &taskstorev1.ReleaseKeyResponse{}, nil
}

func (f *fake) AppendEvent(context.Context, *taskstorev1.AppendEventRequest) (*taskstorev1.AppendEventResponse, error) {
	return &taskstorev1.AppendEventResponse{FirstSeq: 1, LastSeq: 1}, nil
}

func (f *fake) ReadEvents(req *taskstorev1.ReadEventsRequest, stream grpc.ServerStreamingServer[taskstorev1.ReadEventsResponse]) error {
	return f.readEvents(f.record("ReadEvents", req), req, stream)
}

// requests are the calls of a method so far.
func requests[M proto.Message](f *fake, method string) []M {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []M
	for _, m := range slices.Clone(f.calls[method]) {
		all = append(all, m.(M))
	}
	return all
}

// problem is an error as the store makes it.
func problem(code codes.Code, reason string, metadata map[string]string, details ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Domain: "a2ataskstore", Reason: reason, Metadata: metadata}
	st, err := status.New(code, strings.ToLower(reason)).WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		return err
	}
	return st.Err()
}

// network is what a client dials to reach the fake; it can be down.
type network struct {
	*bufconn.Listener
	down func() bool
}

func (n *network) dial(ctx context.Context, _ string) (net.Conn, error) {
	if n.down != nil && n.down() {
		return nil, errors.New("connection refused")
	}
	return n.DialContext(ctx)
}

// bubble runs a test on a clock of its own, against a fake.
func bubble(t *testing.T, test func(t *testing.T, f *fake, n *network), opts ...grpc.ServerOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &network{Listener: bufconn.Listen(1 << 20)}
		f, stop := serve(n, opts...)
		t.Cleanup(stop)
		test(t, f, n)
	})
}

// connect is a client of the fake behind n.
func connect(t *testing.T, n *network, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial("passthrough:///fake", append([]client.Option{
		client.WithInsecure(),
		client.WithDialOptions(grpc.WithContextDialer(n.dial)),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// put is a Save of a task with this id, whatever is stored.
func put(id string) *taskstorev1.SaveRequest {
	return &taskstorev1.SaveRequest{
		Write:        &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{Id: id}},
		Precondition: &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Any{}},
	}
}
