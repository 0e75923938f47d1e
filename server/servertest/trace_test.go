package servertest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend/observe/sqltrace"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	"github.com/a2a-taskstore/taskstore/client"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
)

// A trace leads from the span of the caller through those of client and server to the statements, also where a write shares
// its statement with others', and shows nothing of what is stored.
func TestTraceFromClientToStatement(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	store, err := postgres.Open(t.Context(), postgres.Config{DSN: pgtest.Database(t, migrate), Tracer: sqltrace.New(provider)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log lockedBuffer
	s := server.New(store, server.Config{
		TracerProvider: provider, SweepInterval: -1,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	lis := bufconn.Listen(1 << 20)
	go s.Serve(lis)
	conn, err := client.Dial("passthrough:///store", client.WithInsecure(), client.WithTracerProvider(provider),
		client.WithScope(&pb.Scope{Tenant: "canary-tenant", Owner: proto.String("canary-owner")}), client.WithToken("canary-token"),
		client.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })))
	if err != nil {
		t.Fatal(err)
	}

	const secret = "canary-in-the-task"
	ctx, caller := provider.Tracer("test").Start(t.Context(), "caller")
	var calls sync.WaitGroup
	for _, id := range []string{"canary-1", "canary-2", "canary-3", "canary-4"} {
		calls.Go(func() {
			req := saveRequest(id)
			req.GetTask().Artifacts = []*pb.Artifact{{
				ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: secret}}},
			}}
			if _, err := conn.Save(ctx, req); err != nil {
				t.Error(err)
			}
			if _, err := conn.Get(ctx, &pb.GetRequest{TaskId: id}); err != nil {
				t.Error(err)
			}
			// Calls that fail, whose spans say why.
			if _, err := conn.Get(ctx, &pb.GetRequest{TaskId: id + "-absent"}); err == nil {
				t.Error("found a task that was never saved")
			}
			req.WriteId, req.Precondition = "", &pb.Precondition{Condition: &pb.Precondition_Version{Version: 99}}
			if _, err := conn.Save(ctx, req); err == nil {
				t.Error("saved at a version that never was")
			}
		})
	}
	calls.Wait()
	caller.End()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}

	all := spans.GetSpans()
	parents := map[string]tracetest.SpanStub{}
	for _, span := range all {
		parents[span.SpanContext.SpanID().String()] = span
	}
	paths := map[string]int{}
	linked := 0
	for _, span := range all {
		if span.SpanContext.TraceID() != caller.SpanContext().TraceID() {
			t.Errorf("%q is of another trace", span.Name)
		}
		for _, text := range texts(&span) {
			if strings.Contains(text, "canary") {
				t.Errorf("%q shows %q", span.Name, text)
			}
		}
		linked += len(span.Links)
		var path []string
		for at, ok := span, true; ok; at, ok = parents[at.Parent.SpanID().String()] {
			path = append(path, at.Name)
		}
		slices.Reverse(path)
		paths[strings.Join(path, " > ")]++
	}
	const service = "a2ataskstore.v1.TaskStoreService/"
	for path, least := range map[string]int{
		"caller > " + service + "Save > " + service + "Save":                  4,
		"caller > " + service + "Get > " + service + "Get > postgresql query": 4,
		// Those that shared a statement with these are linked to it.
		"caller > " + service + "Save > " + service + "Save > postgresql query": 1,
	} {
		if paths[path] < least {
			t.Errorf("%d spans %q, want %d; all: %v", paths[path], path, least, paths)
		}
	}
	if writes := paths["caller > "+service+"Save > "+service+"Save > postgresql query"]; writes+linked < 4 {
		t.Errorf("4 saves have %d statements and %d links", writes, linked)
	}
	if id := "trace_id=" + caller.SpanContext().TraceID().String(); !strings.Contains(log.String(), id) {
		t.Errorf("no %s in the log", id)
	}
}

func texts(span *tracetest.SpanStub) []string {
	out := []string{span.Name, span.Status.Description}
	for _, a := range span.Attributes {
		out = append(out, string(a.Key), a.Value.String())
	}
	for _, e := range span.Events {
		out = append(out, e.Name)
		for _, a := range e.Attributes {
			out = append(out, a.Value.String())
		}
	}
	return out
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

var _ io.Writer = (*lockedBuffer)(nil)

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
