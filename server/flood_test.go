package server

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// headersAlone begins a call, and does not send its request.
func headersAlone(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, pb.TaskStoreService_Get_FullMethodName)
}

// TestCallsOfAConnectionAreBounded has a connection begin more calls than one may have in hand.
func TestCallsOfAConnectionAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(t), Config{Limits: Limits{Calls: 2}})
		f.mustSave(t, whole(working("t")))
		flood := f.connect(t)
		get := func(conn *grpc.ClientConn) error {
			_, err := pb.NewTaskStoreServiceClient(conn).Get(t.Context(), &pb.GetRequest{TaskId: "t"})
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range f.server.admit.connectionCalls() {
			if _, err := headersAlone(ctx, flood); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		wantLimit(t, get(flood), limit.ErrOverloaded, limit.OfConnection, true)
		if err := get(f.conn); err != nil {
			t.Errorf("on another connection: %v", err)
		}
		cancel()
		time.Sleep(time.Second) // for which the connection is not read, and more
		synctest.Wait()
		if err := get(flood); err != nil {
			t.Errorf("once they are given up: %v", err)
		}
	})
}

// TestConnectionsThatWasteCallsAreCut has callers that give up calls before their requests are there.
func TestConnectionsThatWasteCallsAreCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		f := start(t, newStore(t), Config{Logger: log.logger()})
		f.mustSave(t, whole(working("t")))
		// waste gives up calls, with some good ones between them, and returns whether the connection lived.
		waste := func(conn *grpc.ClientConn, calls, good int) bool {
			for range calls {
				for range good {
					_, _ = pb.NewTaskStoreServiceClient(conn).Get(t.Context(), &pb.GetRequest{TaskId: "t"})
				}
				ctx, cancel := context.WithCancel(t.Context())
				_, _ = headersAlone(ctx, conn)
				synctest.Wait()
				cancel()
				synctest.Wait()
				if conn.GetState() != connectivity.Ready {
					return false
				}
			}
			return true
		}
		if waste(f.connect(t), 1000, 0) {
			t.Error("a connection that only wastes calls lives on")
		}
		if waste(f.connect(t), 1000, 0) {
			t.Error("a second one lives on")
		}
		if lines := log.lines("closing a connection"); len(lines) != 1 {
			t.Errorf("two that are cut at once are %d lines in the log", len(lines))
		}
		if !waste(f.connect(t), 1000, 2) {
			t.Error("a connection that wastes some calls was cut")
		}
		if !waste(f.connect(t), 100, 0) {
			t.Error("a connection that wastes few calls was cut")
		}
		if err := f.conn.Invoke(t.Context(), pb.TaskStoreService_Get_FullMethodName, &pb.GetRequest{TaskId: "t"}, &pb.GetResponse{}); err != nil {
			t.Errorf("on another connection: %v", err)
		}
	})
}

// TestCallersMayLeaveInTheMidstOfCalls: what ends with its connection is not wasted.
func TestCallersMayLeaveInTheMidstOfCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		f := start(t, newStore(t), Config{Logger: log.logger()})
		conn := f.connect(t)
		for range 500 {
			if _, err := headersAlone(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(log.lines("/Get code=Canceled")); n != 500 {
			t.Errorf("%d of 500 calls have ended", n)
		}
		if lines := log.lines("level=WARN"); len(lines) > 0 {
			t.Errorf("logged %q", lines)
		}
	})
}

// slowSaves holds Saves up, and tells of those that have begun.
type slowSaves struct {
	backend.Store
	begun chan string
	open  chan struct{}
}

func (s slowSaves) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	s.begun <- req.Key.TaskID
	<-s.open
	return s.Store.Save(ctx, req)
}

// TestLargeWritesTakeTurns shows that one large write waits for another, and a small one does not.
func TestLargeWritesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := slowSaves{newStore(t), make(chan string, 3), make(chan struct{})}
		f := start(t, store, Config{})
		var saves sync.WaitGroup
		save := func(id string, size int) {
			task := working(id)
			task.Artifacts = []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: strings.Repeat("x", size)}}}}}
			saves.Go(func() {
				if _, err := f.Save(t.Context(), whole(task)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		save("large", 5<<20)
		save("too large beside it", 5<<20)
		save("small", 1)
		if first, second := <-store.begun, <-store.begun; first != "large" || second != "small" || len(store.begun) > 0 {
			t.Errorf("first %q, then %q, and %d more", first, second, len(store.begun))
		}
		close(store.open)
		saves.Wait()
	})
}

