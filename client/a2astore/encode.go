package a2astore

import (
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// The encode functions convert the types of a2a-go to messages, or refuse with a *fieldError what could not be read back.
// Results share the bytes of Raw parts with the input, so they are to be sent before the input changes. Inputs are only
// read.
//
// depth is the level of the result in its payload: 1 for a Task or a StreamResponse.

// encodeTask converts a task that is saved as a whole.
func encodeTask(t *a2a.Task) (*taskstorev1.Task, error) {
	pb, err := encodeTaskAt(t, 1)
	return pb, asError(err)
}

// encodeEvent converts an event of a log.
func encodeEvent(e a2a.Event) (*taskstorev1.StreamResponse, error) {
	pb, err := encodeEventAt(e)
	return pb, asError(err)
}

// encodeStatus converts the status of a task that is saved by itself.
func encodeStatus(s a2a.TaskStatus) (*taskstorev1.TaskStatus, error) {
	pb, err := encodeStatusAt(s, 2)
	if err != nil {
		return nil, err.under("status")
	}
	return pb, nil
}

// encodeMetadata converts the metadata of a task that is saved by itself.
func encodeMetadata(m map[string]any) (*structpb.Struct, error) {
	pb, err := encodeStruct(m, 2)
	if err != nil {
		return nil, err.under("metadata")
	}
	return pb, nil
}

// encodeMessage converts a message of a task's history that is saved by itself.
func encodeMessage(m *a2a.Message) (*taskstorev1.Message, error) {
	pb, err := encodeMessageAt(m, 2)
	return pb, asError(err)
}

// encodeArtifact converts an artifact that is saved by itself.
func encodeArtifact(a *a2a.Artifact) (*taskstorev1.Artifact, error) {
	pb, err := encodeArtifactAt(a, 2)
	return pb, asError(err)
}

// encodePart converts a part that is appended to an artifact.
func encodePart(p *a2a.Part) (*taskstorev1.Part, error) {
	pb, err := encodePartAt(p, 3)
	return pb, asError(err)
}

func encodeEventAt(e a2a.Event) (*taskstorev1.StreamResponse, *fieldError) {
	const depth = 2
	switch e := e.(type) {
	case *a2a.Task:
		t, err := encodeTaskAt(e, depth)
		if err != nil {
			return nil, err.under("task")
		}
		return &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_Task{Task: t}}, nil
	case *a2a.Message:
		m, err := encodeMessageAt(e, depth)
		if err != nil {
			return nil, err.under("message")
		}
		return &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_Message{Message: m}}, nil
	case *a2a.TaskStatusUpdateEvent:
		u, err := encodeStatusUpdate(e, depth)
		if err != nil {
			return nil, err.under("statusUpdate")
		}
		return &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_StatusUpdate{StatusUpdate: u}}, nil
	case *a2a.TaskArtifactUpdateEvent:
		u, err := encodeArtifactUpdate(e, depth)
		if err != nil {
			return nil, err.under("artifactUpdate")
		}
		return &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_ArtifactUpdate{ArtifactUpdate: u}}, nil
	default:
		return nil, refuse("%T is not an event that can be stored", e)
	}
}

func encodeStatusUpdate(e *a2a.TaskStatusUpdateEvent, depth int) (*taskstorev1.TaskStatusUpdateEvent, *fieldError) {
	if e == nil {
		return nil, isNil()
	}
	if err := checkTexts(text{"taskId", string(e.TaskID)}, text{"contextId", e.ContextID}); err != nil {
		return nil, err
	}
	status, err := encodeStatusAt(e.Status, depth+1)
	if err != nil {
		return nil, err.under("status")
	}
	metadata, err := encodeStruct(e.Metadata, depth+1)
	if err != nil {
		return nil, err.under("metadata")
	}
	return &taskstorev1.TaskStatusUpdateEvent{
		TaskId: string(e.TaskID), ContextId: e.ContextID, Status: status, Metadata: metadata,
	}, nil
}

