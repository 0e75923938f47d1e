package servertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// rpc is a call of a method on the task and the key of the matrix, which belong to ann in the tenant acme.
type rpc struct {
	method string
	write  bool
	own    bool // not about the task: every owner has a key, or a new task, of the name
	call   func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error)
}

// The matrix' task, and who holds it.
const (
	theTenant = "acme"
	theOwner  = "ann"
	theTask   = "task-1"
	theKey    = "key-1"
)

func atVersion(n int64) *pb.Precondition {
	return &pb.Precondition{Condition: &pb.Precondition_Version{Version: n}}
}

// rpcs are the calls of the matrix, by a name of their own: several for the methods that have several ways to the store.
var rpcs = map[string]rpc{
	"Save": {"Save", true, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.Save(ctx, &pb.SaveRequest{Scope: scope, Precondition: atVersion(1), Write: &pb.SaveRequest_Task{
			Task: &pb.Task{Id: id, ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_FAILED}},
		}})
	}},
	"Save of a new task": {"Save", true, true, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, _ string) (proto.Message, error) {
		return c.Save(ctx, &pb.SaveRequest{Scope: scope, Write: &pb.SaveRequest_Task{
			Task: &pb.Task{Id: "new", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING}},
		}})
	}},
	"Save of a delta": {"Save", true, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.Save(ctx, &pb.SaveRequest{Scope: scope,
			Precondition: &pb.Precondition{Condition: &pb.Precondition_Present{Present: &emptypb.Empty{}}},
			Write: &pb.SaveRequest_Delta{Delta: &pb.TaskDelta{TaskId: id,
				HeadChange: &pb.TaskDelta_Status{Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_INPUT_REQUIRED}}}}})
	}},
	"Get": {"Get", false, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.Get(ctx, &pb.GetRequest{Scope: scope, TaskId: id})
	}},
	"Get of the state": {"Get", false, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.Get(ctx, &pb.GetRequest{Scope: scope, TaskId: id, View: pb.TaskView_TASK_VIEW_STATE})
	}},
	"Get that waits": {"Get", false, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.Get(ctx, &pb.GetRequest{Scope: scope, TaskId: id, Wait: &pb.Wait{NewerThan: 99, Timeout: durationpb.New(time.Millisecond)}})
	}},
	"List": {"List", false, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, _ string) (proto.Message, error) {
		return c.List(ctx, &pb.ListRequest{Scope: scope})
	}},
	"Delete": {"Delete", true, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.Delete(ctx, &pb.DeleteRequest{Scope: scope, TaskId: id})
	}},
	"ClaimKey": {"ClaimKey", true, true, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.ClaimKey(ctx, &pb.ClaimKeyRequest{Scope: scope, Key: theKey, MessageId: "message-1", TaskId: id, Token: "thief"})
	}},
	"ReleaseKey": {"ReleaseKey", true, true, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, _ string) (proto.Message, error) {
		return c.ReleaseKey(ctx, &pb.ReleaseKeyRequest{Scope: scope, Key: theKey, Token: "holder"})
	}},
	"AppendEvent": {"AppendEvent", true, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return c.AppendEvent(ctx, &pb.AppendEventRequest{Scope: scope, TaskId: id, RequireTask: true, Events: []*pb.StreamResponse{statusUpdate(id)}})
	}},
	"ReadEvents": {"ReadEvents", false, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		return firstFrame(c.ReadEvents(ctx, &pb.ReadEventsRequest{Scope: scope, TaskId: id, IncludeTask: true, Until: pb.ReadUntil_READ_UNTIL_HEAD}))
	}},
	"ReadEvents that waits": {"ReadEvents", false, false, func(ctx context.Context, c pb.TaskStoreServiceClient, scope *pb.Scope, id string) (proto.Message, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return firstFrame(c.ReadEvents(ctx, &pb.ReadEventsRequest{Scope: scope, TaskId: id, IncludeTask: true, Until: pb.ReadUntil_READ_UNTIL_FOREVER}))
	}},
}

func firstFrame(stream pb.TaskStoreService_ReadEventsClient, err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	frame, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return frame, nil
}

func owned(tenant, owner string) *pb.Scope { return &pb.Scope{Tenant: tenant, Owner: &owner} }

