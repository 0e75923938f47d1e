package a2astore

import (
	"errors"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Whatever parses can be read, copied with gob, and written again without a change but those that the package comment names.
func FuzzTask(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pb := &taskstorev1.Task{}
		if proto.Unmarshal(b, pb) != nil {
			return
		}
		task := decodeTask(pb)
		again, err := encodeTask(task)
		if refusedForDepth(err) {
			return
		}
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		normalize(pb.ProtoReflect())
		if pb.Status == nil {
			pb.Status = &taskstorev1.TaskStatus{}
		}
		if diff := cmp.Diff(pb, wire(t, again), protocmp.Transform()); diff != "" {
			t.Fatalf("the task changed (-stored +written):\n%s", diff)
		}
		copied, err := encodeTask(gobCopy(t, task))
		if err != nil {
			t.Fatalf("a copy of what was read cannot be written: %v", err)
		}
		if !proto.Equal(again, copied) {
			t.Fatal("the task changed by way of gob")
		}
	})
}

func FuzzEvent(f *testing.F) {
	task := plainTask()
	for _, event := range []a2a.Event{
		task, task.History[0],
		&a2a.TaskStatusUpdateEvent{TaskID: "t", Status: task.Status, Metadata: task.Metadata},
		&a2a.TaskArtifactUpdateEvent{TaskID: "t", Artifact: task.Artifacts[0], Append: true, LastChunk: true},
		&a2a.TaskArtifactUpdateEvent{},
	} {
		pb, err := encodeEvent(event)
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(pb)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pb := &taskstorev1.StreamResponse{}
		if proto.Unmarshal(b, pb) != nil {
			return
		}
		event, ok := decodeEvent(pb)
		if !ok {
			return
		}
		again, err := encodeEvent(event)
		if refusedForDepth(err) {
			return
		}
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		normalize(pb.ProtoReflect())
		switch p := pb.Payload.(type) {
		case *taskstorev1.StreamResponse_Task:
			if p.Task.Status == nil {
				p.Task.Status = &taskstorev1.TaskStatus{}
			}
		case *taskstorev1.StreamResponse_StatusUpdate:
			if p.StatusUpdate.Status == nil {
				p.StatusUpdate.Status = &taskstorev1.TaskStatus{}
			}
		}
		if diff := cmp.Diff(pb, wire(t, again), protocmp.Transform()); diff != "" {
			t.Fatalf("the event changed (-stored +written):\n%s", diff)
		}
	})
}

// The service refuses such payloads, too.
func refusedForDepth(err error) bool {
	return errors.Is(err, a2a.ErrInvalidParams) && strings.Contains(err.Error(), "nested deeper")
}

// normalize takes out of a message what the types of a2a-go have no place for.
func normalize(m protoreflect.Message) {
	m.SetUnknown(nil)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, e protoreflect.Value) bool {
					normalize(e.Message())
					return true
				})
			}
		case fd.IsList():
			if fd.Message() != nil {
				for i := range v.List().Len() {
					normalize(v.List().Get(i).Message())
				}
			}
		case fd.Message() != nil:
			if ts, ok := v.Message().Interface().(*timestamppb.Timestamp); ok && !ts.IsValid() {
				m.Clear(fd)
				return true
			}
			normalize(v.Message())
		}
		return true
	})
	if value, ok := m.Interface().(*structpb.Value); ok {
		if _, null := value.Kind.(*structpb.Value_NullValue); null || value.Kind == nil {
			value.Kind = &structpb.Value_NullValue{}
		}
	}
}

func seeds(tb testing.TB) [][]byte {
	var out [][]byte
	for _, task := range []*a2a.Task{{}, plainTask(), {Status: a2a.TaskStatus{State: "TASK_STATE_9"}}} {
		pb, err := encodeTask(task)
		if err != nil {
			tb.Fatal(err)
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(pb)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, b)
	}
	odd, err := proto.Marshal(&taskstorev1.Task{
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"": {}}},
		Status: &taskstorev1.TaskStatus{
			State: -3, Timestamp: &timestamppb.Timestamp{Seconds: 1 << 60, Nanos: -5}, Message: &taskstorev1.Message{Role: 77},
		},
		Artifacts: []*taskstorev1.Artifact{{Parts: []*taskstorev1.Part{
			{}, {Content: &taskstorev1.Part_Data{Data: &structpb.Value{}}}, {Content: &taskstorev1.Part_Raw{}},
			{Content: &taskstorev1.Part_Data{Data: structpb.NewListValue(&structpb.ListValue{})}},
		}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7)
	return append(out, odd, append(odd, unknown...), nil)
}
