package a2astore

import (
	"math"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// The same functions report whether the encode function of their argument would succeed and return the message given, without
// making it. They allocate nothing but for values of types that JSON does not have. Unknown fields of the message do not
// count.
//
// Where one message can be written in several ways that are read as one, they tell these apart: the encode functions
// write one of them.

func sameStatus(s *a2a.TaskStatus, pb *taskstorev1.TaskStatus) bool {
	if pb == nil || (s.Message == nil) != (pb.GetMessage() == nil) {
		return false
	}
	state, err := encodeState(s.State)
	return err == nil && state == pb.GetState() && sameTime(s.Timestamp, pb.GetTimestamp()) &&
		(s.Message == nil || sameMessage(s.Message, pb.GetMessage()))
}

func sameTime(t *time.Time, pb *timestamppb.Timestamp) bool {
	if t == nil || pb == nil {
		return t == nil && pb == nil
	}
	return t.Unix() == pb.GetSeconds() && int32(t.Nanosecond()) == pb.GetNanos() && pb.IsValid()
}

func sameMessage(m *a2a.Message, pb *taskstorev1.Message) bool {
	if m == nil || m.ID != pb.GetMessageId() || len(m.Parts) != len(pb.GetParts()) || !sameRole(m.Role, pb.GetRole()) {
		return false
	}
	return m.ContextID == pb.GetContextId() && string(m.TaskID) == pb.GetTaskId() &&
		sameTexts(m.Extensions, pb.GetExtensions()) && sameTexts(m.ReferenceTasks, pb.GetReferenceTaskIds()) &&
		startsWith(m.Parts, pb.GetParts(), samePart) && sameStruct(m.Metadata, pb.GetMetadata())
}

func sameRole(r a2a.MessageRole, pb taskstorev1.Role) bool {
	switch pb { // without the look-up: a fifth of what comparing a long history takes
	case taskstorev1.Role_ROLE_USER:
		return r == a2a.MessageRoleUser
	case taskstorev1.Role_ROLE_AGENT:
		return r == a2a.MessageRoleAgent
	}
	n, err := encodeRole(r)
	return err == nil && n == pb
}

func sameArtifact(a *a2a.Artifact, pb *taskstorev1.Artifact) bool {
	return a != nil && len(a.Parts) == len(pb.GetParts()) && sameArtifactFields(a, pb) &&
		startsWith(a.Parts, pb.GetParts(), samePart)
}

// sameArtifactFields compares everything but the parts.
func sameArtifactFields(a *a2a.Artifact, pb *taskstorev1.Artifact) bool {
	return string(a.ID) == pb.GetArtifactId() && a.Name == pb.GetName() && a.Description == pb.GetDescription() &&
		sameTexts(a.Extensions, pb.GetExtensions()) && sameStruct(a.Metadata, pb.GetMetadata())
}

func samePart(p *a2a.Part, pb *taskstorev1.Part) bool {
	return p != nil && p.Filename == pb.GetFilename() && p.MediaType == pb.GetMediaType() &&
		sameContent(p.Content, pb) && sameStruct(p.Metadata, pb.GetMetadata())
}

func sameContent(content a2a.PartContent, pb *taskstorev1.Part) bool {
	switch c := content.(type) {
	case nil:
		return pb.GetContent() == nil
	case a2a.Text:
		is, ok := pb.GetContent().(*taskstorev1.Part_Text)
		return ok && string(c) == is.Text
	case a2a.Raw:
		is, ok := pb.GetContent().(*taskstorev1.Part_Raw)
		return ok && string(c) == string(is.Raw)
	case a2a.URL:
		is, ok := pb.GetContent().(*taskstorev1.Part_Url)
		return ok && string(c) == is.Url
	case a2a.Data:
		is, ok := pb.GetContent().(*taskstorev1.Part_Data)
		return ok && sameValue(c.Value, is.Data)
	default:
		return false
	}
}

func sameTexts[T ~string](list []T, pb []string) bool {
	if len(list) != len(pb) {
		return false
	}
	for i, s := range list {
		if string(s) != pb[i] {
			return false
		}
	}
	return true
}

func sameStruct(m map[string]any, pb *structpb.Struct) bool {
	if m == nil || pb == nil {
		return m == nil && pb == nil
	}
	if len(m) != len(pb.GetFields()) {
		return false
	}
	for k, v := range m {
		value, ok := pb.GetFields()[k]
		if !ok || !sameValue(v, value) {
			return false
		}
	}
	return true
}

func sameValue(v any, pb *structpb.Value) bool {
	switch v := v.(type) {
	case nil:
		_, ok := pb.GetKind().(*structpb.Value_NullValue)
		return ok
	case bool:
		is, ok := pb.GetKind().(*structpb.Value_BoolValue)
		return ok && v == is.BoolValue
	case float64:
		return sameNumber(v, pb)
	case int: // what agents that are written in Go count with
		f, err := exactInt(int64(v))
		return err == nil && sameNumber(f, pb)
	case string:
		is, ok := pb.GetKind().(*structpb.Value_StringValue)
		return ok && v == is.StringValue
	case map[string]any:
		is, ok := pb.GetKind().(*structpb.Value_StructValue)
		if v == nil {
			v = map[string]any{}
		}
		return ok && sameStruct(v, is.StructValue)
	case []any:
		is, ok := pb.GetKind().(*structpb.Value_ListValue)
		return ok && is.ListValue != nil && len(v) == len(is.ListValue.GetValues()) &&
			startsWith(v, is.ListValue.GetValues(), sameValue)
	}
	// The other types are few and many-shaped. The depth does not matter here: what is equal to a stored value is not too deep.
	encoded, err := encodeValue(v, 1)
	return err == nil && sameValue(decodeValue(encoded), pb)
}

// sameNumber tells zeros of different sign and NaNs of different content apart, as their encodings do.
func sameNumber(f float64, pb *structpb.Value) bool {
	is, ok := pb.GetKind().(*structpb.Value_NumberValue)
	return ok && math.Float64bits(f) == math.Float64bits(is.NumberValue)
}

// startsWith reports whether the elements of pb are the first ones of the list.
func startsWith[T, PB any](list []T, pb []PB, same func(T, PB) bool) bool {
	if len(list) < len(pb) {
		return false
	}
	for i := range pb {
		if !same(list[i], pb[i]) {
			return false
		}
	}
	return true
}
