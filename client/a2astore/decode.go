package a2astore

import (
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// The decode functions convert messages to the types of a2a-go. They read whatever parses, so that no stored task is out of
// reach, and their results share nothing that can be changed with the message. gob, with which a2a-go copies tasks, takes
// all of it.

func decodeTask(pb *taskstorev1.Task) *a2a.Task {
	return &a2a.Task{
		ID:        a2a.TaskID(pb.GetId()),
		ContextID: pb.GetContextId(),
		Status:    decodeStatus(pb.GetStatus()),
		Artifacts: decodeEach(pb.GetArtifacts(), decodeArtifact),
		History:   decodeEach(pb.GetHistory(), decodeMessage),
		Metadata:  decodeStruct(pb.GetMetadata()),
	}
}

// decodeEvent converts an event of a log. It reports false for a kind of event that this version does not know; readers
// should pass over it.
func decodeEvent(pb *taskstorev1.StreamResponse) (a2a.Event, bool) {
	switch p := pb.GetPayload().(type) {
	case *taskstorev1.StreamResponse_Task:
		return decodeTask(p.Task), true
	case *taskstorev1.StreamResponse_Message:
		return decodeMessage(p.Message), true
	case *taskstorev1.StreamResponse_StatusUpdate:
		return &a2a.TaskStatusUpdateEvent{
			TaskID:    a2a.TaskID(p.StatusUpdate.GetTaskId()),
			ContextID: p.StatusUpdate.GetContextId(),
			Status:    decodeStatus(p.StatusUpdate.GetStatus()),
			Metadata:  decodeStruct(p.StatusUpdate.GetMetadata()),
		}, true
	case *taskstorev1.StreamResponse_ArtifactUpdate:
		e := &a2a.TaskArtifactUpdateEvent{
			TaskID:    a2a.TaskID(p.ArtifactUpdate.GetTaskId()),
			ContextID: p.ArtifactUpdate.GetContextId(),
			Append:    p.ArtifactUpdate.GetAppend(),
			LastChunk: p.ArtifactUpdate.GetLastChunk(),
			Metadata:  decodeStruct(p.ArtifactUpdate.GetMetadata()),
		}
		if artifact := p.ArtifactUpdate.GetArtifact(); artifact != nil {
			e.Artifact = decodeArtifact(artifact)
		}
		return e, true
	default:
		return nil, false
	}
}

func decodeStatus(pb *taskstorev1.TaskStatus) a2a.TaskStatus {
	s := a2a.TaskStatus{State: decodeState(pb.GetState()), Timestamp: decodeTime(pb.GetTimestamp())}
	if m := pb.GetMessage(); m != nil {
		s.Message = decodeMessage(m)
	}
	return s
}

func decodeMessage(pb *taskstorev1.Message) *a2a.Message {
	m := &a2a.Message{
		ID:         pb.GetMessageId(),
		ContextID:  pb.GetContextId(),
		TaskID:     a2a.TaskID(pb.GetTaskId()),
		Role:       decodeRole(pb.GetRole()),
		Parts:      decodeParts(pb.GetParts()),
		Metadata:   decodeStruct(pb.GetMetadata()),
		Extensions: slices.Clone(pb.GetExtensions()),
	}
	if ids := pb.GetReferenceTaskIds(); len(ids) > 0 {
		m.ReferenceTasks = make([]a2a.TaskID, len(ids))
		for i, id := range ids {
			m.ReferenceTasks[i] = a2a.TaskID(id)
		}
	}
	return m
}

func decodeArtifact(pb *taskstorev1.Artifact) *a2a.Artifact {
	return &a2a.Artifact{
		ID:          a2a.ArtifactID(pb.GetArtifactId()),
		Name:        pb.GetName(),
		Description: pb.GetDescription(),
		Parts:       decodeParts(pb.GetParts()),
		Metadata:    decodeStruct(pb.GetMetadata()),
		Extensions:  slices.Clone(pb.GetExtensions()),
	}
}

// decodeParts never returns nil: JSON would show null for a field that A2A requires to be a list.
func decodeParts(pb []*taskstorev1.Part) a2a.ContentParts {
	parts := make(a2a.ContentParts, len(pb))
	for i, p := range pb {
		parts[i] = decodePart(p)
	}
	return parts
}

func decodePart(pb *taskstorev1.Part) *a2a.Part {
	p := &a2a.Part{
		Filename:  pb.GetFilename(),
		MediaType: pb.GetMediaType(),
		Metadata:  decodeStruct(pb.GetMetadata()),
	}
	switch c := pb.GetContent().(type) {
	case *taskstorev1.Part_Text:
		p.Content = a2a.Text(c.Text)
	case *taskstorev1.Part_Raw:
		p.Content = append(a2a.Raw{}, c.Raw...) // never nil, which JSON would show as null
	case *taskstorev1.Part_Url:
		p.Content = a2a.URL(c.Url)
	case *taskstorev1.Part_Data:
		p.Content = a2a.Data{Value: decodeValue(c.Data)}
	}
	return p
}

// decodeTime returns nil for a timestamp that is out of protobuf's range. The service stores none; time.Time would wrap
// around, or not show it in JSON.
func decodeTime(pb *timestamppb.Timestamp) *time.Time {
	if !pb.IsValid() {
		return nil
	}
	t := pb.AsTime()
	return &t
}

func decodeEach[PB, T any](list []PB, decode func(PB) T) []T {
	if len(list) == 0 {
		return nil
	}
	out := make([]T, len(list))
	for i, pb := range list {
		out[i] = decode(pb)
	}
	return out
}