// TestLargeWritesOfOneCallerAreBehindEachOther: however many a caller sends, another's waits for one of them.
func TestLargeWritesOfOneCallerAreBehindEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const writes = 6
		store := slowSaves{newStore(t), make(chan string, writes), make(chan struct{})}
		f := start(t, store, Config{})
		var saves sync.WaitGroup
		save := func(ctx context.Context, conn *grpc.ClientConn, id string, size int, want codes.Code) {
			task := working(id)
			task.Artifacts = []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: strings.Repeat("x", size)}}}}}
			saves.Go(func() {
				_, err := pb.NewTaskStoreServiceClient(conn).Save(ctx, whole(task))
				if status.Code(err) != want {
					t.Errorf("%s: %v, want %v", id, err, want)
				}
			})
			synctest.Wait()
		}
		for range writes {
			save(t.Context(), f.conn, "greedy", bulkBytes, codes.OK)
		}
		ctx, cancel := context.WithCancel(t.Context())
		save(ctx, f.conn, "given up behind its own kind", bulkBytes, codes.Canceled)
		save(ctx, f.connect(t), "given up at the front", bulkBytes, codes.Canceled)
		save(t.Context(), f.connect(t), "other", bulkFrom, codes.OK)
		cancel()
		synctest.Wait()
		if first := <-store.begun; first != "greedy" || len(store.begun) > 0 {
			t.Fatalf("first %q, and %d more", first, len(store.begun))
		}
		store.open <- struct{}{}
		if second := <-store.begun; second != "other" {
			t.Errorf("after one of the greedy, %q", second)
		}
		close(store.open)
		saves.Wait()
		synctest.Wait()
		if used := f.server.admit.bulk.Used(); used != 0 {
			t.Errorf("%d bytes stay taken", used)
		}
	})
}

// foreign is a codec and a compressor that the server does not know.
type foreign struct{}

func (foreign) Marshal(v any) ([]byte, error)      { return proto.Marshal(v.(proto.Message)) }
func (foreign) Unmarshal(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }
func (foreign) Name() string                       { return "foreign" }
func (foreign) Type() string                       { return "foreign" }
func (foreign) Do(w io.Writer, p []byte) error     { _, err := w.Write(p); return err }

// TestCallsThatFailEarlyAreNotInHand: calls that end before anything of ours runs leave nothing behind on their connection.
func TestCallsThatFailEarlyAreNotInHand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		dial    []grpc.DialOption
		options []grpc.CallOption
	}{
		{name: "codec", options: []grpc.CallOption{grpc.ForceCodec(foreign{})}},
		{name: "compressor", dial: []grpc.DialOption{grpc.WithCompressor(foreign{})}},
		{name: "large"},
		{name: "deadline"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := start(t, newStore(t), Config{Limits: Limits{Calls: 2}})
				conn := f.connect(t, tc.dial...)
				id := "t"
				if tc.name == "large" {
					id = strings.Repeat("t", 21<<20)
				}
				call := func() error {
					ctx := t.Context()
					if tc.name == "deadline" {
						short, cancel := context.WithTimeout(ctx, time.Microsecond)
						defer cancel()
						ctx = short
					}
					return conn.Invoke(ctx, pb.TaskStoreService_Get_FullMethodName, &pb.GetRequest{TaskId: id}, &pb.GetResponse{}, tc.options...)
				}
				for range f.server.admit.connectionCalls() {
					if err := call(); err == nil || backend.ReasonOf(err) == limit.ErrOverloaded {
						t.Fatalf("a call that fails early: %v", err)
					}
				}
				time.Sleep(time.Minute)
				if err := call(); err == nil || backend.ReasonOf(err) == limit.ErrOverloaded {
					t.Errorf("after them: %v", err)
				}
			})
		})
	}
}
