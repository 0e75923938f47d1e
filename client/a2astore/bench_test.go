package a2astore

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// void accepts every write, and weighs it as gRPC would.
type void struct {
	service
	version, bytes int64
}

func (v *void) Save(_ context.Context, req *taskstorev1.SaveRequest, _ ...grpc.CallOption) (*taskstorev1.SaveResponse, error) {
	b, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	v.version++
	v.bytes += int64(len(b))
	return &taskstorev1.SaveResponse{Version: v.version}, nil
}

// copyOf is how a2a-go copies what it hands to a store.
func copyOf[T any](t testing.TB, v *T) *T {
	t.Helper()
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(v); err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := gob.NewDecoder(&buf).Decode(out); err != nil {
		t.Fatal(err)
	}
	return out
}

func longTask(chunks, history int) *a2a.Task {
	task := &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}
	for i := range history {
		m := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(fmt.Sprintf("%100d", i)))
		m.TaskID, m.ContextID = task.ID, task.ContextID
		task.History = append(task.History, m)
	}
	if chunks > 0 {
		task.Artifacts = []*a2a.Artifact{{ID: "a"}}
	}
	for i := range chunks {
		task.Artifacts[0].Parts = append(task.Artifacts[0].Parts, kilobyte(i))
	}
	return task
}

func kilobyte(i int) *a2a.Part { return a2a.NewTextPart(fmt.Sprint(i, strings.Repeat("x", 1000))) }

// appended is what a2a-go makes of a chunk, changed what it makes of a status.
func appended(task *a2a.Task, i int) a2a.Event {
	task.Artifacts[0].Parts = append(task.Artifacts[0].Parts, kilobyte(i))
	return a2a.NewArtifactUpdateEvent(task, "a", kilobyte(i))
}

func changed(task *a2a.Task, i int) a2a.Event {
	at := time.Unix(int64(i), 0)
	task.Status.Timestamp = &at
	return &a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status}
}

// BenchmarkUpdate is what an update of a task costs in this process, up to the encoded request: with deltas, without, and in
// the store that comes with a2a-go. What a2a-go spends on copies of the task before each update is not in it.
func BenchmarkUpdate(b *testing.B) {
	const round = 20
	for _, bc := range []struct {
		name            string
		chunks, history int
		next            func(*a2a.Task, int) a2a.Event
	}{
		{"chunk/50", 50, 0, appended}, {"chunk/500", 500, 0, appended}, {"chunk/50+history", 50, 200, appended},
		{"status/1", 0, 1, changed}, {"status/200", 0, 200, changed}, {"status/600", 0, 600, changed},
	} {
		base := longTask(bc.chunks, bc.history)
		var updates [round]taskstore.UpdateRequest
		task := base
		for i := range updates {
			task = copyOf(b, task)
			updates[i].Event = bc.next(task, i)
			updates[i].Task = copyOf(b, task)
		}
		run := func(open func() (taskstore.Store, *void)) func(*testing.B) {
			return func(b *testing.B) {
				b.ReportAllocs()
				ctx := as(b.Context(), "alice")
				var s taskstore.Store
				var sent *void
				var version taskstore.TaskVersion
				var bytes int64
				n := 0
				for b.Loop() {
					if n%round == 0 {
						b.StopTimer()
						s, sent = open()
						var err error
						if version, err = s.Create(ctx, copyOf(b, base)); err != nil {
							b.Fatal(err)
						}
						sent.bytes = 0
						b.StartTimer()
					}
					u := updates[n%round]
					u.PrevVersion = version
					var err error
					if version, err = s.Update(ctx, &u); err != nil {
						b.Fatal(err)
					}
					n++
					if n%round == 0 {
						bytes += sent.bytes
					}
				}
				b.ReportMetric(float64(bytes)/float64(max(n/round*round, 1)), "wire-B/op")
			}
		}
		b.Run(bc.name+"/deltas", run(func() (taskstore.Store, *void) { v := &void{}; return newStore(v), v }))
		b.Run(bc.name+"/whole", run(func() (taskstore.Store, *void) { v := &void{}; return newStore(v, WithMemory(0, 0)), v }))
		b.Run(bc.name+"/inmemory", run(func() (taskstore.Store, *void) { return taskstore.NewInMemory(nil), &void{} }))
	}
}

// BenchmarkStream is what an update costs in this process while an agent streams 500 chunks into one artifact of a task that it
// holds: its parts are the same ones again in the next update.
func BenchmarkStream(b *testing.B) {
	const chunks = 500
	for _, bc := range []struct {
		name string
		size int
	}{{"100B", 100}, {"1KB", 1000}} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := as(b.Context(), "alice")
			s := newStore(&void{})
			text := strings.Repeat("x", bc.size)
			var task *a2a.Task
			var version taskstore.TaskVersion
			for n := 0; b.Loop(); n++ {
				var err error
				if n%chunks == 0 {
					task = &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking},
						Artifacts: []*a2a.Artifact{{ID: "a"}}}
					if version, err = s.Create(ctx, task); err != nil {
						b.Fatal(err)
					}
				}
				parts := a2a.ContentParts{a2a.NewTextPart(text)}
				artifact := *task.Artifacts[0]
				artifact.Parts = append(artifact.Parts, parts...)
				next := *task
				next.Artifacts = []*a2a.Artifact{&artifact}
				task = &next
				if version, err = s.Update(ctx, &taskstore.UpdateRequest{
					Task: task, PrevVersion: version,
					Event: &a2a.TaskArtifactUpdateEvent{
						TaskID: "t", ContextID: "c", Append: true, Artifact: &a2a.Artifact{ID: "a", Parts: parts},
					},
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
