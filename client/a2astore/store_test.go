package a2astore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/a2aproject/a2a-go/v2/log"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// as is a context of a call of the user, who sees no logs.
func as(ctx context.Context, user string) context.Context {
	ctx = log.AttachLogger(ctx, slog.New(slog.DiscardHandler))
	ctx, call := a2asrv.NewCallContext(ctx, nil)
	call.User = a2asrv.NewAuthenticatedUser(user, nil)
	return ctx
}

func mustCreate(t testing.TB, s *Store, ctx context.Context, task *a2a.Task) taskstore.TaskVersion {
	t.Helper()
	v, err := s.Create(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustGet(t testing.TB, s *Store, ctx context.Context, id a2a.TaskID) *taskstore.StoredTask {
	t.Helper()
	stored, err := s.Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestCreateAndGet(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f, WithOrigin("replica-1"))
	ctx := as(t.Context(), "alice")

	if v := mustCreate(t, s, ctx, plainTask()); v != 1 {
		t.Errorf("version %d, want 1", v)
	}
	want := &taskstore.StoredTask{Task: plainTask(), Version: 1, User: "alice"}
	got := mustGet(t, s, ctx, "task-1")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"task TASK_STATE_INPUT_REQUIRED"}, f.events("", "task-1")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if origin := f.tasks[key{"", "task-1"}].origins[0]; origin != "replica-1" {
		t.Errorf("origin %q", origin)
	}

	// What the caller does to the task afterwards is its own business.
	got.Task.Metadata["k"] = "changed"
	got.Task.Artifacts[0].Parts[1].Content.(a2a.Raw)[0]++
	if diff := cmp.Diff(want, mustGet(t, s, ctx, "task-1")); diff != "" {
		t.Errorf("the copy was not private (-want +got):\n%s", diff)
	}

	_, err := s.Create(ctx, plainTask())
	wantError(t, err, taskstore.ErrTaskAlreadyExists)
	_, err = s.Create(as(t.Context(), "bob"), plainTask())
	wantError(t, err, taskstore.ErrTaskAlreadyExists)
}

func TestRefusedBeforeTheWrite(t *testing.T) {
	t.Parallel()
	s := newStore(newFake())
	ctx := as(t.Context(), "alice")
	task := plainTask()
	task.Metadata["at"] = time.Now()
	_, err := s.Create(ctx, task)
	wantError(t, err, a2a.ErrInvalidParams)
	if !strings.Contains(err.Error(), `metadata["at"]`) {
		t.Errorf("error %q does not name the field", err)
	}
	_, err = s.Get(ctx, "task-1")
	wantError(t, err, a2a.ErrTaskNotFound)
	_, err = s.Create(ctx, nil)
	wantError(t, err, a2a.ErrInvalidParams)
}

func TestGetOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newStore(newFake())
	mustCreate(t, s, as(t.Context(), "alice"), plainTask())
	var texts []string
	for _, id := range []a2a.TaskID{"unknown", "task-1", "", "a\x00b", "\xff", a2a.TaskID(strings.Repeat("x", 257))} {
		_, err := s.Get(as(t.Context(), "bob"), id)
		wantError(t, err, a2a.ErrTaskNotFound)
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("%q tells more than %q", text, texts[0])
		}
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	secret := errors.New("token expired")
	withoutUser, call := a2asrv.NewCallContext(t.Context(), nil)
	call.User = nil
	anonymous, _ := a2asrv.NewCallContext(t.Context(), nil)
	fixed := func(name string, err error) Option {
		return WithAuthenticator(func(context.Context) (string, error) { return name, err })
	}
	tests := []struct {
		name  string
		ctx   context.Context
		opts  []Option
		scope *taskstorev1.Scope
		err   error
	}{
		{"user of the call", as(t.Context(), "alice"), nil, &taskstorev1.Scope{Owner: proto.String("alice")}, nil},
		{"anonymous", anonymous, nil, &taskstorev1.Scope{Owner: proto.String("")}, nil},
		{"restored without a user", withoutUser, nil, &taskstorev1.Scope{Owner: proto.String("")}, nil},
		{"no call context", t.Context(), nil, nil, a2a.ErrUnauthenticated},
		{"authenticator", t.Context(), []Option{fixed("bob", nil)}, &taskstorev1.Scope{Owner: proto.String("bob")}, nil},
		{"authenticator fails", t.Context(), []Option{fixed("", secret)}, nil, a2a.ErrUnauthenticated},
		{"authenticator denies", t.Context(), []Option{fixed("", a2a.ErrUnauthorized)}, nil, a2a.ErrUnauthorized},
		{"nil authenticator", as(t.Context(), "alice"), []Option{WithAuthenticator(nil)}, &taskstorev1.Scope{Owner: proto.String("alice")}, nil},
		{"fixed tenant", as(t.Context(), "alice"), []Option{WithTenant("acme")}, &taskstorev1.Scope{Tenant: "acme", Owner: proto.String("alice")}, nil},
		{"tenant fails", as(t.Context(), "alice"), []Option{WithTenantFrom(func(context.Context) (string, error) { return "", secret })}, nil, a2a.ErrUnauthenticated},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			var scopes []*taskstorev1.Scope
			f.before = func(_ context.Context, req proto.Message) error {
				scopes = append(scopes, req.(interface{ GetScope() *taskstorev1.Scope }).GetScope())
				return nil
			}
			s := newStore(f, tc.opts...)
			_, createErr := s.Create(tc.ctx, plainTask())
			_, updateErr := s.Update(tc.ctx, &taskstore.UpdateRequest{Task: plainTask()})
			_, getErr := s.Get(tc.ctx, "task-1")
			for _, err := range []error{createErr, updateErr, getErr} {
				if !errors.Is(err, tc.err) {
					t.Errorf("error %v, want %v", err, tc.err)
				}
			}
			if want := 3; tc.err == nil && len(scopes) != want {
				t.Errorf("%d calls, want %d", len(scopes), want)
			}
			for _, scope := range scopes {
				if !proto.Equal(scope, tc.scope) {
					t.Errorf("scope %v, want %v", scope, tc.scope)
				}
			}
		})
	}
}

