package a2astore

import (
	"bytes"
	"encoding/gob"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	_ "github.com/a2aproject/a2a-go/v2/a2asrv/taskstore" // registers the types that gob copies
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// wire returns what a reader gets of a message.
func wire[M proto.Message](t testing.TB, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("an accepted message cannot be sent: %v", err)
	}
	out := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatalf("an accepted message cannot be read: %v", err)
	}
	return out
}

// gobCopy copies the way a2a-go does, which is internal to it.
func gobCopy[T any](t testing.TB, v *T) *T {
	t.Helper()
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(*v); err != nil {
		t.Fatalf("gob does not encode what was read: %v", err)
	}
	var out T
	if err := gob.NewDecoder(&buf).Decode(&out); err != nil {
		t.Fatalf("gob does not decode what was read: %v", err)
	}
	return &out
}

// rapid.T has no Context or TempDir, so the helpers take a testing.TB around it.
type rapidTB struct {
	testing.TB
	t *rapid.T
}

func (r rapidTB) Helper()                      {}
func (r rapidTB) Fatalf(f string, args ...any) { r.t.Fatalf(f, args...) }
func equal(t *rapid.T, what string, want, got any, opts ...cmp.Option) {
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateNaNs())...); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestTasksReadBackEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tb := rapidTB{t: t}
		task := drawTask(t)
		pb, err := encodeTask(task.in)
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		read := wire(tb, pb)
		got := decodeTask(read)
		equal(t, "the task changed", task.want, got)
		if ts := got.Status.Timestamp; ts != nil && ts.Location() != time.UTC {
			t.Fatalf("the timestamp is in %v", ts.Location())
		}

		// The SDK copies what it read with gob before it writes it again.
		again, err := encodeTask(gobCopy(tb, got))
		if err != nil {
			t.Fatalf("a copy of what was read is refused: %v", err)
		}
		equal(t, "the task changed by way of gob", read, wire(tb, again), protocmp.Transform())
	})
}

func TestEventsReadBackEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		event := drawEvent(t)
		pb, err := encodeEvent(event.in)
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		got, ok := decodeEvent(wire(rapidTB{t: t}, pb))
		if !ok {
			t.Fatal("an event of an unknown kind")
		}
		equal(t, "the event changed", event.want, got)
	})
}

// The pieces that deltas send are those of the whole task.
func TestPiecesAreThoseOfTheTask(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := drawTask(t).in
		whole, err := encodeTask(task)
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		status, err := encodeStatus(task.Status)
		equal(t, "status", nil, err)
		equal(t, "status", whole.GetStatus(), status, protocmp.Transform())
		metadata, err := encodeMetadata(task.Metadata)
		equal(t, "metadata", nil, err)
		equal(t, "metadata", whole.GetMetadata(), metadata, protocmp.Transform())
		for i, m := range task.History {
			pb, err := encodeMessage(m)
			equal(t, "message", nil, err)
			equal(t, "message", whole.GetHistory()[i], pb, protocmp.Transform())
		}
		for i, a := range task.Artifacts {
			pb, err := encodeArtifact(a)
			equal(t, "artifact", nil, err)
			equal(t, "artifact", whole.GetArtifacts()[i], pb, protocmp.Transform())
			for j, p := range a.Parts {
				pb, err := encodePart(p)
				equal(t, "part", nil, err)
				equal(t, "part", whole.GetArtifacts()[i].GetParts()[j], pb, protocmp.Transform())
			}
		}
	})
}

func TestDecodedTaskSharesNothing(t *testing.T) {
	t.Parallel()
	pb, err := encodeTask(plainTask())
	if err != nil {
		t.Fatal(err)
	}
	pb = wire(t, pb)
	before := proto.Clone(pb)

	task := decodeTask(pb)
	task.Metadata["k"] = "changed"
	task.Metadata["list"].([]any)[0] = "changed"
	task.History[0].Extensions[0] = "changed"
	task.History[0].ReferenceTasks[0] = "changed"
	task.Artifacts[0].Parts[1].Content.(a2a.Raw)[0]++
	task.Artifacts[0].Parts[0] = nil
	*task.Status.Timestamp = time.Time{}
	task.Status.Message.Parts[0].Content = a2a.Text("changed")

	if diff := cmp.Diff(before, pb, protocmp.Transform()); diff != "" {
		t.Errorf("a change of the decoded task reached the message (-before +after):\n%s", diff)
	}
}

func TestUnknownEventKind(t *testing.T) {
	t.Parallel()
	if e, ok := decodeEvent(&taskstorev1.StreamResponse{}); ok {
		t.Errorf("decodeEvent of no payload = %v, true", e)
	}
}

// plainTask returns a task with something everywhere, of the kinds that a2a-go itself can store.
func plainTask() *a2a.Task {
	at := time.Date(2025, 4, 17, 17, 47, 9, 680794123, time.UTC)
	message := func(id string, role a2a.MessageRole, text string) *a2a.Message {
		return &a2a.Message{
			ID: id, Role: role, TaskID: "task-1", ContextID: "ctx-1",
			Parts:          a2a.ContentParts{a2a.NewTextPart(text)},
			Extensions:     []string{"https://example.com/ext"},
			ReferenceTasks: []a2a.TaskID{"task-0"},
			Metadata:       map[string]any{"lang": "de", "turn": 1.0},
		}
	}
	return &a2a.Task{
		ID: "task-1", ContextID: "ctx-1",
		Status: a2a.TaskStatus{
			State: a2a.TaskStateInputRequired, Timestamp: &at, Message: message("m-2", a2a.MessageRoleAgent, "Where to?"),
		},
		History: []*a2a.Message{message("m-1", a2a.MessageRoleUser, "Book a flight")},
		Artifacts: []*a2a.Artifact{{
			ID: "a-1", Name: "report", Description: "A report", Extensions: []string{"https://example.com/ext"},
			Metadata: map[string]any{},
			Parts: a2a.ContentParts{
				a2a.NewTextPart(""),
				{Content: a2a.Raw{0, 1, 255}, Filename: "x.bin", MediaType: "application/octet-stream"},
				a2a.NewFileURLPart("https://example.com/x.png", "image/png"),
				{Content: a2a.Data{Value: map[string]any{"n": 1.5, "deep": map[string]any{"list": []any{nil, true, "x"}}}}},
			},
		}},
		Metadata: map[string]any{"k": "v", "list": []any{1.0, "two", nil, false, map[string]any{}}},
	}
}
