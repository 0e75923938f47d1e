package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// A hundred times, the store is killed at a random moment under load and started again. Every write that was acknowledged is
// there, each exactly once; task and log agree; readers go on.
func TestKillUnderLoad(t *testing.T) {
	const kills, writers = 100, 8
	p := newProcess(t)
	p.start()

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for i := range writers {
		w := &killWriter{t: t, id: fmt.Sprintf("task-%d", i), conn: p.client()}
		wg.Go(func() { w.write(ctx, enough) })
		wg.Go(func() { w.follow(ctx) })
	}
	for range kills {
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(120 * time.Millisecond)))):
		case <-ctx.Done():
			t.Fatal("the test ran out of time")
		}
		p.kill()
		p.start()
	}
	close(enough)
	wg.Wait()
}

// killWriter writes one task, version by version, each with an event that says which.
type killWriter struct {
	t    *testing.T
	id   string
	conn *client.Client
}

func (w *killWriter) write(ctx context.Context, enough <-chan struct{}) {
	version := int64(0)
	for done := false; !done; {
		select {
		case <-enough:
			done = true
		default:
		}
		state := taskstorev1.TaskState_TASK_STATE_WORKING
		if done {
			state = taskstorev1.TaskState_TASK_STATE_COMPLETED
		}
		reply, err := w.conn.Save(ctx, w.save(version, state))
		if err != nil {
			w.t.Errorf("%s: save at version %d: %v", w.id, version, err)
			return
		}
		if reply.GetVersion() != version+1 || reply.GetSeq() != version+1 {
			w.t.Errorf("%s: save at version %d made version %d, seq %d", w.id, version, reply.GetVersion(), reply.GetSeq())
			return
		}
		version++
	}
	got, err := w.conn.Get(ctx, &taskstorev1.GetRequest{TaskId: w.id})
	if err != nil {
		w.t.Errorf("%s: get: %v", w.id, err)
		return
	}
	if got.GetVersion() != version || got.GetLastSeq() != version || got.GetFinalSeq() != version {
		w.t.Errorf("%s: stored version %d, last seq %d, final seq %d; acknowledged %d", w.id, got.GetVersion(), got.GetLastSeq(), got.GetFinalSeq(), version)
	}
	parts := got.GetTask().GetArtifacts()[0].GetParts()
	if int64(len(parts)) != version {
		w.t.Fatalf("%s: %d parts after %d writes", w.id, len(parts), version)
	}
	for i, p := range parts {
		if want := chunk(int64(i)); p.GetText() != want {
			w.t.Fatalf("%s: part %d is %q", w.id, i, p.GetText())
		}
	}
	w.t.Logf("%s: %d writes", w.id, version)
}

func chunk(version int64) string { return fmt.Sprintf("chunk behind version %d", version) }

// save creates the task, or adds a chunk by a delta.
func (w *killWriter) save(version int64, state taskstorev1.TaskState) *taskstorev1.SaveRequest {
	part := &taskstorev1.Part{Content: &taskstorev1.Part_Text{Text: chunk(version)}}
	status := &taskstorev1.TaskStatus{State: state}
	event := &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_ArtifactUpdate{ArtifactUpdate: &taskstorev1.TaskArtifactUpdateEvent{
		TaskId: w.id, Append: version > 0, Artifact: &taskstorev1.Artifact{ArtifactId: "a", Parts: []*taskstorev1.Part{part}},
	}}}
	req := &taskstorev1.SaveRequest{Events: []*taskstorev1.EventInput{{Input: &taskstorev1.EventInput_Event{Event: event}}}}
	if version == 0 {
		req.Write = &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{
			Id: w.id, Status: status, Artifacts: []*taskstorev1.Artifact{{ArtifactId: "a", Parts: []*taskstorev1.Part{part}}},
		}}
		req.Precondition = &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Absent{Absent: &emptypb.Empty{}}}
		return req
	}
	base := int32(version)
	req.Write = &taskstorev1.SaveRequest_Delta{Delta: &taskstorev1.TaskDelta{
		TaskId:         w.id,
		HeadChange:     &taskstorev1.TaskDelta_Status{Status: status},
		ArtifactChange: &taskstorev1.TaskDelta_AppendParts{AppendParts: &taskstorev1.AppendParts{ArtifactId: "a", BaseParts: &base, Parts: []*taskstorev1.Part{part}}},
	}}
	req.Precondition = &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Version{Version: version}}
	return req
}

// follow reads the log while it grows, and returns where it ended.
func (w *killWriter) follow(ctx context.Context, opts ...client.FollowOption) int64 {
	last := int64(0)
	for event, err := range w.conn.Follow(ctx, &taskstorev1.ReadEventsRequest{TaskId: w.id}, opts...) {
		if err != nil {
			w.t.Errorf("%s: follow behind seq %d: %v", w.id, last, err)
			return last
		}
		text := event.GetEvent().GetArtifactUpdate().GetArtifact().GetParts()[0].GetText()
		if event.GetSeq() != last+1 || event.GetVersion() != last+1 || text != chunk(last) {
			w.t.Errorf("%s: behind seq %d comes seq %d, version %d, %q", w.id, last, event.GetSeq(), event.GetVersion(), text)
			return last
		}
		last = event.GetSeq()
	}
	w.t.Logf("%s: followed to seq %d", w.id, last)
	return last
}