// The tenant of a request reaches the store by way of the call context.
func TestTenantOfTheCall(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := newHandler(nil, newStore(f, WithAuthenticator(func(context.Context) (string, error) { return "alice", nil })))
	var tenant string
	f.before = func(_ context.Context, req proto.Message) error {
		tenant = req.(*taskstorev1.GetRequest).GetScope().GetTenant()
		return nil
	}
	_, err := h.GetTask(t.Context(), &a2a.GetTaskRequest{Tenant: "acme", ID: "t"})
	wantError(t, err, a2a.ErrTaskNotFound)
	if tenant != "acme" {
		t.Errorf("tenant %q", tenant)
	}
}

type ctxKey struct{}

// A write ignores that the caller's context has ended, keeps its values, and has a deadline of its own.
func TestWritesOutliveTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(f, WithWriteTimeout(7*time.Second), WithAuthenticator(func(ctx context.Context) (string, error) {
			return "alice", ctx.Err()
		}))
		f.before = func(ctx context.Context, _ proto.Message) error {
			deadline, ok := ctx.Deadline()
			if !ok || time.Until(deadline) != 7*time.Second {
				t.Errorf("deadline in %v, %v", time.Until(deadline), ok)
			}
			if ctx.Value(ctxKey{}) != "value" {
				t.Error("the values of the context are lost")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "value"))
		cancel()
		v := mustCreate(t, s, ctx, plainTask())
		if _, err := s.Update(ctx, &taskstore.UpdateRequest{Task: plainTask(), PrevVersion: v}); err != nil {
			t.Error(err)
		}
	})
}

// A service that never answers costs the write timeout, and is not mistaken for a deadline of the caller.
func TestWriteTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := newStore(f, WithWriteTimeout(0))
		f.before = func(ctx context.Context, _ proto.Message) error {
			<-ctx.Done()
			return ctx.Err()
		}
		start := time.Now()
		_, err := s.Create(as(t.Context(), "alice"), plainTask())
		wantError(t, err, a2a.ErrServerError)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v looks like the caller's deadline", err)
		}
		if took := time.Since(start); took != DefaultWriteTimeout {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestReadsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	s := newStore(newFake())
	ctx, cancel := context.WithCancel(as(t.Context(), "alice"))
	cancel()
	_, err := s.Get(ctx, "t")
	wantError(t, err, context.Canceled)
	_, err = s.List(ctx, &a2a.ListTasksRequest{})
	wantError(t, err, context.Canceled)
}

func TestVersionZeroIsNeverReturned(t *testing.T) {
	t.Parallel()
	if v, err := versionOf(0); err == nil {
		t.Errorf("versionOf(0) = %v", v)
	}
}
