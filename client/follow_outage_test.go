package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// silent opens a stream and says no more.
func silent(_ int, _ *taskstorev1.ReadEventsRequest, stream eventStream) error {
	if err := stream.Send(opened(1, 0)); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func TestFollowOutage(t *testing.T) {
	t.Parallel()
	live, head := &taskstorev1.ReadEventsRequest{}, &taskstorev1.ReadEventsRequest{Until: taskstorev1.ReadUntil_READ_UNTIL_HEAD}
	tests := map[string]struct {
		req  *taskstorev1.ReadEventsRequest
		opts []client.FollowOption
		want error
		took time.Duration
	}{
		"live reads wait":            {live, nil, context.DeadlineExceeded, time.Hour},
		"live reads, bounded":        {live, []client.FollowOption{client.MaxOutage(time.Minute)}, client.ErrUnavailable, time.Minute},
		"bounded reads, until ctx":   {head, nil, context.DeadlineExceeded, time.Hour},
		"bounded reads give up":      {head, []client.FollowOption{client.MaxOutage(client.DefaultRetryBudget)}, client.ErrUnavailable, client.DefaultRetryBudget},
		"bounded reads, told not to": {head, []client.FollowOption{client.MaxOutage(0)}, context.DeadlineExceeded, time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, _ *fake, n *network) {
				n.down = func() bool { return true }
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				_, err := collect(connect(t, n).Follow(ctx, tt.req, tt.opts...))
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if took := time.Since(start); took < tt.took-2*time.Second || took > tt.took+time.Second {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
	t.Run("no deadline", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, _ *fake, n *network) {
			n.down = func() bool { return true }
			_, err := collect(connect(t, n).Follow(t.Context(), head))
			if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("error %v, want %v and the cause", err, client.ErrUnavailable)
			}
		})
	})
	t.Run("quiet is no outage", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, f *fake, n *network) {
			f.readEvents = silent
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := collect(connect(t, n).Follow(ctx, live, client.MaxOutage(time.Second)))
			if !errors.Is(err, context.DeadlineExceeded) || len(f.calls["ReadEvents"]) != 1 {
				t.Errorf("error %v after %d streams", err, len(f.calls["ReadEvents"]))
			}
		})
	})
	t.Run("quiet, then a break", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, f *fake, n *network) {
			f.readEvents = func(n int, _ *taskstorev1.ReadEventsRequest, stream eventStream) error {
				if err := stream.Send(opened(1, 0)); err != nil {
					return err
				}
				if n == 1 {
					<-time.After(time.Hour)
					return gone
				}
				return stream.Send(end(taskstorev1.EndReason_END_REASON_TERMINAL, 0))
			}
			if _, err := collect(connect(t, n).Follow(t.Context(), live, client.MaxOutage(time.Minute))); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("swallowed request", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T, f *fake, n *network) {
			f.readEvents = func(n int, _ *taskstorev1.ReadEventsRequest, stream eventStream) error {
				if n == 1 {
					<-stream.Context().Done()
					return stream.Context().Err()
				}
				return errors.Join(stream.Send(opened(1, 0)), stream.Send(end(taskstorev1.EndReason_END_REASON_TERMINAL, 0)))
			}
			if _, err := collect(connect(t, n).Follow(t.Context(), live)); err != nil {
				t.Error(err)
			}
		})
	})
}

// A server with gRPC's stock keepalive rules hangs up on a client that probes a quiet stream; that must not show.
func TestFollowUnderStockKeepaliveEnforcement(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		f.readEvents = silent
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		breaks := 0
		_, err := collect(connect(t, n).Follow(ctx, &taskstorev1.ReadEventsRequest{}, client.OnBreak(func(error) { breaks++ })))
		if !errors.Is(err, context.DeadlineExceeded) || breaks == 0 {
			t.Errorf("error %v after %d breaks", err, breaks)
		}
	}, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{}))
}
