package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

const (
	serving    = healthgrpc.HealthCheckResponse_SERVING
	notServing = healthgrpc.HealthCheckResponse_NOT_SERVING
)

// watchHealth follows the health of a name; each call of the result waits for the next status.
func watchHealth(t *testing.T, f *fixture, name string) func() healthgrpc.HealthCheckResponse_ServingStatus {
	t.Helper()
	stream, err := healthgrpc.NewHealthClient(f.conn).Watch(t.Context(), &healthgrpc.HealthCheckRequest{Service: name})
	if err != nil {
		t.Fatal(err)
	}
	return func() healthgrpc.HealthCheckResponse_ServingStatus {
		res, err := stream.Recv()
		if err != nil {
			t.Errorf("health of %q: %v", name, err)
		}
		return res.GetStatus()
	}
}

// becomes waits until a health status comes.
func becomes(next func() healthgrpc.HealthCheckResponse_ServingStatus, want healthgrpc.HealthCheckResponse_ServingStatus) {
	for next() != want {
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testDrain)
}

func testDrain(t *testing.T) {
	f := start(t, newStore(t), Config{DrainDelay: 10 * time.Second})
	f.mustSave(t, whole(working("t")))
	f.mustAppend(t, "t", "two", "three")
	reader, err := f.open(t.Context(), reading(forever))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := f.open(t.Context(), fromNow(reading(terminal)))
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t", Wait: waitFor(1, time.Minute)})
		waiting <- err
	}()
	var all []func() healthgrpc.HealthCheckResponse_ServingStatus
	for _, name := range []string{"", serviceName} {
		next := watchHealth(t, f, name)
		becomes(next, serving)
		all = append(all, next)
	}

	synctest.Wait()
	down := make(chan error, 1)
	go func() { down <- f.server.Shutdown(context.Background()) }()
	for _, next := range all {
		becomes(next, notServing)
	}
	// It still serves, until the delay is over.
	if _, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err != nil {
		t.Errorf("get during the delay: %v", err)
	}
	for name, r := range map[string]*read{"reader": reader, "from now": fresh} {
		err := r.drain()
		if meta := wantReason(t, err, reasonDraining); meta["last_seq"] != "3" {
			t.Errorf("%s: metadata %v", name, meta)
		}
		if detail[*errdetails.RetryInfo](err) == nil {
			t.Errorf("%s: no retry info", name)
		}
	}
	wantReason(t, <-waiting, reasonDraining)
	if err := <-down; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if len(reader.events) != 3 {
		t.Errorf("%d events before the drain", len(reader.events))
	}
	if _, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err == nil {
		t.Error("served after shutdown")
	}
}

// slowStore answers a Get when it is told to.
type slowStore struct {
	backend.Store
	began, finish chan struct{}
}

func (s slowStore) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	close(s.began)
	select {
	case <-s.finish:
		return s.Store.Get(ctx, req)
	case <-ctx.Done():
		return backend.GetResult{}, ctx.Err()
	}
}

func TestShutdownAwaitsCalls(t *testing.T) {
	t.Parallel()
	for name, inTime := range map[string]bool{"awaited": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := slowStore{newStore(t), make(chan struct{}), make(chan struct{})}
			f := start(t, store, Config{})
			f.mustSave(t, whole(working("t")))
			answer := make(chan error, 1)
			go func() {
				_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
				answer <- err
			}()
			<-store.began
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			down := make(chan error, 1)
			go func() { down <- f.server.Shutdown(ctx) }()
			<-f.server.draining.Done()
			if inTime {
				close(store.finish)
				if err := <-answer; err != nil {
					t.Errorf("get: %v", err)
				}
				if err := <-down; err != nil {
					t.Errorf("shutdown: %v", err)
				}
				return
			}
			cancel()
			if err := <-down; !errors.Is(err, context.Canceled) {
				t.Errorf("shutdown: %v", err)
			}
			if err := <-answer; err == nil {
				t.Error("a call that was cut off has succeeded")
			}
		})
	}
}

