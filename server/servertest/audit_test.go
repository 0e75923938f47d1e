package servertest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/audit"
)

// auditLine is a line of the audit log. Time and peer are looked at, and left out.
type auditLine struct {
	Time      time.Time
	Level     string
	Msg       string
	Method    string
	Code      string
	Reason    string
	Result    string
	Principal string
	Tenant    *string
	Owner     *string
	Task      string
	Key       string
	Version   int64
	RequestID string `json:"request_id"`
	Peer      string
}

// auditTo makes a server write an audit log. lines ends the log, once everything that was called has been answered.
func auditTo(t *testing.T, cfg audit.Config) (option func(*server.Config), lines func() []auditLine) {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "audit.log")
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	log, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *server.Config) { c.Audit = log }, func() (out []auditLine) {
		t.Helper()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.DisallowUnknownFields()
		for {
			var l auditLine
			switch err := d.Decode(&l); {
			case err == io.EOF:
				return out
			case err != nil:
				t.Fatalf("%v in\n%s", err, text)
			}
			if time.Since(l.Time) > time.Minute || l.Peer == "" || l.Msg != "audit" || l.RequestID == "" {
				t.Errorf("line %+v", l)
			}
			l.Time, l.Level, l.Msg, l.Peer = time.Time{}, "", "", ""
			out = append(out, l)
		}
	}
}

func newMemory(t *testing.T) backend.Store {
	t.Helper()
	store, err := memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: backend.Limits{TaskBytes: server.TaskBytes(0)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// auditCalls are the calls of TestAudit, in their order, each with what its line says beside what all say.
var auditCalls = []struct {
	call string // of rpcs
	want auditLine
}{
	{"ClaimKey", auditLine{Method: "ClaimKey", Task: theTask, Key: theKey, Result: "CLAIMED"}},
	{"ClaimKey", auditLine{Method: "ClaimKey", Task: theTask, Key: theKey, Result: "CLAIMED"}}, // a renewal
	{"ReleaseKey", auditLine{Method: "ReleaseKey", Key: theKey, Code: "FailedPrecondition", Reason: "CLAIM_LOST"}},
	{"Save of a new task", auditLine{Method: "Save", Task: "new", Version: 1}},
	{"Save of a new task", auditLine{Method: "Save", Task: "new", Code: "AlreadyExists", Reason: "TASK_EXISTS"}},
	{"Save of a delta", auditLine{Method: "Save", Task: theTask, Version: 2}},
	{"AppendEvent", auditLine{Method: "AppendEvent", Task: theTask, Version: 2}},
	{"Get", auditLine{Method: "Get", Task: theTask, Version: 2}},
	{"Get of the state", auditLine{Method: "Get", Task: theTask, Version: 2}},
	{"Get that waits", auditLine{Method: "Get", Task: theTask, Version: 2}},
	{"List", auditLine{Method: "List"}},
	{"ReadEvents", auditLine{Method: "ReadEvents", Task: theTask}},
	{"ReadEvents that waits", auditLine{Method: "ReadEvents", Task: theTask}},
	{"Save", auditLine{Method: "Save", Task: theTask, Code: "Aborted", Reason: "VERSION_CONFLICT"}},
	{"Delete", auditLine{Method: "Delete", Task: theTask, Result: "DELETED"}},
	{"Delete", auditLine{Method: "Delete", Task: theTask, Result: "ABSENT"}},
	{"Get", auditLine{Method: "Get", Task: theTask, Code: "NotFound", Reason: "TASK_NOT_FOUND"}},
	{"ReadEvents", auditLine{Method: "ReadEvents", Task: theTask, Code: "NotFound", Reason: "TASK_NOT_FOUND"}},
}

// Every call leaves one line that says who did what to which task, and how it ended; reads only if they are wanted.
func TestAudit(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]audit.Calls{"writes": audit.Writes, "all": audit.All} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			option, lines := auditTo(t, audit.Config{Calls: calls})
			admin := newCredential("admin", `tenants: ["*"], any_owner: true, access: read-write`)
			member := newCredential("member", `tenants: [acme], access: read-only`)
			g := guard(t, newMemory(t), credentialsFile(admin, member), option)
			scope := owned(theTenant, theOwner)
			before := saveRequest(theTask)
			before.Scope = scope
			as := metadata.AppendToOutgoingContext(admin.authorize(t.Context()), "x-request-id", "r-1")
			if _, err := g.Save(as, before); err != nil {
				t.Fatal(err)
			}
			tenant, owner := theTenant, theOwner
			want := []auditLine{{Method: "Save", Code: "OK", Principal: "admin", Tenant: &tenant, Owner: &owner, Task: theTask, Version: 1, RequestID: "r-1"}}
			methods := make(map[string]bool)
			// One after the other, so that the lines have an order.
			add := func(write bool, line auditLine) {
				methods[line.Method] = true
				if write || calls == audit.All {
					want = append(want, line)
				}
			}
			for _, c := range auditCalls {
				r := rpcs[c.call]
				_, err := r.call(as, g, scope, theTask)
				line := c.want
				if line.Code == "" {
					line.Code = "OK"
				}
				if got := status.Code(err).String(); got != line.Code {
					t.Fatalf("%s: %v", c.call, err)
				}
				line.Principal, line.Tenant, line.Owner, line.RequestID = "admin", &tenant, &owner, "r-1"
				add(r.write, line)
			}
			service := pb.File_a2ataskstore_v1_task_store_proto.Services().ByName("TaskStoreService").Methods()
			for i := range service.Len() {
				if name := string(service.Get(i).Name()); !methods[name] {
					t.Errorf("%s is not in the test", name)
				}
			}
			// Refused ones: with what they named, or without a scope where nobody knows who asks.
			refused := func(ctx context.Context, call, id string, scope *pb.Scope, code codes.Code, write bool, line auditLine) {
				t.Helper()
				ctx = metadata.AppendToOutgoingContext(ctx, "x-request-id", "r-2")
				if _, err := rpcs[call].call(ctx, g, scope, id); status.Code(err) != code {
					t.Errorf("%s: %v", call, err)
				}
				line.RequestID, line.Code = "r-2", code.String()
				add(write, line)
			}
			refused(member.authorize(t.Context()), "Save", theTask, scope, codes.PermissionDenied, true,
				auditLine{Method: "Save", Principal: "member", Tenant: &tenant, Owner: &owner, Task: theTask, Reason: "READ_ONLY"})
			refused(member.authorize(t.Context()), "Get", theTask, &pb.Scope{Tenant: theTenant}, codes.PermissionDenied, false,
				auditLine{Method: "Get", Principal: "member", Tenant: &tenant, Task: theTask, Reason: "OWNER_REQUIRED"})
			refused(member.authorize(t.Context()), "ReadEvents", theTask, owned("other", ""), codes.PermissionDenied, false,
				auditLine{Method: "ReadEvents", Principal: "member", Tenant: ptr("other"), Owner: ptr(""), Task: theTask, Reason: "TENANT_DENIED"})
			refused(t.Context(), "Delete", theTask, scope, codes.Unauthenticated, true,
				auditLine{Method: "Delete", Reason: "CREDENTIALS_MISSING"})
			long := strings.Repeat("x", 10_000)
			refused(admin.authorize(t.Context()), "Delete", long, scope, codes.InvalidArgument, true,
				auditLine{Method: "Delete", Principal: "admin", Tenant: &tenant, Owner: &owner, Task: long[:256], Reason: "INVALID_REQUEST"})
			if diff := cmp.Diff(want, lines()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func ptr(s string) *string { return &s }
