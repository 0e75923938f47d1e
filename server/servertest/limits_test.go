package servertest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// wantLimited checks that a limit refused a call, and which.
func wantLimited(t *testing.T, err error, reason, scope, what string, retry bool) {
	t.Helper()
	var info *errdetails.ErrorInfo
	hasRetry := false
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			hasRetry = d.GetRetryDelay().AsDuration() > 0
		}
	}
	if status.Code(err) != codes.ResourceExhausted || info.GetReason() != reason ||
		info.GetMetadata()["scope"] != scope || info.GetMetadata()["limit"] != what || hasRetry != retry {
		t.Errorf("%v, %v, retry info %v; want %s of the %s, %s", err, info, hasRetry, reason, scope, what)
	}
}

func memoryStore(t *testing.T) backend.Store {
	t.Helper()
	store, err := memory.Open(memory.Config{MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// inTenant is a Save of a task in a tenant.
func inTenant(tenant, id, text string, pre *pb.Precondition) *pb.SaveRequest {
	task := &pb.Task{Id: id, Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING}}
	if text != "" {
		task.Artifacts = []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: text}}}}}
	}
	return &pb.SaveRequest{Scope: &pb.Scope{Tenant: tenant}, Write: &pb.SaveRequest_Task{Task: task}, Precondition: pre}
}

var (
	ifAbsent  = &pb.Precondition{Condition: &pb.Precondition_Absent{Absent: &emptypb.Empty{}}}
	inAnyCase = &pb.Precondition{Condition: &pb.Precondition_Any{Any: &emptypb.Empty{}}}
)

// TestPrincipalsAndTenantsAreLimited shows each limit of a principal and of a tenant, that others do not feel it, and that a
// replaced file replaces it.
func TestPrincipalsAndTenantsAreLimited(t *testing.T) {
	t.Parallel()
	const everything = `tenants: ["*"], any_owner: true, access: read-write`
	free := newCredential("free", everything)
	for name, test := range map[string]struct {
		limits string
		reason string
		what   string
		retry  bool
		// call is made until it is refused, at most so many times.
		most int
		call func(*guarded, *credential, int) error
	}{
		"requests": {"requests_per_second: 5", "RATE_LIMITED", "requests_per_second", true, 20,
			func(g *guarded, c *credential, _ int) error {
				_, err := g.Delete(c.authorize(t.Context()), &pb.DeleteRequest{Scope: &pb.Scope{Tenant: "small"}, TaskId: "t"})
				return err
			}},
		"bytes": {"bytes_per_second: 1000", "RATE_LIMITED", "bytes_per_second", true, 2,
			func(g *guarded, c *credential, i int) error {
				_, err := g.Save(c.authorize(t.Context()), inTenant("small", fmt.Sprint(i), strings.Repeat("x", 100_000), inAnyCase))
				return err
			}},
		"streams": {"open_streams: 2", "TOO_MANY_STREAMS", "open_streams", false, 3,
			func(g *guarded, c *credential, _ int) error {
				stream, err := g.ReadEvents(c.authorize(t.Context()), &pb.ReadEventsRequest{Scope: &pb.Scope{Tenant: "small"}, TaskId: "t"})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			}},
		"tasks": {"tasks: 3", "TOO_MANY_TASKS", "tasks", false, 4,
			func(g *guarded, c *credential, i int) error {
				_, err := g.Save(c.authorize(t.Context()), inTenant("small", fmt.Sprint(i), "", ifAbsent))
				return err
			}},
	} {
		for _, scope := range []string{"principal", "tenant"} {
			t.Run(name+" of a "+scope, func(t *testing.T) {
				t.Parallel()
				file, bound := "", newCredential("bound", everything)
				if scope == "principal" {
					bound = newCredential("bound", everything+", limits: {"+test.limits+"}")
					file = credentialsFile(bound, free)
				} else {
					file = credentialsFile(bound, free) + "tenant_limits: [{tenants: [sm*], limits: {" + test.limits + "}}]\n"
				}
				g := guard(t, memoryStore(t), file)
				var err error
				for i := 0; i < test.most && err == nil; i++ {
					err = test.call(g, bound, i)
				}
				wantLimited(t, err, test.reason, scope, test.what, test.retry)

				if scope == "principal" {
					if err := test.call(g, free, 100); err != nil {
						t.Errorf("another principal: %v", err)
					}
				} else if _, err := g.Save(bound.authorize(t.Context()), inTenant("large", "t", "", ifAbsent)); err != nil {
					t.Errorf("another tenant: %v", err)
				}
				bound.grants = everything
				g.replace(t, credentialsFile(bound, free))
				waitUntil(t, func() bool { return test.call(g, bound, 200) == nil })
			})
		}
	}
}

