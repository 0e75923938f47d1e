package a2astore

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// server serves a fake over gRPC.
type server struct {
	taskstorev1.UnimplementedTaskStoreServiceServer
	f *fake
}

func (s server) Save(ctx context.Context, req *taskstorev1.SaveRequest) (*taskstorev1.SaveResponse, error) {
	resp, err := s.f.Save(ctx, req)
	return resp, toStatus(err)
}

func (s server) Get(ctx context.Context, req *taskstorev1.GetRequest) (*taskstorev1.GetResponse, error) {
	resp, err := s.f.Get(ctx, req)
	return resp, toStatus(err)
}

func (s server) List(ctx context.Context, req *taskstorev1.ListRequest) (*taskstorev1.ListResponse, error) {
	resp, err := s.f.List(ctx, req)
	return resp, toStatus(err)
}

func toStatus(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	bad := &errdetails.BadRequest{}
	for _, v := range e.Violations {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Description})
	}
	st, err := status.New(e.Code, e.Message).WithDetails(&errdetails.ErrorInfo{Domain: "a2ataskstore", Reason: e.Reason}, bad)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// overWire runs test with a store whose calls go to f through the real client and gRPC, under a fake clock.
func overWire(t *testing.T, test func(t *testing.T, f *fake, s *Store)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		lis := bufconn.Listen(1 << 20)
		srv := grpc.NewServer()
		taskstorev1.RegisterTaskStoreServiceServer(srv, server{f: f})
		go func() { _ = srv.Serve(lis) }()
		c, err := client.Dial("passthrough:///localhost", client.WithDialOptions(
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })))
		if err != nil {
			t.Fatal(err)
		}
		test(t, f, New(c))
		_ = c.Close()
		srv.Stop()
		_ = lis.Close()
		synctest.Wait()
	})
}

// Every failure that the service knows is the one that a2a-go looks for, says nothing of the network, and has one sentinel
// of a2a-go: the SDK's JSON-RPC binding takes any one of them.
func TestErrors(t *testing.T) {
	t.Parallel()
	secret := "dial tcp 10.1.2.3:7420"
	tests := []struct {
		name string
		err  error
		want error
		text string // that the error has; "" for any
	}{
		{"not found", failure(codes.NotFound, "TASK_NOT_FOUND", "task not found"), a2a.ErrTaskNotFound, ""},
		{"exists", failure(codes.AlreadyExists, "TASK_EXISTS", "exists"), taskstore.ErrTaskAlreadyExists, ""},
		{"version", failure(codes.Aborted, "VERSION_CONFLICT", "version 3"), taskstore.ErrConcurrentModification, "version 3"},
		{"terminal", failure(codes.FailedPrecondition, "TERMINAL_STATE", "terminal"), taskstore.ErrConcurrentModification, ""},
		{"context", failure(codes.FailedPrecondition, "CONTEXT_MISMATCH", "other context"), a2a.ErrInvalidParams, ""},
		{"too large", failure(codes.ResourceExhausted, "TASK_TOO_LARGE", "17 MiB"), a2a.ErrInvalidParams, "17 MiB"},
		{"invalid", failure(codes.InvalidArgument, "INVALID_ARGUMENT", "invalid request", client.FieldViolation{Field: "task.id", Description: "too long"}), a2a.ErrInvalidRequest, "task.id: too long"},
		{"page token", failure(codes.InvalidArgument, "INVALID_ARGUMENT", "invalid request", client.FieldViolation{Field: "page_token", Description: "malformed"}), a2a.ErrParseError, ""},
		{"unauthenticated", failure(codes.Unauthenticated, "UNAUTHENTICATED", secret), a2a.ErrUnauthenticated, ""},
		{"denied", failure(codes.PermissionDenied, "PERMISSION_DENIED", secret), a2a.ErrUnauthorized, ""},
		{"exhausted", failure(codes.ResourceExhausted, "MEMORY_LIMIT", secret), a2a.ErrServerError, ""},
		{"unavailable", failure(codes.Unavailable, "UNAVAILABLE", secret), a2a.ErrServerError, ""},
		{"bug", failure(codes.Internal, "INTERNAL", secret), a2a.ErrInternalError, ""},
		{"without details", status.Error(codes.Unknown, secret), a2a.ErrInternalError, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			overWire(t, func(t *testing.T, f *fake, s *Store) {
				f.before = func(context.Context, proto.Message) error { return tc.err }
				ctx := as(t.Context(), "alice")
				var errs [4]error
				_, errs[0] = s.Create(ctx, plainTask())
				_, errs[1] = s.Update(ctx, &taskstore.UpdateRequest{Task: plainTask()})
				_, errs[2] = s.Get(ctx, "task-1")
				_, errs[3] = s.List(ctx, &a2a.ListTasksRequest{})
				for _, err := range errs {
					wantError(t, err, tc.want)
					checkChain(t, err)
					if strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), tc.text) {
						t.Errorf("text %q", err)
					}
				}
			})
		})
	}
}

func checkChain(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		t.Errorf("%v carries a gRPC status", err)
	}
	var found []error
	for _, sentinel := range []error{
		a2a.ErrParseError, a2a.ErrInvalidRequest, a2a.ErrInvalidParams, a2a.ErrInternalError, a2a.ErrServerError,
		a2a.ErrTaskNotFound, a2a.ErrUnauthenticated, a2a.ErrUnauthorized, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, sentinel) {
			found = append(found, sentinel)
		}
	}
	if len(found) > 1 {
		t.Errorf("%v is all of %v", err, found)
	}
}

// An outage of some seconds is not seen by a2a-go, for which one failed write is a failed task; a longer one is an error.
func TestOutages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		outage time.Duration
		want   error
	}{
		{8 * time.Second, nil},
		{time.Hour, a2a.ErrServerError},
	}
	for _, tc := range tests {
		t.Run(tc.outage.String(), func(t *testing.T) {
			t.Parallel()
			overWire(t, func(t *testing.T, f *fake, s *Store) {
				ctx := as(t.Context(), "alice")
				v := mustCreate(t, s, ctx, plainTask())
				start := time.Now()
				f.before = func(context.Context, proto.Message) error {
					if time.Since(start) < tc.outage {
						return failure(codes.Unavailable, "UNAVAILABLE", "away")
					}
					return nil
				}
				canceled, cancel := context.WithCancel(ctx)
				cancel()
				task := plainTask()
				task.Status = a2a.TaskStatus{State: a2a.TaskStateFailed}
				_, err := s.Update(canceled, &taskstore.UpdateRequest{Task: task, PrevVersion: v})
				wantError(t, err, tc.want)
				if err != nil {
					checkChain(t, err)
				}
				if took := time.Since(start); took > DefaultWriteTimeout {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// The reply to a write is lost. The repetition is the same write, not a conflict with itself.
func TestWriteIDsAreTheClients(t *testing.T) {
	t.Parallel()
	overWire(t, func(t *testing.T, f *fake, s *Store) {
		var writeIDs []string
		f.before = func(_ context.Context, req proto.Message) error {
			writeIDs = append(writeIDs, req.(*taskstorev1.SaveRequest).GetWriteId())
			if len(writeIDs) == 1 {
				return failure(codes.Unavailable, "UNAVAILABLE", "away")
			}
			return nil
		}
		mustCreate(t, s, as(t.Context(), "alice"), plainTask())
		if len(writeIDs) != 2 || writeIDs[0] == "" || writeIDs[0] != writeIDs[1] {
			t.Errorf("write ids %q", writeIDs)
		}
	})
}
