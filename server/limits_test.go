package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/client"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// connect opens a connection of its own.
func (f *fixture) connect(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{
		insecureCredentials, grpc.WithContextDialer(f.dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)),
	}, options...)
	conn, err := grpc.NewClient("passthrough:bufconn", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// wantLimit checks that a limit refused, and whose.
func wantLimit(t testing.TB, err error, reason backend.Reason, scope limit.Scope, retry bool) {
	t.Helper()
	if meta := wantReason(t, err, reason); meta["scope"] != string(scope) || meta["limit"] == "" {
		t.Errorf("metadata %v, want the scope %s", meta, scope)
	}
	if got := detail[*errdetails.RetryInfo](err) != nil; got != retry {
		t.Errorf("retry info: %v, want %v", got, retry)
	}
}

// gatedStore holds every Get up.
type gatedStore struct {
	backend.Store
	entered chan context.Context
	open    chan struct{}
}

func (s gatedStore) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	s.entered <- ctx
	select {
	case <-s.open:
		return s.Store.Get(ctx, req)
	case <-ctx.Done():
		return backend.GetResult{}, ctx.Err()
	}
}

func gated(t *testing.T) gatedStore {
	return gatedStore{newStore(t), make(chan context.Context, 100), make(chan struct{})}
}

// TestCallsAreBounded shows that one call too many is refused at once, that health is not, and that all is well afterwards.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	store := gated(t)
	f := start(t, store, Config{Limits: Limits{Calls: 2}})
	f.mustSave(t, whole(working("t")))
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			if _, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err != nil {
				t.Error(err)
			}
		})
		<-store.entered
	}
	for range 10 {
		_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
		wantLimit(t, err, limit.ErrOverloaded, limit.OfServer, true)
	}
	if _, err := healthpb.NewHealthClient(f.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	if _, err := f.readAll(t.Context(), reading(pb.ReadUntil_READ_UNTIL_HEAD)); err != nil {
		t.Errorf("a stream: %v", err)
	}
	close(store.open)
	running.Wait()
	if _, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestWaitingGetsAreStreams shows that Gets that wait leave the calls alone, and are bounded themselves.
func TestWaitingGetsAreStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{Calls: 1, Streams: 3}})
		wait := func() error {
			_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t", Wait: waitFor(0, time.Minute)})
			return err
		}
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if err := wait(); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wantLimit(t, wait(), limit.ErrStreams, limit.OfServer, true)
		f.mustSave(t, whole(working("t"))) // which is what they wait for
		waiting.Wait()
		if err := wait(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestStreamsAreBounded shows the bound of a connection, and of all.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{ConnectionStreams: 3, Streams: 4}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := f.open(ctx, reading(forever)); err != nil {
			t.Fatal(err)
		}
		if _, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := f.open(ctx, reading(forever)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_, err := f.open(ctx, reading(forever))
		wantLimit(t, err, limit.ErrStreams, limit.OfConnection, true)
		f.mustSave(t, whole(working("t"))) // unary calls get through beside them

		other := &fixture{TaskStoreServiceClient: pb.NewTaskStoreServiceClient(f.connect(t))}
		if _, err := other.open(ctx, reading(forever)); err != nil {
			t.Errorf("on another connection: %v", err)
		}
		_, err = other.open(ctx, reading(forever))
		wantLimit(t, err, limit.ErrStreams, limit.OfServer, true)

		cancel()
		synctest.Wait()
		if _, err := f.open(t.Context(), reading(forever)); err != nil {
			t.Errorf("after the others have ended: %v", err)
		}
	})
}

// TestWatchesOfHealthAreCountedApart: who has no credential may watch health, and must not take the place of readers with it.
func TestWatchesOfHealthAreCountedApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{Streams: 1, ConnectionStreams: 1}})
		watch := func(ctx context.Context, conn *grpc.ClientConn) error {
			stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range maxWatches / connectionWatches {
			conn := f.conn
			if i > 0 {
				conn = f.connect(t)
			}
			for range connectionWatches {
				if err := watch(ctx, conn); err != nil {
					t.Fatal(err)
				}
			}
			if i == 0 {
				wantLimit(t, watch(ctx, conn), limit.ErrStreams, limit.OfConnection, true)
			}
		}
		wantLimit(t, watch(ctx, f.connect(t)), limit.ErrStreams, limit.OfServer, true)
		if _, err := healthpb.NewHealthClient(f.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("a check beside the watches: %v", err)
		}
		if _, err := f.open(t.Context(), reading(forever)); err != nil {
			t.Errorf("a reader beside the watches: %v", err)
		}
		cancel()
		synctest.Wait()
		if err := watch(t.Context(), f.conn); err != nil {
			t.Errorf("once they have ended: %v", err)
		}
	})
}