// TestEveryMethodIsInTheMatrix fails for a method that nobody has thought about.
func TestEveryMethodIsInTheMatrix(t *testing.T) {
	t.Parallel()
	methods := pb.File_a2ataskstore_v1_task_store_proto.Services().ByName("TaskStoreService").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		if !slices.ContainsFunc(mapValues(rpcs), func(r rpc) bool { return r.method == name }) {
			t.Errorf("%s is not in the matrix", name)
		}
	}
}

func mapValues(m map[string]rpc) (out []rpc) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// TestAccess makes every call as everybody who may not make it, while the task is hot: just written, just read, and followed.
func TestAccess(t *testing.T) {
	t.Parallel()
	eachBackend(t, testAccess)
}

func testAccess(t *testing.T, store backend.Store) {
	const all = `tenants: ["*"], any_owner: true, access: read-write`
	admin := newCredential("admin", all)
	member := newCredential("member", `tenants: [acme], access: read-write`)
	reader := newCredential("reader", `tenants: [acme], any_owner: true, access: read-only`)
	elsewhere := newCredential("elsewhere", `tenants: ["", "acme-*", other], any_owner: true, access: read-write`)
	expired := newCredential("expired", all)
	expired.expires = "2020-01-01T00:00:00Z"
	stranger := newCredential("stranger", all)
	g := guard(t, store, credentialsFile(admin, member, reader, elsewhere, expired))

	ours, anyOwner := owned(theTenant, theOwner), &pb.Scope{Tenant: theTenant}
	refusals := map[string]struct {
		authorization []string
		scope         *pb.Scope
		want          backend.Reason
		code          codes.Code
		writesOnly    bool
	}{
		"no credential":    {nil, ours, auth.ErrMissing, codes.Unauthenticated, false},
		"wrong token":      {[]string{"Bearer " + stranger.token}, ours, auth.ErrInvalid, codes.Unauthenticated, false},
		"the hash":         {[]string{"Bearer " + admin.hash}, ours, auth.ErrInvalid, codes.Unauthenticated, false},
		"cut token":        {[]string{"Bearer " + admin.token[:len(admin.token)-1]}, ours, auth.ErrInvalid, codes.Unauthenticated, false},
		"empty":            {[]string{""}, ours, auth.ErrInvalid, codes.Unauthenticated, false},
		"another scheme":   {[]string{"Basic " + admin.token}, ours, auth.ErrInvalid, codes.Unauthenticated, false},
		"two credentials":  {[]string{"Bearer " + admin.token, "Bearer " + stranger.token}, ours, auth.ErrInvalid, codes.Unauthenticated, false},
		"expired":          {[]string{"Bearer " + expired.token}, ours, auth.ErrExpired, codes.Unauthenticated, false},
		"other tenant":     {[]string{"Bearer " + elsewhere.token}, ours, auth.ErrTenant, codes.PermissionDenied, false},
		"default tenant":   {[]string{"Bearer " + member.token}, owned("", theOwner), auth.ErrTenant, codes.PermissionDenied, false},
		"no scope":         {[]string{"Bearer " + member.token}, nil, auth.ErrTenant, codes.PermissionDenied, false},
		"owner unset":      {[]string{"Bearer " + member.token}, anyOwner, auth.ErrOwnerUnset, codes.PermissionDenied, false},
		"read-only":        {[]string{"Bearer " + reader.token}, ours, auth.ErrReadOnly, codes.PermissionDenied, true},
		"read-only, owner": {[]string{"Bearer " + reader.token}, anyOwner, auth.ErrReadOnly, codes.PermissionDenied, true},
	}

	as := admin.authorize(t.Context())
	if _, err := g.ClaimKey(as, &pb.ClaimKeyRequest{Scope: ours, Key: theKey, MessageId: "message-1", TaskId: theTask, Token: "holder"}); err != nil {
		t.Fatal(err)
	}
	first := saveRequest(theTask)
	first.Scope = ours
	if _, err := g.Save(as, first); err != nil {
		t.Fatal(err)
	}
	follower, err := g.ReadEvents(as, &pb.ReadEventsRequest{Scope: ours, TaskId: theTask, Until: pb.ReadUntil_READ_UNTIL_FOREVER})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // opened, and the first event
		if _, err := follower.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	before := dump(t, store)

	for name, r := range rpcs {
		for who, refusal := range refusals {
			if refusal.writesOnly && !r.write {
				continue
			}
			// Hot in whatever caches there are.
			if _, err := g.Get(as, &pb.GetRequest{Scope: ours, TaskId: theTask}); err != nil {
				t.Fatal(err)
			}
			var answers []*status.Status
			calls := g.store.calls.Load()
			for _, id := range []string{theTask, "absent"} {
				_, err := r.call(authorized(t.Context(), refusal.authorization...), g, refusal.scope, id)
				answers = append(answers, status.Convert(err))
				if status.Code(err) != refusal.code || reasonOf(err) != string(refusal.want) {
					t.Errorf("%s, %s: %v with %s, want %v with %s", name, who, err, reasonOf(err), refusal.code, refusal.want)
				}
			}
			if !proto.Equal(answers[0].Proto(), answers[1].Proto()) {
				t.Errorf("%s, %s: the answer tells whether there is a task: %v, %v", name, who, answers[0], answers[1])
			}
			if n := g.store.calls.Load() - calls; n != 0 {
				t.Errorf("%s, %s: the store was asked %d times", name, who, n)
			}
		}
		if !r.own {
			t.Run("foreign owner/"+name, func(t *testing.T) { foreignOwner(t, g, member, r) })
		}
	}
	if diff := cmp.Diff(before, dump(t, store)); diff != "" {
		t.Errorf("what is stored has changed (-before +after):\n%s", diff)
	}
	// Nor has anybody got the key, or freed it.
	res, err := g.ClaimKey(as, &pb.ClaimKeyRequest{Scope: ours, Key: theKey, MessageId: "another", TaskId: "another", Token: "another"})
	if err != nil || res.GetOutcome() != pb.ClaimOutcome_CLAIM_OUTCOME_CONFLICT {
		t.Errorf("the key: %v, %v", res, err)
	}
	// And the calls would have done something, had they been allowed.
	for name, r := range rpcs {
		if _, err := r.call(as, g, ours, theTask); status.Code(err) == codes.Unauthenticated || status.Code(err) == codes.PermissionDenied {
			t.Errorf("%s as admin: %v", name, err)
		}
		if _, err := r.call(reader.authorize(t.Context()), g, anyOwner, theTask); (reasonOf(err) == string(auth.ErrReadOnly)) != r.write {
			t.Errorf("%s as reader: %v", name, err)
		}
	}
	if after := dump(t, store); cmp.Equal(before, after) {
		t.Error("what the matrix compares does not show changes")
	}
}

