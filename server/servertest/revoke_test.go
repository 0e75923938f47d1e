package servertest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	reflectgrpc "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// changes are what may happen to a principal in the credentials file, and what its open calls then end with.
var changes = map[string]struct {
	change func(*credential) *credential // nil: the principal is gone
	want   backend.Reason
	code   codes.Code
	// inherited says that later calls with the token are good, as another principal's.
	inherited bool
}{
	"the principal is gone": {func(*credential) *credential { return nil }, auth.ErrInvalid, codes.Unauthenticated, false},
	"the token is another": {func(c *credential) *credential {
		return newCredential(c.name, c.grants)
	}, auth.ErrInvalid, codes.Unauthenticated, false},
	"the token is somebody else's": {func(c *credential) *credential {
		return &credential{name: "heir", token: c.token, hash: c.hash, grants: c.grants}
	}, auth.ErrInvalid, codes.Unauthenticated, true},
	"the token has expired": {func(c *credential) *credential {
		return &credential{name: c.name, hash: c.hash, grants: c.grants, expires: "2020-01-01T00:00:00Z"}
	}, auth.ErrExpired, codes.Unauthenticated, false},
	"the tenant is taken away": {func(c *credential) *credential {
		return &credential{name: c.name, hash: c.hash, grants: `tenants: ["", other], any_owner: true, access: read-only`}
	}, auth.ErrTenant, codes.PermissionDenied, false},
	"the owners are taken away": {func(c *credential) *credential {
		return &credential{name: c.name, hash: c.hash, grants: `tenants: [acme], access: read-write`}
	}, auth.ErrOwnerUnset, codes.PermissionDenied, false},
}

// TestRevocationEndsOpenCalls restricts a principal whose streams are open, and whose Get waits, on a hot task.
func TestRevocationEndsOpenCalls(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, store backend.Store) {
		admin := newCredential("admin", `tenants: ["*"], any_owner: true, access: read-write`)
		g := guard(t, store, credentialsFile(admin))
		for name, test := range changes {
			t.Run(name, func(t *testing.T) {
				victim := newCredential("victim", `tenants: [acme], any_owner: true, access: read-only`)
				loads := g.auth.Stats().Loads
				g.replace(t, credentialsFile(admin, victim))
				waitUntil(t, func() bool { return g.auth.Stats().Loads > loads })
				task := fmt.Sprint("task of ", name)
				tenant := &pb.Scope{Tenant: theTenant}
				save := saveRequest(task)
				save.Scope = tenant
				if _, err := g.Save(admin.authorize(t.Context()), save); err != nil {
					t.Fatal(err)
				}

				read := &pb.ReadEventsRequest{Scope: tenant, TaskId: task, Until: pb.ReadUntil_READ_UNTIL_FOREVER}
				revoked, spared := follow(t, g, victim.authorize(t.Context()), read), follow(t, g, admin.authorize(t.Context()), read)
				nothingYet := follow(t, g, victim.authorize(t.Context()), &pb.ReadEventsRequest{Scope: tenant, TaskId: "not there yet"})
				waited, gets := make(chan error, 1), g.store.gets.Load()
				go func() {
					_, err := g.Get(victim.authorize(t.Context()), &pb.GetRequest{
						Scope: tenant, TaskId: task, Wait: &pb.Wait{NewerThan: 99, Timeout: durationpb.New(time.Minute)},
					})
					waited <- err
				}()
				waitUntil(t, func() bool { return g.store.gets.Load() > gets })

				ended := g.auth.Ended()
				entries := []*credential{admin}
				if changed := test.change(victim); changed != nil {
					entries = append(entries, changed)
				}
				g.replace(t, credentialsFile(entries...))
				for what, err := range map[string]error{"reader": revoked.end(t), "reader of nothing": nothingYet.end(t), "get": <-waited} {
					if status.Code(err) != test.code || reasonOf(err) != string(test.want) {
						t.Errorf("%s: %v with %s, want %v with %s", what, err, reasonOf(err), test.code, test.want)
					}
				}
				if n := g.auth.Ended() - ended; n != 3 {
					t.Errorf("%d calls are counted as ended, want 3", n)
				}
				_, err := g.Get(victim.authorize(t.Context()), &pb.GetRequest{Scope: tenant, TaskId: task})
				if reasonOf(err) != string(test.want) && !test.inherited {
					t.Errorf("another call: %v", err)
				}
				// What comes now, only the other reader hears.
				append := &pb.AppendEventRequest{Scope: tenant, TaskId: task, Events: []*pb.StreamResponse{statusUpdate(task)}}
				if _, err := g.AppendEvent(admin.authorize(t.Context()), append); err != nil {
					t.Error(err)
				}
				spared.wait(t, 2)
				if n := revoked.events.Load(); n != 1 {
					t.Errorf("the ended reader got %d events, want 1", n)
				}
			})
		}
	})
}

// following is an open stream, with somebody who reads it.
type following struct {
	events atomic.Int64
	ended  chan error
}

