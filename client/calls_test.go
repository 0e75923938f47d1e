package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// failing makes the first n calls fail with err.
func failing(n int, err error) func(context.Context, string, int) error {
	return func(_ context.Context, _ string, call int) error {
		if call <= n {
			return err
		}
		return nil
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		scope := &taskstorev1.Scope{Tenant: "acme", Owner: proto.String("")}
		c := connect(t, n, client.WithScope(scope), client.WithOrigin("replica-1"), client.WithToken("secret"))
		var authorization []string
		f.before = func(ctx context.Context, _ string, _ int) error {
			md, _ := metadata.FromIncomingContext(ctx)
			authorization = md.Get("authorization")
			return nil
		}
		ctx := t.Context()

		req := put("t")
		req.ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 0x01})
		before := proto.CloneOf(req)
		for range 2 {
			if _, err := c.Save(ctx, req); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(before, req, protocmp.Transform()); diff != "" {
			t.Errorf("the caller's request changed (-before +after):\n%s", diff)
		}
		saves := requests[*taskstorev1.SaveRequest](f, "Save")
		for i, got := range saves {
			if len(got.GetWriteId()) < 20 || len(got.GetWriteId()) > 64 {
				t.Errorf("save %d: write id %q", i, got.GetWriteId())
			}
			want := proto.CloneOf(before)
			want.Scope, want.Origin, want.WriteId = scope, "replica-1", got.GetWriteId()
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("save %d (-want +got):\n%s", i, diff)
			}
		}
		if saves[0].GetWriteId() == saves[1].GetWriteId() {
			t.Error("two Saves share a write id")
		}
		if diff := cmp.Diff([]string{"Bearer secret"}, authorization); diff != "" {
			t.Errorf("authorization (-want +got):\n%s", diff)
		}

		if _, err := c.AppendEvent(ctx, &taskstorev1.AppendEventRequest{TaskId: "t"}); err != nil {
			t.Fatal(err)
		}
		if got := requests[*taskstorev1.AppendEventRequest](f, "AppendEvent")[0]; got.GetWriteId() == "" ||
			got.GetOrigin() != "replica-1" || !proto.Equal(got.GetScope(), scope) {
			t.Errorf("append: %v", got)
		}

		for method, call := range map[string]func() error{
			"Get":        func() error { _, err := c.Get(ctx, &taskstorev1.GetRequest{TaskId: "t"}); return err },
			"List":       func() error { _, err := c.List(ctx, nil); return err },
			"Delete":     func() error { _, err := c.Delete(ctx, &taskstorev1.DeleteRequest{TaskId: "t"}); return err },
			"ClaimKey":   func() error { _, err := c.ClaimKey(ctx, &taskstorev1.ClaimKeyRequest{Key: "k"}); return err },
			"ReleaseKey": func() error { _, err := c.ReleaseKey(ctx, &taskstorev1.ReleaseKeyRequest{Key: "k"}); return err },
		} {
			if err := call(); err != nil {
				t.Errorf("%s: %v", method, err)
				continue
			}
			got := requests[interface {
				proto.Message
				GetScope() *taskstorev1.Scope
			}](f, method)[0]
			if !proto.Equal(got.GetScope(), scope) {
				t.Errorf("%s: scope %v", method, got.GetScope())
			}
		}
	})
}