// TestFullTenant shows what a tenant that holds as many tasks as it may still does.
func TestFullTenant(t *testing.T) {
	t.Parallel()
	all := newCredential("all", `tenants: ["*"], any_owner: true, access: read-write`)
	g := guard(t, memoryStore(t), credentialsFile(all)+"tenant_limits: [{tenants: [small], limits: {tasks: 1}}]\n")
	ctx := all.authorize(t.Context())
	first := inTenant("small", "first", "", ifAbsent)
	first.WriteId = "w"
	if _, err := g.Save(ctx, first); err != nil {
		t.Fatal(err)
	}
	for _, pre := range []*pb.Precondition{ifAbsent, inAnyCase} {
		_, err := g.Save(ctx, inTenant("small", "second", "", pre))
		wantLimited(t, err, "TOO_MANY_TASKS", "tenant", "tasks", false)
	}
	if res, err := g.Save(ctx, first); err != nil || !res.GetReplayed() {
		t.Errorf("a retry of the insert: %v, %v", res, err)
	}
	if _, err := g.Save(ctx, inTenant("small", "first", "", inAnyCase)); err != nil {
		t.Errorf("a write of what is there: %v", err)
	}
	if _, err := g.Save(ctx, inTenant("small", "first", "", ifAbsent)); status.Code(err) != codes.AlreadyExists {
		t.Errorf("an insert of what is there: %v", err)
	}
}

// TestBytesOfReadersArePaced shows that a stream beyond its rate is slowed down and not ended.
func TestBytesOfReadersArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each = `tenants: ["*"], any_owner: true, access: read-write`
		writer := newCredential("writer", each)
		slow := newCredential("slow", each+", limits: {bytes_per_second: 100000}")
		g := guard(t, memoryStore(t), credentialsFile(writer, slow))
		event := &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{
			MessageId: "m", Role: pb.Role_ROLE_AGENT, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: strings.Repeat("x", 60_000)}}},
		}}}
		for range 20 { // more than fit one frame
			if _, err := g.AppendEvent(writer.authorize(t.Context()), &pb.AppendEventRequest{TaskId: "t", Events: []*pb.StreamResponse{event}}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		stream, err := g.ReadEvents(slow.authorize(t.Context()), &pb.ReadEventsRequest{TaskId: "t", Until: pb.ReadUntil_READ_UNTIL_HEAD})
		if err != nil {
			t.Fatal(err)
		}
		events := 0
		for {
			frame, err := stream.Recv()
			if err != nil {
				break
			}
			events += len(frame.GetEvents().GetEvents())
		}
		if took := time.Since(began); events != 20 || took < 5*time.Second {
			t.Errorf("%d events of 60 kB at 100 kB/s in %v", events, took)
		}
	})
}

// TestWaitingGetsOfPrincipals shows that they are counted with the streams.
func TestWaitingGetsOfPrincipals(t *testing.T) {
	t.Parallel()
	one := newCredential("one", `tenants: ["*"], any_owner: true, access: read-only, limits: {open_streams: 1}`)
	g := guard(t, memoryStore(t), credentialsFile(one))
	ctx := one.authorize(t.Context())
	stream, err := g.ReadEvents(ctx, &pb.ReadEventsRequest{TaskId: "t"})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Get(ctx, &pb.GetRequest{TaskId: "t", Wait: &pb.Wait{Timeout: durationpb.New(time.Minute)}})
	wantLimited(t, err, "TOO_MANY_STREAMS", "principal", "open_streams", false)
}
