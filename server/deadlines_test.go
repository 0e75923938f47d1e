package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// TestCallsEnd shows the deadlines of the server, and that the store is told of the caller's only.
func TestCallsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timeout, want time.Duration
		bounded       bool
	}{
		"none":      {0, 20 * time.Second, false},
		"short":     {time.Second, time.Second, true},
		"very long": {time.Hour, 40 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := gated(t)
				f := start(t, store, Config{Limits: Limits{DefaultTimeout: 20 * time.Second, MaxTimeout: 40 * time.Second}})
				ctx := t.Context()
				if test.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
					defer cancel()
				}
				began := time.Now()
				_, err := f.Get(ctx, &pb.GetRequest{TaskId: "t"})
				wantCode(t, err, codes.DeadlineExceeded)
				if took := time.Since(began); took != test.want {
					t.Errorf("ended after %v, want %v", took, test.want)
				}
				if _, bounded := (<-store.entered).Deadline(); bounded != test.bounded {
					t.Errorf("the store sees a deadline: %v", bounded)
				}
			})
		})
	}
}

// TestRequestsThatDoNotEnd shows that a call ends whose request does not come, whether or not it needs a credential.
func TestRequestsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	for _, method := range []string{
		pb.TaskStoreService_Get_FullMethodName, pb.TaskStoreService_ReadEvents_FullMethodName,
		healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName,
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := start(t, newStore(t), Config{Limits: Limits{DefaultTimeout: 20 * time.Second}})
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Minute, cancel) // without a deadline that the server would see
				stream, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
				if err != nil {
					t.Fatal(err)
				}
				err = stream.RecvMsg(&emptypb.Empty{})
				wantCode(t, err, codes.DeadlineExceeded)
				if took := time.Since(began); took != 20*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