func encodeArtifactUpdate(e *a2a.TaskArtifactUpdateEvent, depth int) (*taskstorev1.TaskArtifactUpdateEvent, *fieldError) {
	if e == nil {
		return nil, isNil()
	}
	if err := checkTexts(text{"taskId", string(e.TaskID)}, text{"contextId", e.ContextID}); err != nil {
		return nil, err
	}
	var artifact *taskstorev1.Artifact
	if e.Artifact != nil {
		var err *fieldError
		if artifact, err = encodeArtifactAt(e.Artifact, depth+1); err != nil {
			return nil, err.under("artifact")
		}
	}
	metadata, err := encodeStruct(e.Metadata, depth+1)
	if err != nil {
		return nil, err.under("metadata")
	}
	return &taskstorev1.TaskArtifactUpdateEvent{
		TaskId: string(e.TaskID), ContextId: e.ContextID, Artifact: artifact, Append: e.Append, LastChunk: e.LastChunk,
		Metadata: metadata,
	}, nil
}

func encodeTaskAt(t *a2a.Task, depth int) (*taskstorev1.Task, *fieldError) {
	if t == nil {
		return nil, isNil()
	}
	if err := checkTexts(text{"id", string(t.ID)}, text{"contextId", t.ContextID}); err != nil {
		return nil, err
	}
	status, err := encodeStatusAt(t.Status, depth+1)
	if err != nil {
		return nil, err.under("status")
	}
	artifacts, err := encodeEach(t.Artifacts, depth+1, encodeArtifactAt)
	if err != nil {
		return nil, err.under("artifacts")
	}
	history, err := encodeEach(t.History, depth+1, encodeMessageAt)
	if err != nil {
		return nil, err.under("history")
	}
	metadata, err := encodeStruct(t.Metadata, depth+1)
	if err != nil {
		return nil, err.under("metadata")
	}
	return &taskstorev1.Task{
		Id: string(t.ID), ContextId: t.ContextID, Status: status, Artifacts: artifacts, History: history, Metadata: metadata,
	}, nil
}

// encodeStatusAt never returns nil for a status, as A2A requires the field wherever it occurs.
func encodeStatusAt(s a2a.TaskStatus, depth int) (*taskstorev1.TaskStatus, *fieldError) {
	state, err := encodeState(s.State)
	if err != nil {
		return nil, err.under("state")
	}
	pb := &taskstorev1.TaskStatus{State: state}
	if s.Message != nil {
		if pb.Message, err = encodeMessageAt(s.Message, depth+1); err != nil {
			return nil, err.under("message")
		}
	}
	if s.Timestamp != nil {
		if pb.Timestamp, err = encodeTime(*s.Timestamp); err != nil {
			return nil, err.under("timestamp")
		}
	}
	return pb, nil
}

func encodeMessageAt(m *a2a.Message, depth int) (*taskstorev1.Message, *fieldError) {
	if m == nil {
		return nil, isNil()
	}
	if err := checkTexts(text{"messageId", m.ID}, text{"contextId", m.ContextID}, text{"taskId", string(m.TaskID)}); err != nil {
		return nil, err
	}
	role, err := encodeRole(m.Role)
	if err != nil {
		return nil, err.under("role")
	}
	parts, err := encodeEach(m.Parts, depth+1, encodePartAt)
	if err != nil {
		return nil, err.under("parts")
	}
	metadata, err := encodeStruct(m.Metadata, depth+1)
	if err != nil {
		return nil, err.under("metadata")
	}
	extensions, err := encodeTexts(m.Extensions)
	if err != nil {
		return nil, err.under("extensions")
	}
	references, err := encodeTexts(m.ReferenceTasks)
	if err != nil {
		return nil, err.under("referenceTaskIds")
	}
	return &taskstorev1.Message{
		MessageId: m.ID, ContextId: m.ContextID, TaskId: string(m.TaskID), Role: role, Parts: parts, Metadata: metadata,
		Extensions: extensions, ReferenceTaskIds: references,
	}, nil
}

