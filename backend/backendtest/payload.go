package backendtest

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Short names of the states.
const (
	submitted     = pb.TaskState_TASK_STATE_SUBMITTED
	working       = pb.TaskState_TASK_STATE_WORKING
	completed     = pb.TaskState_TASK_STATE_COMPLETED
	failed        = pb.TaskState_TASK_STATE_FAILED
	canceled      = pb.TaskState_TASK_STATE_CANCELED
	inputRequired = pb.TaskState_TASK_STATE_INPUT_REQUIRED
	rejected      = pb.TaskState_TASK_STATE_REJECTED
	authRequired  = pb.TaskState_TASK_STATE_AUTH_REQUIRED
)

var allStates = []pb.TaskState{
	pb.TaskState_TASK_STATE_UNSPECIFIED, submitted, working, completed, failed, canceled, inputRequired, rejected,
	authRequired,
}

// The preconditions.
var (
	absent      = backend.Precondition{}
	present     = backend.Precondition{Condition: backend.Present}
	notTerminal = backend.Precondition{Condition: backend.NotTerminal}
	whatever    = backend.Precondition{Condition: backend.Any}
)

func atVersion(n int64) backend.Precondition {
	return backend.Precondition{Condition: backend.AtVersion, Version: n}
}

// taskIn returns a small task in a state.
func taskIn(id string, state pb.TaskState) *pb.Task {
	return &pb.Task{Id: id, ContextId: "ctx", Status: &pb.TaskStatus{State: state}}
}

// taskAt returns a small task with a status timestamp.
func taskAt(id, contextID string, state pb.TaskState, at *timestamppb.Timestamp) *pb.Task {
	return &pb.Task{Id: id, ContextId: contextID, Status: &pb.TaskStatus{State: state, Timestamp: at}}
}

func day(year int, month time.Month, day int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

func textPart(s string) *pb.Part { return &pb.Part{Content: &pb.Part_Text{Text: s}} }

func artifact(id string, parts ...string) *pb.Artifact {
	a := &pb.Artifact{ArtifactId: id, Name: "artifact " + id}
	for _, p := range parts {
		a.Parts = append(a.Parts, textPart(p))
	}
	return a
}

func message(id string) *pb.Message {
	return &pb.Message{MessageId: id, Role: pb.Role_ROLE_USER, Parts: []*pb.Part{textPart("text of " + id)}}
}

// statusEvent is an event that names the task and its context.
func statusEvent(id string, state pb.TaskState) *pb.StreamResponse {
	return &pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{StatusUpdate: &pb.TaskStatusUpdateEvent{
		TaskId: id, ContextId: "ctx", Status: &pb.TaskStatus{State: state},
	}}}
}

// textEvent is an event that names neither a task nor a context.
func textEvent(text string) *pb.StreamResponse {
	return &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{
		MessageId: text, Role: pb.Role_ROLE_AGENT, Parts: []*pb.Part{textPart(text)},
	}}}
}

func encode(t tb, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	return b
}

func decodeTask(t tb, b []byte) *pb.Task {
	t.Helper()
	m := &pb.Task{}
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatalf("a stored task does not parse: %v", err)
	}
	return m
}

func parseTask(t tb, m *pb.Task) *document.Task {
	t.Helper()
	d, err := document.ParseTask(encode(t, m))
	if err != nil {
		t.Fatalf("the task is refused: %v", err)
	}
	return d
}

func parseStatus(t tb, m *pb.TaskStatus) *document.Status {
	t.Helper()
	d, err := document.ParseStatus(encode(t, m))
	if err != nil {
		t.Fatalf("the status is refused: %v", err)
	}
	return d
}

func parseArtifact(t tb, m *pb.Artifact) *document.Artifact {
	t.Helper()
	d, err := document.ParseArtifact(encode(t, m))
	if err != nil {
		t.Fatalf("the artifact is refused: %v", err)
	}
	return d
}

func encodeAll[M proto.Message](t tb, ms []M) [][]byte {
	t.Helper()
	var out [][]byte
	for _, m := range ms {
		out = append(out, encode(t, m))
	}
	return out
}

func parseArtifacts(t tb, ms []*pb.Artifact) *document.List {
	t.Helper()
	l, err := document.ParseArtifacts(encodeAll(t, ms))
	if err != nil {
		t.Fatalf("the artifacts are refused: %v", err)
	}
	return &l
}

func parseHistory(t tb, ms ...*pb.Message) document.List {
	t.Helper()
	l, err := document.ParseHistory(encodeAll(t, ms))
	if err != nil {
		t.Fatalf("the messages are refused: %v", err)
	}
	return l
}

func parseParts(t tb, ms ...*pb.Part) document.List {
	t.Helper()
	l, err := document.ParseParts(encodeAll(t, ms))
	if err != nil {
		t.Fatalf("the parts are refused: %v", err)
	}
	return l
}

func parseEvent(t tb, m *pb.StreamResponse) document.Event {
	t.Helper()
	d, err := document.ParseEvent(encode(t, m))
	if err != nil {
		t.Fatalf("the event is refused: %v", err)
	}
	return d
}

func parseEvents(t tb, ms ...*pb.StreamResponse) []document.Event {
	t.Helper()
	var out []document.Event
	for _, m := range ms {
		out = append(out, parseEvent(t, m))
	}
	return out
}

// inputs makes events for a Save.
func inputs(t tb, ms ...*pb.StreamResponse) []backend.EventInput {
	t.Helper()
	var out []backend.EventInput
	for _, m := range ms {
		out = append(out, backend.EventInput{Event: parseEvent(t, m)})
	}
	return out
}

var snapshot = backend.EventInput{Snapshot: true}

// headDelta replaces everything but artifacts and history by what the task has.
func headDelta(t tb, m *pb.Task) *document.Delta {
	t.Helper()
	head := proto.CloneOf(m)
	head.Artifacts, head.History = nil, nil
	return &document.Delta{Head: parseTask(t, head), MaxHistory: -1}
}

func statusDelta(t tb, m *pb.TaskStatus) *document.Delta {
	t.Helper()
	return &document.Delta{Status: parseStatus(t, m), MaxHistory: -1}
}

func putDelta(t tb, m *pb.Artifact) *document.Delta {
	t.Helper()
	return &document.Delta{Put: parseArtifact(t, m), MaxHistory: -1}
}

// partsDelta appends parts; base is the number of parts that the artifact must have, or negative.
func partsDelta(t tb, id string, base int, parts ...*pb.Part) *document.Delta {
	t.Helper()
	return &document.Delta{
		Append:     &document.AppendToArtifact{ID: id, Base: base, Parts: parseParts(t, parts...)},
		MaxHistory: -1,
	}
}

func historyDelta(t tb, keep int, ms ...*pb.Message) *document.Delta {
	t.Helper()
	return &document.Delta{History: parseHistory(t, ms...), MaxHistory: keep}
}

// addUnknown gives a message a field that no schema here knows.
func addUnknown(m proto.Message, num protowire.Number, value string) {
	r := m.ProtoReflect()
	b := protowire.AppendTag(r.GetUnknown(), num, protowire.BytesType)
	r.SetUnknown(protowire.AppendString(b, value))
}