// TestHeadersAloneTakeNoPlace has a caller that begins calls and does not send their requests.
func TestHeadersAloneTakeNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{Calls: 2}})
		for range 10 {
			_, err := f.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+serviceName+"/Save")
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		f.mustSave(t, whole(working("t")))
	})
}

// TestCallBytesAreBounded has callers that do not take what they asked for. Reads are refused, writes go on; and what a lost
// connection held is given back.
func TestCallBytesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{CallBytes: 4 << 20}})
		task := working("t")
		task.Artifacts = []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: strings.Repeat("x", 1<<20)}}}}}
		f.mustSave(t, whole(task))
		// A connection that does not read.
		slow := f.connect(t, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
		desc := &grpc.StreamDesc{StreamName: "Get", ServerStreams: true}
		for range 3 {
			stream, err := slow.NewStream(t.Context(), desc, pb.TaskStoreService_Get_FullMethodName)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.SendMsg(&pb.GetRequest{TaskId: "t"}); err != nil {
				t.Fatal(err)
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
		wantLimit(t, err, limit.ErrOverloaded, limit.OfServer, true)
		_, err = f.List(t.Context(), &pb.ListRequest{IncludeArtifacts: true})
		wantLimit(t, err, limit.ErrOverloaded, limit.OfServer, true)
		_, err = f.Save(t.Context(), whole(task))
		wantLimit(t, err, limit.ErrOverloaded, limit.OfServer, true)
		f.mustSave(t, whole(working("small")))

		if err := slow.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if used := f.server.admit.bytes.Used(); used != 0 {
			t.Errorf("%d bytes stay counted", used)
		}
		if _, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		f.mustSave(t, whole(task))
		synctest.Wait()
		if used := f.server.admit.bytes.Used(); used != 0 {
			t.Errorf("%d bytes of answers that were taken stay counted", used)
		}
	})
}

// TestHeadersAreBounded floods a server with metadata.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	f.mustSave(t, whole(working("t")))
	fits := metadata.AppendToOutgoingContext(t.Context(), "padding", strings.Repeat("x", 16<<10))
	if _, err := f.Get(fits, &pb.GetRequest{TaskId: "t"}); err != nil {
		t.Errorf("16 KiB: %v", err)
	}
	for range 50 {
		ctx := t.Context()
		for i := range 200 {
			ctx = metadata.AppendToOutgoingContext(ctx, fmt.Sprint("padding-", i), strings.Repeat("x", 4<<10))
		}
		if _, err := f.Get(ctx, &pb.GetRequest{TaskId: "t"}); err == nil {
			t.Fatal("800 KiB of metadata were taken")
		}
	}
	if _, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestConnectionsAreBounded shows that one too many is closed, and that there is room again afterwards.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{Connections: 2}})
		get := func(conn *grpc.ClientConn) codes.Code {
			_, err := pb.NewTaskStoreServiceClient(conn).Delete(t.Context(), &pb.DeleteRequest{TaskId: "t"})
			return status.Code(err)
		}
		second, third := f.connect(t), f.connect(t)
		for i, want := range []codes.Code{codes.OK, codes.OK, codes.Unavailable} {
			if got := get([]*grpc.ClientConn{f.conn, second, third}[i]); got != want {
				t.Errorf("connection %d: %v, want %v", i+1, got, want)
			}
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // gRPC's pause between attempts
		if got := get(third); got != codes.OK {
			t.Errorf("after another was closed: %v", got)
		}
	})
}

// TestConnectionAge shows that a follower goes through many connections without loss or repetition, and calls without errors.
func TestConnectionAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{ConnectionAge: 10 * time.Second, ConnectionAgeGrace: 4 * time.Second}})
		c, err := client.Dial("passthrough:bufconn", client.WithInsecure(), client.WithDialOptions(grpc.WithContextDialer(f.dial)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		const events = 300
		var writer sync.WaitGroup
		defer writer.Wait()
		writer.Go(func() {
			for i := range events {
				if _, err := c.AppendEvent(t.Context(), &pb.AppendEventRequest{TaskId: "t", Events: []*pb.StreamResponse{said("x")}}); err != nil {
					t.Errorf("append %d: %v", i, err)
				}
				time.Sleep(time.Second)
			}
		})
		last, breaks := int64(0), 0
		for event, err := range c.Follow(t.Context(), reading(forever), client.OnBreak(func(err error) {
			breaks++
			if !strings.Contains(err.Error(), string(reasonConnectionAge)) {
				t.Errorf("a stream broke: %v", err)
			}
		})) {
			if err != nil {
				t.Fatal(err)
			}
			if event.GetSeq() != last+1 {
				t.Fatalf("event %d after %d", event.GetSeq(), last)
			}
			if last++; last == events {
				break
			}
		}
		if breaks < 10 {
			t.Errorf("%d resumes in 5 minutes", breaks)
		}
	})
}
