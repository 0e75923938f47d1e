package servertest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend/pebble"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// examples are tasks and events as public documents print them, in A2A's JSON.
type examples struct {
	Tasks  []struct{ Task any }
	Events []struct{ Event any }
}

// ownExamples serve where the collection of published ones is not at hand.
const ownExamples = `{
 "tasks": [
  {"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2024-03-15T10:15:00.000000001Z"},
   "artifacts": [{"artifactId": "a1", "name": "report", "parts": [{"text": "75°F"}, {"data": {"k": [1, null, "x"]}}, {"raw": "AP8=", "mediaType": "image/png"}]}],
   "history": [{"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}], "metadata": {"n": 1.5}}]}},
  {"task": {"id": "t2", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"role": "ROLE_AGENT", "parts": [{"text": "where to?"}]}}}}
 ],
 "events": [
  {"event": {"artifactUpdate": {"taskId": "t1", "artifact": {"parts": [{"text": "# Report\n\n"}]}}}},
  {"event": {"statusUpdate": {"taskId": "t1", "status": {"state": "TASK_STATE_COMPLETED"}}}}
 ]}`

func readExamples(t *testing.T) examples {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "a2a-1.0-examples.json"))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = []byte(ownExamples), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var e examples
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// parse reads an example into a message. Documents print placeholders for file content, which are taken as the content.
func parse(example any, m proto.Message) error {
	b, err := json.Marshal(withContent(example))
	if err != nil {
		return err
	}
	return protojson.Unmarshal(b, m)
}

func withContent(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			if text, ok := item.(string); ok && k == "raw" {
				if _, err := base64.StdEncoding.DecodeString(text); err != nil {
					item = base64.StdEncoding.EncodeToString([]byte(text))
				}
			}
			v[k] = withContent(item)
		}
	case []any:
		for i := range v {
			v[i] = withContent(v[i])
		}
	}
	return v
}

func TestPublishedExamplesComeBackEqual(t *testing.T) {
	store, err := pebble.Open(pebble.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c := serve(t, store)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	e := readExamples(t)
	for i, example := range e.Tasks {
		task := &pb.Task{}
		if err := parse(example.Task, task); err != nil {
			t.Errorf("task %d: %v", i, err)
			continue
		}
		scope := &pb.Scope{Tenant: fmt.Sprint("task ", i)} // the examples share ids
		_, err := c.client.Save(t.Context(), &pb.SaveRequest{
			Scope: scope, Write: &pb.SaveRequest_Task{Task: task},
			Events: []*pb.EventInput{{Input: &pb.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}}},
		})
		if err != nil {
			t.Errorf("task %d: save: %v", i, err)
			continue
		}
		got, err := c.client.Get(t.Context(), &pb.GetRequest{Scope: scope, TaskId: task.GetId()})
		if err != nil || !proto.Equal(got.GetTask(), task) {
			t.Errorf("task %d: got %v, %v; saved %v", i, got.GetTask(), err, task)
		}
		checkEvents(t, c, scope, task.GetId(), &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: task}})
	}

	accepted := 0
	for i, example := range e.Events {
		event := &pb.StreamResponse{}
		if err := parse(example.Event, event); err != nil {
			t.Logf("event %d is not of A2A 1.0: %v", i, err)
			continue
		}
		accepted++
		id := event.GetStatusUpdate().GetTaskId() + event.GetArtifactUpdate().GetTaskId()
		scope := &pb.Scope{Tenant: fmt.Sprint("event ", i)}
		_, err := c.client.AppendEvent(t.Context(), &pb.AppendEventRequest{Scope: scope, TaskId: id, Events: []*pb.StreamResponse{event}})
		if err != nil {
			t.Errorf("event %d: append: %v", i, err)
			continue
		}
		checkEvents(t, c, scope, id, event)
	}
	if accepted < len(e.Events)-1 {
		t.Errorf("only %d of %d events could be read", accepted, len(e.Events))
	}
}

// checkEvents checks that the log holds just the event.
func checkEvents(t *testing.T, c *remote, scope *pb.Scope, id string, want *pb.StreamResponse) {
	t.Helper()
	n := 0
	for event, err := range c.client.Follow(t.Context(), &pb.ReadEventsRequest{Scope: scope, TaskId: id, Until: pb.ReadUntil_READ_UNTIL_HEAD}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if !proto.Equal(event.GetEvent(), want) {
			t.Errorf("read %v, wrote %v", event.GetEvent(), want)
		}
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}
