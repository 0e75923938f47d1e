package a2astore

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// What a2a-go can convert by itself means the same here: the bytes of one side are read by the other.
func TestAgreesWithSDKConversion(t *testing.T) {
	t.Parallel()
	task := plainTask()
	theirs, err := pbconv.ToProtoTask(task)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := encodeTask(task)
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(ours)
	if err != nil {
		t.Fatal(err)
	}
	read := &a2apb.Task{}
	if err := proto.Unmarshal(b, read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs, read, protocmp.Transform()); diff != "" {
		t.Errorf("messages differ (-theirs +ours):\n%s", diff)
	}
	back, err := pbconv.FromProtoTask(read)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(back, decodeTask(wire(t, ours)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("tasks differ (-theirs +ours):\n%s", diff)
	}

	artifact := &a2a.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Artifact: task.Artifacts[0], Append: true, LastChunk: true}
	status := &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: task.Status, Metadata: map[string]any{"k": 1.0}}
	for _, event := range []a2a.Event{task, task.History[0], artifact, status} {
		theirs, err := pbconv.ToProtoStreamResponse(event)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := encodeEvent(event)
		if err != nil {
			t.Fatal(err)
		}
		b, err := proto.Marshal(ours)
		if err != nil {
			t.Fatal(err)
		}
		read := &a2apb.StreamResponse{}
		if err := proto.Unmarshal(b, read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(theirs, read, protocmp.Transform()); diff != "" {
			t.Errorf("%T: messages differ (-theirs +ours):\n%s", event, diff)
		}
	}
}

// Tasks as they come over JSON, among them what a2a-go's own conversion loses or refuses.
var inlineTasks = []string{
	`{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}`,
	`{"id":"t","status":{"state":"TASK_STATE_UNSPECIFIED","message":{"messageId":"","role":"ROLE_UNSPECIFIED","parts":[]}}}`,
	`{"id":"t","contextId":"","status":{"state":"TASK_STATE_WORKING","timestamp":"2024-03-15T10:15:00.123456789+02:00"},"metadata":{}}`,
	`{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"","parts":[
		{"data":[1,"two",null,{"k":[]}]},{"data":"text"},{"data":0},{"data":false},{"data":{}},
		{"text":"","metadata":{}},{"raw":""},{"raw":"AAEC","filename":"x","mediaType":"y"},{"url":"https://example.com/"}]}]}`,
	`{"id":"t","contextId":"c","status":{"state":"TASK_STATE_FAILED"},"history":[
		{"messageId":"m","role":"ROLE_USER","parts":[{"text":"75°F \u0000"}],"referenceTaskIds":["a",""],"extensions":["e"],"metadata":{"a":{"b":[{}]}}}]}`,
}

func TestInlineTasks(t *testing.T) {
	t.Parallel()
	for _, doc := range inlineTasks {
		taskFromJSON(t, []byte(doc))
	}
}

// taskFromJSON stores and reads a task the way that it takes through an A2A server.
func taskFromJSON(t *testing.T, doc []byte) {
	t.Helper()
	var task a2a.Task
	if err := json.Unmarshal(doc, &task); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	pb, err := encodeTask(&task)
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	// JSON has no nil lists where a2a-go omits empty ones.
	if diff := cmp.Diff(&task, decodeTask(wire(t, pb)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s changed (-want +got):\n%s", doc, diff)
	}
}

func TestPublishedExamples(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "shared", "data", "a2a-1.0-examples.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("the published examples are not next to the repository (%s); TestInlineTasks covers the kinds in them", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tasks  []struct{ Task json.RawMessage }
		Events []struct{ Event json.RawMessage }
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Tasks) == 0 || len(file.Events) == 0 {
		t.Fatalf("%d tasks and %d events", len(file.Tasks), len(file.Events))
	}
	for _, e := range file.Tasks {
		// Two examples show a placeholder where the bytes of a file would be.
		var task a2a.Task
		if err := json.Unmarshal(e.Task, &task); err != nil {
			t.Logf("not readable by a2a-go: %v", err)
			continue
		}
		taskFromJSON(t, e.Task)
	}
	for _, e := range file.Events {
		var event a2a.StreamResponse
		if err := json.Unmarshal(e.Event, &event); err != nil {
			t.Fatalf("%s: %v", e.Event, err)
		}
		pb, err := encodeEvent(event.Event)
		if u, ok := event.Event.(*a2a.TaskStatusUpdateEvent); ok && u.Status.State == "completed" {
			// A state of A2A 0.3: 1.0 has no such state, and it would be read back as none.
			if !errors.Is(err, a2a.ErrInvalidParams) {
				t.Errorf("state %q: %v", u.Status.State, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", e.Event, err)
		}
		got, ok := decodeEvent(wire(t, pb))
		if diff := cmp.Diff(event.Event, got, cmpopts.EquateEmpty()); !ok || diff != "" {
			t.Errorf("%s changed (-want +got):\n%s", e.Event, diff)
		}
	}
}