// follow opens a stream, and returns when its first frames have come: opened, and for a log that exists, its event.
func follow(t *testing.T, g *guarded, ctx context.Context, req *pb.ReadEventsRequest) *following {
	t.Helper()
	stream, err := g.ReadEvents(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	f := &following{ended: make(chan error, 1)}
	go func() {
		for {
			frame, err := stream.Recv()
			if err != nil {
				f.ended <- err
				return
			}
			f.events.Add(int64(len(frame.GetEvents().GetEvents())))
		}
	}()
	f.wait(t, first.GetOpened().GetLastSeq())
	return f
}

func (f *following) wait(t *testing.T, events int64) {
	t.Helper()
	waitUntil(t, func() bool { return f.events.Load() == events })
}

// end returns what the stream ended with.
func (f *following) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-f.ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the stream goes on")
		return nil
	}
}

// patience is how long a test waits for what must come, on a machine that does much else.
const patience = time.Minute

func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !done(); <-tick.C {
		if time.Since(began) > patience {
			t.Fatal("it does not come")
		}
	}
}

// TestOpenAndClosedServices shows who may use what is beside the service: health everybody, reflection principals only, for
// as long as they are.
func TestOpenAndClosedServices(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, store backend.Store) {
		keeper, visitor := newCredential("keeper", `tenants: [x], access: read-only`), newCredential("visitor", `tenants: [y], access: read-only`)
		g := guard(t, store, credentialsFile(keeper, visitor))
		health := healthgrpc.NewHealthClient(g.conn)
		for _, ctx := range []context.Context{t.Context(), authorized(t.Context(), "Bearer wrong")} {
			if _, err := health.Check(ctx, &healthgrpc.HealthCheckRequest{}); err != nil {
				t.Errorf("health: %v", err)
			}
			watch, err := health.Watch(ctx, &healthgrpc.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			if err != nil {
				t.Errorf("health: %v", err)
			}
			if _, err := reflect(ctx, g.conn); status.Code(err) != codes.Unauthenticated {
				t.Errorf("reflection without a principal: %v", err)
			}
		}
		if err := g.conn.Invoke(t.Context(), "/a2ataskstore.admin.v1.AdminService/Backup", &pb.GetRequest{}, &pb.GetResponse{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("admin functions are served: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stream, err := reflect(visitor.authorize(ctx), g.conn)
		if err != nil {
			t.Fatalf("reflection for a principal: %v", err)
		}
		g.replace(t, credentialsFile(keeper))
		if _, err := stream.Recv(); reasonOf(err) != string(auth.ErrInvalid) {
			t.Errorf("an open stream of reflection ends with %v", err)
		}
	})
}

// reflect opens a stream of reflection, and asks one thing.
func reflect(ctx context.Context, conn *grpc.ClientConn) (reflectgrpc.ServerReflection_ServerReflectionInfoClient, error) {
	stream, err := reflectgrpc.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&reflectgrpc.ServerReflectionRequest{MessageRequest: &reflectgrpc.ServerReflectionRequest_ListServices{}})
	if err != nil && err != io.EOF { // then Recv knows why
		return nil, err
	}
	_, err = stream.Recv()
	return stream, err
}

// TestLastGoodCredentialsStay spoils the credentials file in several ways while calls go on.
func TestLastGoodCredentialsStay(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, store backend.Store) {
		admin := newCredential("admin", `tenants: ["*"], any_owner: true, access: read-write`)
		g := guard(t, store, credentialsFile(admin))
		open := follow(t, g, admin.authorize(t.Context()), &pb.ReadEventsRequest{TaskId: "t"})
		for i, text := range []string{"", "principals: []", credentialsFile(admin) + "rubbish", "\x00"} {
			failures := g.auth.Stats().Failures
			g.replace(t, text)
			waitUntil(t, func() bool { return g.auth.Stats().Failures > failures })
			if !g.auth.Stats().Failing {
				t.Errorf("file %d: the statistics do not say that it is bad", i)
			}
			if _, err := g.List(admin.authorize(t.Context()), &pb.ListRequest{}); err != nil {
				t.Errorf("file %d: %v", i, err)
			}
		}
		second := newCredential("second", `tenants: ["*"], any_owner: true, access: read-write`)
		g.replace(t, credentialsFile(admin, second))
		waitUntil(t, func() bool { return g.auth.Principals() == 2 })
		if g.auth.Stats().Failing {
			t.Error("the statistics say that a good file is bad")
		}
		if len(open.ended) > 0 {
			t.Errorf("the stream has ended: %v", <-open.ended)
		}
	})
}

// TestStartNeedsGoodCredentials shows that a server never starts without the file that it was told of.
func TestStartNeedsGoodCredentials(t *testing.T) {
	t.Parallel()
	for _, file := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir()} {
		if _, err := auth.Open(auth.Config{File: file, Logger: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s is taken for a credentials file", file)
		}
	}
}