func TestGivenFieldsStay(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		c := connect(t, n, client.WithScope(&taskstorev1.Scope{Tenant: "acme"}), client.WithOrigin("replica-1"))
		req := put("t")
		req.Scope, req.WriteId, req.Origin = &taskstorev1.Scope{}, "w", "o"
		if _, err := c.Save(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(req, requests[*taskstorev1.SaveRequest](f, "Save")[0], protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	retryInfo := func(d time.Duration) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
	}
	tests := map[string]struct {
		err      error
		times    int
		attempts int
		want     error         // nil: the call succeeds
		atLeast  time.Duration // until its end
	}{
		"unavailable":                      {problem(codes.Unavailable, "DRAINING", nil), 5, 6, nil, 0},
		"unavailable, made by a proxy":     {status.Error(codes.Unavailable, "no upstream"), 5, 6, nil, 0},
		"unavailable, with RetryInfo":      {problem(codes.Unavailable, "DRAINING", nil, retryInfo(3*time.Second)), 2, 3, nil, 6 * time.Second},
		"RetryInfo beyond the budget":      {problem(codes.Unavailable, "DRAINING", nil, retryInfo(time.Minute)), 1, 1, client.ErrUnavailable, 0},
		"exhausted":                        {problem(codes.ResourceExhausted, "MEMORY_LIMIT", nil), 1, 1, client.ErrResourceExhausted, 0},
		"exhausted, with RetryInfo":        {problem(codes.ResourceExhausted, "RATE_LIMIT", nil, retryInfo(time.Second)), 2, 3, nil, 2 * time.Second},
		"canceled by the server":           {status.Error(codes.Canceled, "context canceled"), 2, 3, nil, 0},
		"deadline of the server":           {status.Error(codes.DeadlineExceeded, "too slow"), 2, 3, nil, 0},
		"stream reset":                     {status.Error(codes.Internal, "stream terminated by RST_STREAM"), 3, 4, nil, 0},
		"stream reset, for ever":           {status.Error(codes.Internal, "stream terminated by RST_STREAM"), 99, 4, nil, 0},
		"a bug of the store":               {problem(codes.Internal, "INTERNAL", nil), 1, 1, nil, 0},
		"conflict":                         {problem(codes.Aborted, "VERSION_CONFLICT", nil), 1, 1, client.ErrVersionConflict, 0},
		"conflict, in spite of RetryInfo":  {problem(codes.Aborted, "VERSION_CONFLICT", nil, retryInfo(time.Second)), 1, 1, client.ErrVersionConflict, 0},
		"terminal":                         {problem(codes.FailedPrecondition, "TERMINAL_STATE", nil), 1, 1, client.ErrTerminalState, 0},
		"not found":                        {problem(codes.NotFound, "TASK_NOT_FOUND", nil), 1, 1, client.ErrNotFound, 0},
		"invalid":                          {problem(codes.InvalidArgument, "INVALID_ARGUMENT", nil), 1, 1, client.ErrInvalidArgument, 0},
		"unauthenticated":                  {problem(codes.Unauthenticated, "UNAUTHENTICATED", nil), 1, 1, client.ErrUnauthenticated, 0},
		"too large":                        {problem(codes.ResourceExhausted, "TASK_TOO_LARGE", nil), 1, 1, client.ErrTooLarge, 0},
		"unavailable longer than a budget": {problem(codes.Unavailable, "DRAINING", nil), 1 << 20, 0, client.ErrUnavailable, 8 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fake, n *network) {
				c := connect(t, n)
				f.before = failing(tt.times, tt.err)
				start := time.Now()
				_, err := c.Save(t.Context(), put("t"))
				fails := tt.attempts <= tt.times
				if (err != nil) != fails || (tt.want != nil && !errors.Is(err, tt.want)) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				saves := requests[*taskstorev1.SaveRequest](f, "Save")
				if tt.attempts > 0 && len(saves) != tt.attempts {
					t.Errorf("%d attempts, want %d", len(saves), tt.attempts)
				}
				for _, s := range saves {
					if s.GetWriteId() != saves[0].GetWriteId() {
						t.Errorf("the write id changed from %q to %q", saves[0].GetWriteId(), s.GetWriteId())
					}
				}
				var e *client.Error
				if err != nil && (!errors.As(err, &e) || e.Attempts != len(saves)) {
					t.Errorf("%d attempts in %#v, want %d", e.Attempts, e, len(saves))
				}
				if took := time.Since(start); took < tt.atLeast || took > client.DefaultRetryBudget {
					t.Errorf("took %v, want at least %v and at most the budget", took, tt.atLeast)
				}
			})
		})
	}
}

// The reply is lost with the connection, after the write took effect.
func TestLostReply(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		c := connect(t, n)
		f.after = func(_ context.Context, _ string, call int) error {
			if call <= 3 {
				f.cut()
			}
			return nil
		}
		resp, err := c.Save(t.Context(), put("t"))
		if err != nil {
			t.Fatal(err)
		}
		if !resp.GetReplayed() || resp.GetVersion() != 1 || f.writes != 1 {
			t.Errorf("%v after %d writes, want version 1 replayed after one", resp, f.writes)
		}
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		start := time.Now()
		n.down = func() bool { return time.Since(start) < 6*time.Second }
		c := connect(t, n)
		if _, err := c.Save(t.Context(), put("t")); err != nil {
			t.Fatal(err)
		}
		if f.writes != 1 {
			t.Errorf("%d writes, want 1", f.writes)
		}
	})
}

