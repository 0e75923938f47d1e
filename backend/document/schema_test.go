package document

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// TestSchemaIsTheDataModel compares the schema, field by field and message by message, with the generated descriptors.
func TestSchemaIsTheDataModel(t *testing.T) {
	t.Parallel()
	visited := map[*message]bool{}
	var compare func(m *message, d protoreflect.MessageDescriptor)
	compare = func(m *message, d protoreflect.MessageDescriptor) {
		if visited[m] {
			return
		}
		visited[m] = true
		if m.name != string(d.Name()) && m.name != string(d.FullName()) {
			t.Errorf("message %s is %s", d.FullName(), m.name)
		}
		if m.time != (d.FullName() == "google.protobuf.Timestamp") {
			t.Errorf("%s: time %v", m.name, m.time)
		}
		for i := range d.Fields().Len() {
			if num := d.Fields().Get(i).Number(); num > maxField {
				t.Errorf("%s has a field %d, behind maxField", m.name, num)
			}
		}
		for num := range protoreflect.FieldNumber(maxField + 1) {
			f, fd := m.fields[num], d.Fields().ByNumber(num)
			if fd == nil {
				if f.name != "" {
					t.Errorf("%s: field %d (%s) is not in the data model", m.name, num, f.name)
				}
				continue
			}
			want := scalar
			switch {
			case fd.Message() != nil && fd.Cardinality() == protoreflect.Repeated:
				want = repeated
			case fd.Message() != nil:
				want = single
			case fd.Kind() == protoreflect.StringKind:
				want = text
			}
			if f.name != string(fd.Name()) || f.kind != want || (f.msg != nil) != (fd.Message() != nil) {
				t.Errorf("%s: field %d is %q, kind %d; want %q, kind %d", m.name, num, f.name, f.kind, fd.Name(), want)
				continue
			}
			if f.msg != nil {
				compare(f.msg, fd.Message())
			}
		}
	}
	compare(taskMsg, (&pb.Task{}).ProtoReflect().Descriptor())
	compare(responseMsg, (&pb.StreamResponse{}).ProtoReflect().Descriptor())
	if len(visited) != 13 {
		t.Errorf("compared %d messages", len(visited))
	}
}

// TestEventIDs: the ids that events name are where the data model has them.
func TestEventIDs(t *testing.T) {
	t.Parallel()
	payloads := (&pb.StreamResponse{}).ProtoReflect().Descriptor().Oneofs().ByName("payload").Fields()
	if payloads.Len() != len(eventIDs)-1 {
		t.Errorf("%d payloads, %d of them known", payloads.Len(), len(eventIDs)-1)
	}
	for i := range payloads.Len() {
		f := payloads.Get(i)
		ids, fields := eventIDs[f.Number()], f.Message().Fields()
		task := fields.ByName("task_id")
		if task == nil {
			task = fields.ByName("id")
		}
		if task.Number() != ids.task || fields.ByName("context_id").Number() != ids.context {
			t.Errorf("%s: ids %+v", f.Name(), ids)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	values := pb.TaskState(0).Descriptor().Values()
	terminal := map[pb.TaskState]bool{
		pb.TaskState_TASK_STATE_COMPLETED: true, pb.TaskState_TASK_STATE_FAILED: true, pb.TaskState_TASK_STATE_CANCELED: true,
		pb.TaskState_TASK_STATE_REJECTED: true,
	}
	for state := int32(-2); state < 20; state++ {
		known := values.ByNumber(protoreflect.EnumNumber(state)) != nil
		if KnownState(state) != known || StateName(state) != pb.TaskState(state).String() ||
			Terminal(state) != terminal[pb.TaskState(state)] {
			t.Errorf("state %d: known %v, name %s, terminal %v", state, KnownState(state), StateName(state), Terminal(state))
		}
	}
}
