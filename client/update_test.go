package client_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// increment counts in a field of the task.
func increment(task *taskstorev1.Task) error {
	n, _ := strconv.Atoi(task.GetContextId())
	task.ContextId = strconv.Itoa(n + 1)
	return nil
}

func TestUpdateLosesNoChange(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		c := connect(t, n)
		if _, err := c.Save(t.Context(), put("t")); err != nil {
			t.Fatal(err)
		}
		const writers, rounds = 8, 10
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range rounds {
					if _, _, err := c.Update(t.Context(), nil, "t", increment); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		stored := f.tasks["t"]
		if want := strconv.Itoa(writers * rounds); stored.GetTask().GetContextId() != want || stored.GetVersion() != writers*rounds+1 {
			t.Errorf("stored %v, want a count of %s", stored, want)
		}
	})
}

func TestUpdateResult(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fake, n *network) {
		c := connect(t, n)
		f.tasks["t"] = &taskstorev1.StoredTask{Task: &taskstorev1.Task{Id: "t"}, Version: 4}
		scope := &taskstorev1.Scope{Tenant: "acme"}
		task, saved, err := c.Update(t.Context(), scope, "t", increment,
			client.UpdateEvents(func(task *taskstorev1.Task) []*taskstorev1.EventInput {
				if task.GetContextId() != "1" {
					t.Errorf("events are made from %v, before the change", task)
				}
				return []*taskstorev1.EventInput{{Input: &taskstorev1.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}}}
			}))
		if err != nil {
			t.Fatal(err)
		}
		if task.GetContextId() != "1" || saved.GetVersion() != 5 {
			t.Errorf("%v, %v", task, saved)
		}
		req := requests[*taskstorev1.SaveRequest](f, "Save")[0]
		if req.GetScope().GetTenant() != "acme" || req.GetPrecondition().GetVersion() != 4 || len(req.GetEvents()) != 1 {
			t.Errorf("saved with %v", req)
		}
	})
}

func TestUpdateErrors(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	tests := map[string]struct {
		id     string
		before func(context.Context, string, int) error
		change error
		want   error
	}{
		"absent":            {id: "x", want: client.ErrNotFound},
		"refused by change": {id: "t", change: stop, want: stop},
		"terminal": {id: "t", before: func(_ context.Context, method string, _ int) error {
			if method == "Save" {
				return problem(codes.FailedPrecondition, "TERMINAL_STATE", nil)
			}
			return nil
		}, want: client.ErrTerminalState},
		"always overtaken": {id: "t", before: func(_ context.Context, method string, _ int) error {
			if method == "Save" {
				return problem(codes.Aborted, "VERSION_CONFLICT", nil)
			}
			return nil
		}, want: context.DeadlineExceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fake, n *network) {
				f.tasks["t"] = &taskstorev1.StoredTask{Task: &taskstorev1.Task{Id: "t"}, Version: 1}
				f.before = tt.before
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c := connect(t, n)
				_, _, err := c.Update(ctx, nil, tt.id, func(*taskstorev1.Task) error { return tt.change })
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if f.writes != 0 {
					t.Errorf("%d writes", f.writes)
				}
				if saves := len(f.calls["Save"]); (saves > 1) != (tt.want == context.DeadlineExceeded) {
					t.Errorf("%d rounds", saves)
				}
			})
		})
	}
}