func TestShutdownBeforeServe(t *testing.T) {
	t.Parallel()
	s := New(newStore(t), Config{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(bufconn.Listen(1)); !errors.Is(err, grpc.ErrServerStopped) {
		t.Errorf("serve: %v", err)
	}
	if err := s.Serve(); err == nil {
		t.Error("served no listener")
	}
}

// TestServeFailure has one of two listeners fail.
func TestServeFailure(t *testing.T) {
	t.Parallel()
	s := New(newStore(t), Config{Logger: slog.New(slog.DiscardHandler)})
	good, bad := bufconn.Listen(1), bufconn.Listen(1)
	if err := bad.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(good, bad); err == nil {
		t.Error("no error")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// pingStore can be made unable to serve.
type pingStore struct {
	backend.Store
	down atomic.Bool
}

func (s *pingStore) Ping(context.Context) error {
	if s.down.Load() {
		return backend.Unavailable("away", errors.New("no route"))
	}
	return nil
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	store := &pingStore{Store: newStore(t)}
	f := start(t, store, Config{PingInterval: time.Millisecond})
	next := watchHealth(t, f, serviceName)
	becomes(next, serving)
	store.down.Store(true)
	becomes(next, notServing)
	store.down.Store(false)
	becomes(next, serving)
	res, err := healthgrpc.NewHealthClient(f.conn).Check(t.Context(), &healthgrpc.HealthCheckRequest{})
	if err != nil || res.GetStatus() != serving {
		t.Errorf("check: %v, %v", res, err)
	}
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) lines(containing string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, containing) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// panicStore panics.
type panicStore struct{ backend.Store }

func (panicStore) Get(context.Context, *backend.GetRequest) (backend.GetResult, error) { panic("ouch") }
func (panicStore) ReadLog(context.Context, *backend.ReadLogRequest) (backend.LogPage, error) {
	panic("ouch")
}

func TestFaultsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	calls := map[string]func(f *fixture, ctx context.Context) error{
		"Get": func(f *fixture, ctx context.Context) error {
			_, err := f.Get(ctx, &pb.GetRequest{TaskId: "t"})
			return err
		},
		"ReadEvents": func(f *fixture, ctx context.Context) error {
			_, err := f.open(ctx, reading(head))
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logBuffer
			f := start(t, panicStore{newStore(t)}, Config{Logger: log.logger()})
			err := call(f, metadata.AppendToOutgoingContext(t.Context(), requestIDHeader, "find-me"))
			wantCode(t, err, codes.Internal)
			if strings.Contains(err.Error(), "ouch") {
				t.Errorf("the panic got out: %v", err)
			}
			lines := log.lines("ouch")
			if len(lines) != 1 {
				t.Fatalf("%d lines: %q", len(lines), lines)
			}
			for _, want := range []string{"level=ERROR", "request_id=find-me", "TaskStoreService/" + name, "panicStore"} {
				if !strings.Contains(lines[0], want) {
					t.Errorf("no %s in %q", want, lines[0])
				}
			}
		})
	}
	t.Run("backend", func(t *testing.T) {
		t.Parallel()
		var log logBuffer
		store := failingStore{newStore(t), func() error { return backend.Unavailable("away", errors.New("no route to db")) }}
		f := start(t, store, Config{Logger: log.logger()})
		wantReason(t, calls["Get"](f, t.Context()), backend.ErrUnavailable)
		if lines := log.lines("no route to db"); len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") {
			t.Errorf("lines %q", lines)
		}
	})
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	for given, kept := range map[string]bool{"abc-1": true, "with space": false, "": false, strings.Repeat("x", 65): false} {
		var trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), requestIDHeader, given)
		_, err := f.Get(ctx, &pb.GetRequest{TaskId: "t"}, grpc.Trailer(&trailer))
		wantReason(t, err, backend.ErrTaskNotFound)
		got := trailer.Get(requestIDHeader)
		if len(got) != 1 || got[0] == "" || (got[0] == given) != kept {
			t.Errorf("%q came back as %q", given, got)
		}
	}
}

// sweepStore makes rounds of three batches.
type sweepStore struct {
	backend.Store
	fail atomic.Bool

	mu      sync.Mutex
	cursors []string
}

func (s *sweepStore) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cursors)
}

func (s *sweepStore) Sweep(_ context.Context, req *backend.SweepRequest) (backend.SweepResult, error) {
	s.mu.Lock()
	s.cursors = append(s.cursors, string(req.Cursor))
	s.mu.Unlock()
	if s.fail.Load() {
		return backend.SweepResult{}, errors.New("cut off")
	}
	return backend.SweepResult{Cursor: map[string][]byte{"": []byte("1"), "1": []byte("2")}[string(req.Cursor)], Tasks: 1}, nil
}

func TestSweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &sweepStore{Store: newStore(t)}
		var log logBuffer
		s := New(store, Config{SweepInterval: time.Minute, Logger: log.logger()})
		s.start()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if got := strings.Join(store.seen(), ","); got != ",1,2" {
			t.Errorf("cursors %q", got)
		}
		if lines := log.lines("swept"); len(lines) != 1 || !strings.Contains(lines[0], "tasks=3") {
			t.Errorf("log %q", lines)
		}
		store.fail.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(store.seen()) != 8 || len(log.lines("level=ERROR")) != 1 {
			t.Errorf("cursors %q, log %q", store.seen(), log.lines(""))
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(store.seen()) != 8 {
			t.Errorf("swept after shutdown: %q", store.seen())
		}
	})
}

// TestClaimDefaults shows the times that a claim gets.
func TestClaimDefaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retention backend.Retention
		ttl       time.Duration
	}{
		"kept for ever": {backend.Retention{}, 24 * time.Hour},
		"short":         {backend.Retention{Terminal: time.Hour}, 24 * time.Hour},
		"long":          {backend.Retention{Terminal: 48 * time.Hour}, 48 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, newStore(t), Config{Retention: test.retention})
			claim := &pb.ClaimKeyRequest{Key: "k", MessageId: "m", TaskId: "t", Token: "x"}
			near := func(what string, want time.Duration) {
				t.Helper()
				res, err := f.ClaimKey(t.Context(), claim)
				if err != nil {
					t.Fatal(err)
				}
				if got := time.Until(res.GetExpiresAt().AsTime()); got > want || got < want-time.Minute {
					t.Errorf("%s of %v, want %v", what, got, want)
				}
			}
			near("lease", 30*time.Second)
			req := whole(working("t"))
			req.Claim = &pb.Claim{Key: "k", Token: "x"}
			f.mustSave(t, req)
			near("ttl", test.ttl)
		})
	}
}

// TestUnixSocketAndTCP serves two listeners at once.
func TestUnixSocketAndTCP(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	unix, err := ListenUnix(path, OwnerOnly)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(newStore(t), Config{Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve(unix, tcp) }()
	for _, target := range []string{"unix:" + path, tcp.Addr().String()} {
		conn, err := grpc.NewClient(target, insecureCredentials)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = pb.NewTaskStoreServiceClient(conn).Get(t.Context(), &pb.GetRequest{TaskId: "t"})
		wantReason(t, err, backend.ErrTaskNotFound)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
