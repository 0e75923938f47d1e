package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Who follows a task sees, in one line, that the store is away, and then the events that come once it is back.
func TestFollowingSaysThatTheStoreIsAway(t *testing.T) {
	p := newProcess(t)
	p.start()
	append1 := func() {
		t.Helper()
		_, err := p.client().AppendEvent(t.Context(), &taskstorev1.AppendEventRequest{TaskId: "t1", Events: []*taskstorev1.StreamResponse{{
			Payload: &taskstorev1.StreamResponse_StatusUpdate{StatusUpdate: &taskstorev1.TaskStatusUpdateEvent{
				TaskId: "t1", ContextId: "c1", Status: &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_WORKING},
			}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	append1()
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr output
	code := make(chan int, 1)
	go func() {
		code <- run(&env{ctx: ctx, stdout: &stdout, stderr: &stderr, kill: make(chan struct{})},
			[]string{"events", "t1", "--follow", "--address", p.address})
	}()
	events := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); strings.Count(stdout.String(), " working") < n; {
			if time.Now().After(deadline) {
				t.Fatalf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	events(1)
	p.kill()
	for deadline := time.Now().Add(30 * time.Second); !stderr.contains("the stream broke"); {
		if time.Now().After(deadline) {
			t.Fatalf("stderr %q", stderr.String())
		}
		<-time.After(5 * time.Millisecond)
	}
	p.start()
	append1()
	events(2)
	cancel()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	if got := stderr.String(); strings.Count(got, "\n") != 1 {
		t.Errorf("stderr %q", got)
	}
}

func TestDurationsInTheLogHaveAUnit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	flags := logFlags{LogFormat: "json"}
	flags.logger(&out).Info("call", slog.Duration("duration", 1500*time.Microsecond))
	if !strings.Contains(out.String(), `"duration":"1.5ms"`) {
		t.Error(out.String())
	}
}