func TestOutageBeyondTheBudget(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *fake, n *network) {
		n.down = func() bool { return true }
		c := connect(t, n, client.WithRetryBudget(3*time.Second))
		start := time.Now()
		_, err := c.Save(t.Context(), put("t"))
		if !errors.Is(err, client.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, client.ErrUnavailable)
		}
		if !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error %q does not say why", err)
		}
		if took := time.Since(start); took > 3*time.Second+time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestCallerContext(t *testing.T) {
	t.Parallel()
	t.Run("deadline in an outage", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, _ *fake, n *network) {
			n.down = func() bool { return true }
			c := connect(t, n)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			_, err := c.Get(ctx, &taskstorev1.GetRequest{TaskId: "t"})
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took < 55*time.Second || took > time.Minute+time.Millisecond {
				t.Errorf("took %v, want the caller's minute", took)
			}
		})
	})
	t.Run("deadline in a call", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, f *fake, n *network) {
			f.before = func(ctx context.Context, _ string, _ int) error { <-ctx.Done(); return ctx.Err() }
			c := connect(t, n)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Save(ctx, put("t")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
			}
		})
	})
	t.Run("cancelled in a call", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, f *fake, n *network) {
			ctx, cancel := context.WithCancel(t.Context())
			f.before = func(ctx context.Context, _ string, _ int) error { cancel(); <-ctx.Done(); return ctx.Err() }
			c := connect(t, n)
			if _, err := c.Save(ctx, put("t")); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
		})
	})
	t.Run("cancelled between attempts", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, f *fake, n *network) {
			f.before = failing(1<<20, problem(codes.Unavailable, "DRAINING", nil))
			c := connect(t, n, client.WithBackoff(time.Hour, time.Hour), client.WithRetryBudget(24*time.Hour))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, cancel)
			_, err := c.Save(ctx, put("t"))
			if !errors.Is(err, context.Canceled) || !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("error %v, want it to be both the cancellation and what was going on", err)
			}
		})
	})
	t.Run("closed between attempts", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, f *fake, n *network) {
			f.before = failing(1<<20, problem(codes.Unavailable, "DRAINING", nil))
			c := connect(t, n, client.WithBackoff(time.Hour, time.Hour), client.WithRetryBudget(24*time.Hour))
			time.AfterFunc(time.Minute, func() { _ = c.Close() })
			for range 2 {
				if _, err := c.Save(t.Context(), put("t")); !errors.Is(err, client.ErrClosed) {
					t.Errorf("error %v, want %v", err, client.ErrClosed)
				}
			}
		})
	})
}

// A connection that swallows the request costs one attempt, not the budget.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		f.before = func(ctx context.Context, _ string, call int) error {
			if call == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		c := connect(t, n)
		start := time.Now()
		if _, err := c.Save(t.Context(), put("t")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < client.DefaultAttemptTimeout || took > client.DefaultAttemptTimeout+time.Second {
			t.Errorf("took %v, want little more than %v", took, client.DefaultAttemptTimeout)
		}
	})
}

// A store that needs longer than an attempt is given more time with each one.
func TestSlowCallGetsThrough(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		f.before = func(ctx context.Context, _ string, _ int) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(6 * time.Second):
				return nil
			}
		}
		c := connect(t, n, client.WithRetryBudget(time.Minute))
		if _, err := c.Save(t.Context(), put("t")); err != nil {
			t.Fatal(err)
		}
		if calls := len(requests[*taskstorev1.SaveRequest](f, "Save")); calls != 2 {
			t.Errorf("%d attempts, want 2", calls)
		}
	})
}

func TestGetWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		f.tasks["t"] = &taskstorev1.StoredTask{Version: 1}
		f.before = func(ctx context.Context, _ string, call int) error {
			if call == 1 {
				<-time.After(20 * time.Second)
				return problem(codes.Unavailable, "DRAINING", nil)
			}
			<-time.After(requests[*taskstorev1.GetRequest](f, "Get")[1].GetWait().GetTimeout().AsDuration())
			return nil
		}
		c := connect(t, n)
		req := &taskstorev1.GetRequest{TaskId: "t", Wait: &taskstorev1.Wait{NewerThan: 1, Timeout: durationpb.New(time.Minute)}}
		start := time.Now()
		if _, err := c.Get(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < time.Minute-time.Millisecond || took > time.Minute+time.Millisecond {
			t.Errorf("took %v, want the wait of a minute in all", took)
		}
		if req.GetWait().GetTimeout().AsDuration() != time.Minute {
			t.Error("the caller's request changed")
		}
	})
}

// What cannot be encoded is the caller's mistake: it is not taken for a broken stream.
func TestUnencodable(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		c := connect(t, n)
		_, err := c.Save(t.Context(), put("\xff"))
		var e *client.Error
		if !errors.Is(err, client.ErrInvalidArgument) || !errors.As(err, &e) || e.Attempts != 1 {
			t.Errorf("error %v", err)
		}
	})
}

func TestMessageSizes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		c := connect(t, n)
		req := put("t")
		part := &taskstorev1.Part{Content: &taskstorev1.Part_Raw{Raw: make([]byte, 16<<20)}}
		req.GetTask().Artifacts = []*taskstorev1.Artifact{{ArtifactId: "a", Parts: []*taskstorev1.Part{part}}}
		if _, err := c.Save(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), &taskstorev1.GetRequest{TaskId: "t"}); err != nil {
			t.Fatal(err)
		}
		part.Content = &taskstorev1.Part_Raw{Raw: make([]byte, client.DefaultMaxMessageSize)}
		if _, err := c.Save(t.Context(), req); !errors.Is(err, client.ErrResourceExhausted) {
			t.Errorf("error %v, want %v", err, client.ErrResourceExhausted)
		}
	})
}

func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		f.before = failing(9, problem(codes.Unavailable, "DRAINING", nil))
		c := connect(t, n, client.WithMaxAttempts(2))
		if _, err := c.Save(t.Context(), put("t")); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("error %v, want %v", err, client.ErrUnavailable)
		}
		if calls := len(requests[*taskstorev1.SaveRequest](f, "Save")); calls != 2 {
			t.Errorf("%d attempts, want 2", calls)
		}
	})
}
