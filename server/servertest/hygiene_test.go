package servertest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/audit"
)

const (
	// secret is in everything that no log may hold: contents, tokens, metadata, and the password of the database.
	secret = "s3cr3t-canary"
	// named is in what names tasks, and whose they are: for the audit log only.
	named = "named-canary"
)

// sink is a log that is written and read by several goroutines.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// TestLogsHoldNoSecrets makes every call, good and bad, with a secret wherever one can be.
func TestLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		var log sink
		testHygiene(t, newMemory(t), &log, func() {})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		var log sink
		db := pgtest.Start(t, pgtest.Options{})
		dsn := db.DSN("postgres") + " password=" + secret
		logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		if _, err := postgres.Migrate(t.Context(), dsn, logger); err != nil {
			t.Fatal(err)
		}
		store, err := postgres.Open(t.Context(), postgres.Config{
			DSN: dsn, Limits: backend.Limits{TaskBytes: server.TaskBytes(0)}, Logger: logger,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() }) // its database is gone
		testHygiene(t, store, &log, db.Stop)
	})
}

// testHygiene makes the calls, and one of each method again after fail, which may take the database away.
func testHygiene(t *testing.T, store backend.Store, log *sink, fail func()) {
	path := filepath.Join(t.TempDir(), "audit.log")
	trail, err := audit.Open(audit.Config{Path: path, Calls: audit.All, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	admin := newCredential("admin", `tenants: ["*"], any_owner: true, access: read-write`)
	member := newCredential("member", `tenants: [acme], access: read-only`)
	g := guard(t, store, credentialsFile(admin, member), func(cfg *server.Config) {
		cfg.Audit = trail
		cfg.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	contexts := map[string]context.Context{
		"admin":    admin.authorize(t.Context()),
		"member":   member.authorize(t.Context()),
		"nobody":   t.Context(),
		"stranger": authorized(t.Context(), "Bearer "+secret),
		"basic":    authorized(t.Context(), "Basic "+secret),
	}
	for who, ctx := range contexts {
		contexts[who] = metadata.AppendToOutgoingContext(ctx, "x-canary", secret, "x-request-id", secret+" with a space")
	}
	methods := pb.File_a2ataskstore_v1_task_store_proto.Services().ByName("TaskStoreService").Methods()
	seen := make(map[codes.Code]int)
	calls := func(as string, requests map[string][]proto.Message) {
		t.Helper()
		for i := range methods.Len() {
			method := methods.Get(i)
			if len(requests[string(method.Name())]) == 0 {
				t.Errorf("no request of %s", method.Name())
			}
			for _, req := range requests[string(method.Name())] {
				ctx, cancel := context.WithTimeout(contexts[as], 2*time.Second) // what waits for news hears none
				seen[status.Code(invoke(ctx, g.conn, method, req))]++
				cancel()
			}
		}
	}
	for who := range contexts {
		if who != "admin" {
			calls(who, goodRequests())
		}
	}
	calls("admin", goodRequests())
	calls("admin", goodRequests()) // of which many are conflicts now
	calls("admin", badRequests())
	if seen[codes.Internal]+seen[codes.Unknown] > 0 {
		t.Errorf("codes %v", seen)
	}
	for _, code := range []codes.Code{
		codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition,
		codes.PermissionDenied, codes.Unauthenticated,
	} {
		if seen[code] == 0 {
			t.Errorf("no call ended with %v: %v", code, seen)
		}
	}
	fail()
	var group sync.WaitGroup
	last := goodRequests()
	for i := range methods.Len() {
		group.Go(func() { // a call without a database takes as long as it may
			ctx, cancel := context.WithTimeout(contexts["admin"], 3*time.Second)
			defer cancel()
			_ = invoke(ctx, g.conn, methods.Get(i), last[string(methods.Get(i).Name())][0])
		})
	}
	group.Wait()

	g.stop() // calls that were given up still have their lines to come
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if !strings.Contains(text, `"principal":"admin"`) || !strings.Contains(string(lines), `"task":"`+named) {
		t.Fatal("the logs do not hold the calls")
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, secret) || strings.Contains(line, named) || strings.Contains(line, admin.token) {
			t.Errorf("the log: %s", line)
		}
	}
	for line := range strings.Lines(string(lines)) {
		if strings.Contains(line, secret) || strings.Contains(line, admin.token) {
			t.Errorf("the audit log: %s", line)
		}
	}
}

// invoke makes a call to its end.
func invoke(ctx context.Context, conn *grpc.ClientConn, method protoreflect.MethodDescriptor, req proto.Message) error {
	name := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	resp := dynamicpb.NewMessage(method.Output())
	if !method.IsStreamingServer() {
		return conn.Invoke(ctx, name, req, resp)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(req); err != nil && err != io.EOF {
		return err
	}
	_ = stream.CloseSend() // RecvMsg says what is wrong
	for {
		if err := stream.RecvMsg(resp); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// secretTask is a task that is full of secrets.
func secretTask(id string, state pb.TaskState) *pb.Task {
	return &pb.Task{
		Id: id, ContextId: secret,
		Status:    &pb.TaskStatus{State: state, Message: secretMessage()},
		History:   []*pb.Message{secretMessage()},
		Artifacts: []*pb.Artifact{{ArtifactId: secret, Name: secret, Parts: secretMessage().GetParts()}},
		Metadata:  &structpb.Struct{Fields: map[string]*structpb.Value{secret: structpb.NewStringValue(secret)}},
	}
}

func secretMessage() *pb.Message {
	return &pb.Message{
		MessageId: secret, ContextId: secret, Role: pb.Role_ROLE_USER,
		Parts:    []*pb.Part{{Content: &pb.Part_Text{Text: secret}, Filename: secret}},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{secret: structpb.NewStringValue(secret)}},
	}
}

// goodRequests are valid, by method; the later ones conflict with the first, or find nothing.
func goodRequests() map[string][]proto.Message {
	const task = named + "-task"
	scope := owned(named+"-tenant", named+"-owner")
	working, failed := pb.TaskState_TASK_STATE_WORKING, pb.TaskState_TASK_STATE_FAILED
	message := &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: secretMessage()}}
	whole := func(id string, state pb.TaskState, pre *pb.Precondition) *pb.SaveRequest {
		return &pb.SaveRequest{
			Scope: scope, Precondition: pre, Origin: secret, WriteId: secret + id + state.String(), Write: &pb.SaveRequest_Task{Task: secretTask(id, state)},
			Events: []*pb.EventInput{{Input: &pb.EventInput_Event{Event: message}}},
		}
	}
	fresh := whole(task, working, nil)
	fresh.WriteId = "" // or else the second time would be a replay
	lost := whole(named+"-lost", working, nil)
	lost.Claim = &pb.Claim{Key: named + "-key", Token: "not " + secret}
	delta := &pb.SaveRequest{
		Scope: scope, Precondition: atVersion(1), Origin: secret, WriteId: secret,
		Write: &pb.SaveRequest_Delta{Delta: &pb.TaskDelta{
			TaskId:         task,
			ArtifactChange: &pb.TaskDelta_AppendParts{AppendParts: &pb.AppendParts{ArtifactId: secret, Parts: secretMessage().GetParts()}},
			AppendHistory:  []*pb.Message{secretMessage()},
		}},
	}
	seq := int64(1 << 40)
	return map[string][]proto.Message{
		"ClaimKey": {
			&pb.ClaimKeyRequest{Scope: scope, Key: named + "-key", MessageId: secret, TaskId: task, Token: secret},
			&pb.ClaimKeyRequest{Scope: scope, Key: named + "-key", MessageId: secret, TaskId: task, Token: secret + "-2"},
		},
		"Save": {fresh, lost, whole(task, failed, atVersion(77)), delta, whole(named+"-final", failed, nil), whole(named+"-final", working, atVersion(1))},
		"Get":  {&pb.GetRequest{Scope: scope, TaskId: task}, &pb.GetRequest{Scope: scope, TaskId: named + "-absent"}},
		"List": {&pb.ListRequest{Scope: scope, ContextId: secret, IncludeArtifacts: true}},
		"AppendEvent": {
			&pb.AppendEventRequest{Scope: scope, TaskId: task, Events: []*pb.StreamResponse{message}, Origin: secret},
			&pb.AppendEventRequest{Scope: scope, TaskId: task, Events: []*pb.StreamResponse{message}, Origin: secret, Seq: &seq},
			&pb.AppendEventRequest{Scope: scope, TaskId: named + "-absent", Events: []*pb.StreamResponse{message}, RequireTask: true},
		},
		"ReadEvents": {
			&pb.ReadEventsRequest{Scope: scope, TaskId: task, ExcludeOrigin: "not " + secret, IncludeTask: true, Until: pb.ReadUntil_READ_UNTIL_HEAD},
			&pb.ReadEventsRequest{Scope: scope, TaskId: named + "-absent", Until: pb.ReadUntil_READ_UNTIL_HEAD},
		},
		"ReleaseKey": {
			&pb.ReleaseKeyRequest{Scope: scope, Key: named + "-key", Token: "not " + secret},
			&pb.ReleaseKeyRequest{Scope: scope, Key: named + "-key", Token: secret},
		},
		"Delete": {&pb.DeleteRequest{Scope: scope, TaskId: named + "-absent"}, &pb.DeleteRequest{Scope: scope, TaskId: task, Version: &seq}},
	}
}

// badRequests have a secret in each text that does not name anything, once as it is, once too long, and once in bytes that are
// no message.
func badRequests() map[string][]proto.Message {
	out := make(map[string][]proto.Message)
	methods := pb.File_a2ataskstore_v1_task_store_proto.Services().ByName("TaskStoreService").Methods()
	for i := range methods.Len() {
		method := methods.Get(i)
		for _, text := range []string{secret, strings.Repeat(secret, 1000), secret + "\x00"} {
			req := dynamicpb.NewMessage(method.Input())
			fill(req, text, 6)
			out[string(method.Name())] = append(out[string(method.Name())], req)
		}
		torn := dynamicpb.NewMessage(method.Input())
		// Field 2 of every request is text, or a message; a field's length is wrong, and the text is not UTF-8.
		torn.SetUnknown(append([]byte{0x12, byte(len(secret) + 1), 0xff}, secret...))
		out[string(method.Name())] = append(out[string(method.Name())], torn)
	}
	return out
}

// fill sets every field of a message, down to a depth: texts and bytes to a secret, unless they name something.
func fill(m protoreflect.Message, text string, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		value := func(v protoreflect.Value) (protoreflect.Value, bool) {
			switch f.Kind() {
			case protoreflect.StringKind:
				switch f.Name() {
				case "tenant", "owner", "task_id", "id", "key":
					return protoreflect.ValueOfString(named), true
				}
				return protoreflect.ValueOfString(text), true
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte(text)), true
			case protoreflect.MessageKind:
				if depth > 0 {
					fill(v.Message(), text, depth-1)
				}
				return v, depth > 0
			}
			return v, false
		}
		switch {
		case f.IsMap():
		case f.IsList():
			list := m.Mutable(f).List()
			if v, ok := value(list.NewElement()); ok {
				list.Append(v)
			}
		default:
			if v, ok := value(m.NewField(f)); ok {
				m.Set(f, v)
			}
		}
	}
}
