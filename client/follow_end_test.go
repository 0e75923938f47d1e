package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestFollowFinalErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err, want error
	}{
		"not found":         {problem(codes.NotFound, "TASK_NOT_FOUND", nil), client.ErrNotFound},
		"out of range":      {problem(codes.OutOfRange, "LOG_RANGE", nil), client.ErrLogRange},
		"invalid":           {problem(codes.InvalidArgument, "INVALID", nil), client.ErrInvalidArgument},
		"permission denied": {problem(codes.PermissionDenied, "DENIED", nil), client.ErrPermissionDenied},
		"exhausted":         {problem(codes.ResourceExhausted, "STREAM_LIMIT", nil), client.ErrResourceExhausted},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fake, n *network) {
				f.readEvents = play(
					turn{nil, gone},
					turn{[]*taskstorev1.ReadEventsResponse{opened(1, 1), frame(1)}, tt.err},
				)
				got, err := collect(connect(t, n).Follow(t.Context(), &taskstorev1.ReadEventsRequest{}))
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if diff := cmp.Diff([]int64{1}, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Leaving the loop, cancelling and closing all end the stream on the server, too; the bubble fails if anything stays behind.
func TestFollowLetsGo(t *testing.T) {
	t.Parallel()
	serve := func(f *fake) (released chan struct{}) {
		released = make(chan struct{})
		f.readEvents = func(_ int, _ *taskstorev1.ReadEventsRequest, stream eventStream) error {
			defer close(released)
			for seq := int64(1); ; seq++ {
				if err := stream.Send([]*taskstorev1.ReadEventsResponse{opened(1, 0), frame(seq)}[min(seq-1, 1)]); err != nil {
					return err
				}
			}
		}
		return released
	}
	tests := map[string]struct {
		stop func(c *client.Client, cancel func()) (leave bool)
		want error
	}{
		"break":  {func(*client.Client, func()) bool { return true }, nil},
		"cancel": {func(_ *client.Client, cancel func()) bool { cancel(); return false }, context.Canceled},
		"close":  {func(c *client.Client, _ func()) bool { _ = c.Close(); return false }, client.ErrClosed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fake, n *network) {
				released := serve(f)
				ctx, cancel := context.WithCancel(t.Context())
				c := connect(t, n)
				var last error
				for _, err := range c.Follow(ctx, &taskstorev1.ReadEventsRequest{}) {
					if last = err; err == nil && tt.stop(c, cancel) {
						break
					}
				}
				if !errors.Is(last, tt.want) {
					t.Errorf("error %v, want %v", last, tt.want)
				}
				<-released
				cancel()
			})
		})
	}
}