// foreignOwner makes a call as somebody of the tenant who names another owner. What he gets for ann's task must be what he
// gets for one that is not there.
func foreignOwner(t *testing.T, g *guarded, as *credential, r rpc) {
	var answers []proto.Message
	for _, id := range []string{theTask, "absent"} {
		resp, err := r.call(as.authorize(t.Context()), g, owned(theTenant, "bob"), id)
		if err != nil {
			resp = status.Convert(err).Proto()
		}
		answers = append(answers, resp)
	}
	if diff := cmp.Diff(answers[0], answers[1], protocmp.Transform()); diff != "" {
		t.Errorf("the answer tells that there is a task (-present +absent):\n%s", diff)
	}
}

func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// dump returns all tasks and logs of the matrix' tenants, as they are stored.
func dump(t *testing.T, store backend.Store) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, tenant := range []string{"", theTenant, "other"} {
		list, err := store.List(t.Context(), &backend.ListRequest{
			Tenant: tenant, Size: 100, MaxBytes: 1 << 20, Extent: backend.All,
		})
		if err != nil {
			t.Fatal(err)
		}
		out[tenant+" tasks"] = list.Rows
		for _, id := range []string{theTask, "absent", "new"} {
			page, err := store.ReadLog(t.Context(), &backend.ReadLogRequest{
				Key: backend.Key{Tenant: tenant, TaskID: id}, MaxEvents: 1000, MaxBytes: 1 << 20,
			})
			if err != nil && !errors.Is(err, backend.ErrTaskNotFound) {
				t.Fatal(err)
			}
			out[fmt.Sprint(tenant, " log ", id)] = page.Events
		}
	}
	return out
}