func encodeArtifactAt(a *a2a.Artifact, depth int) (*taskstorev1.Artifact, *fieldError) {
	if a == nil {
		return nil, isNil()
	}
	if err := checkTexts(text{"artifactId", string(a.ID)}, text{"name", a.Name}, text{"description", a.Description}); err != nil {
		return nil, err
	}
	parts, err := encodeEach(a.Parts, depth+1, encodePartAt)
	if err != nil {
		return nil, err.under("parts")
	}
	metadata, err := encodeStruct(a.Metadata, depth+1)
	if err != nil {
		return nil, err.under("metadata")
	}
	extensions, err := encodeTexts(a.Extensions)
	if err != nil {
		return nil, err.under("extensions")
	}
	return &taskstorev1.Artifact{
		ArtifactId: string(a.ID), Name: a.Name, Description: a.Description, Parts: parts, Metadata: metadata,
		Extensions: extensions,
	}, nil
}

// textPart is a part and its text in one piece of memory, as a long artifact is a list of them that every update looks at.
// For the few parts of another kind it is 16 bytes too long.
type textPart struct {
	part taskstorev1.Part
	text taskstorev1.Part_Text
}

func encodePartAt(p *a2a.Part, depth int) (*taskstorev1.Part, *fieldError) {
	if p == nil {
		return nil, isNil()
	}
	if err := checkTexts(text{"filename", p.Filename}, text{"mediaType", p.MediaType}); err != nil {
		return nil, err
	}
	metadata, err := encodeStruct(p.Metadata, depth+1)
	if err != nil {
		return nil, err.under("metadata")
	}
	var withText textPart
	pb := &withText.part
	pb.Filename, pb.MediaType, pb.Metadata = p.Filename, p.MediaType, metadata
	switch c := p.Content.(type) {
	case nil:
	case a2a.Text:
		if !utf8.ValidString(string(c)) {
			return nil, notUTF8().under("text")
		}
		withText.text.Text = string(c)
		pb.Content = &withText.text
	case a2a.Raw:
		pb.Content = &taskstorev1.Part_Raw{Raw: c}
	case a2a.URL:
		if !utf8.ValidString(string(c)) {
			return nil, notUTF8().under("url")
		}
		pb.Content = &taskstorev1.Part_Url{Url: string(c)}
	case a2a.Data:
		value, err := encodeValue(c.Value, depth+1)
		if err != nil {
			return nil, err.under("data")
		}
		pb.Content = &taskstorev1.Part_Data{Data: value}
	default:
		return nil, refuse("%T is not content that A2A has", c).under("content")
	}
	return pb, nil
}

// encodeTime drops the location and the monotonic reading, which are not part of the instant.
func encodeTime(t time.Time) (*timestamppb.Timestamp, *fieldError) {
	pb := timestamppb.New(t)
	if !pb.IsValid() {
		return nil, refuse("the time is not in the years 1 to 9999")
	}
	return pb, nil
}

func encodeEach[T, PB any](list []T, depth int, encode func(T, int) (PB, *fieldError)) ([]PB, *fieldError) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]PB, len(list))
	for i, e := range list {
		pb, err := encode(e, depth)
		if err != nil {
			return nil, err.at(i)
		}
		out[i] = pb
	}
	return out, nil
}

func encodeTexts[T ~string](list []T) ([]string, *fieldError) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		if !utf8.ValidString(string(s)) {
			return nil, notUTF8().at(i)
		}
		out[i] = string(s)
	}
	return out, nil
}

type text struct{ field, value string }

func checkTexts(texts ...text) *fieldError {
	for _, t := range texts {
		if !utf8.ValidString(t.value) {
			return notUTF8().under(t.field)
		}
	}
	return nil
}

func isNil() *fieldError { return refuse("is nil") }
