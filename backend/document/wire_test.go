package document_test

import (
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirepb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// TestDataModelIsA2A: our data model equals lf.a2a.v1, on the wire and as JSON, so that the bytes of one are the other.
func TestDataModelIsA2A(t *testing.T) {
	t.Parallel()
	ours, theirs := pb.File_a2ataskstore_v1_model_proto, a2apb.File_a2av1_proto
	for i := range ours.Messages().Len() {
		m := ours.Messages().Get(i)
		if o := theirs.Messages().ByName(m.Name()); o == nil {
			t.Errorf("A2A has no message %s", m.Name())
		} else {
			sameMessage(t, m, o)
		}
	}
	for i := range ours.Enums().Len() {
		e := ours.Enums().Get(i)
		if o := theirs.Enums().ByName(e.Name()); o == nil {
			t.Errorf("A2A has no enum %s", e.Name())
		} else {
			sameEnum(t, e, o)
		}
	}
	if n := ours.Messages().Len(); n != 8 {
		t.Errorf("%d messages", n)
	}
}

// local is a name without its package: messages of the two models refer to their own.
func local(d protoreflect.Descriptor) string {
	name := string(d.FullName())
	for _, pkg := range []string{"a2ataskstore.v1.", "a2ataskstore.wire.v1.", "lf.a2a.v1."} {
		name = strings.TrimPrefix(name, pkg)
	}
	return name
}

func sameMessage(t *testing.T, a, b protoreflect.MessageDescriptor) {
	t.Helper()
	if a.Fields().Len() != b.Fields().Len() {
		t.Errorf("%s has %d fields, A2A's %d", a.Name(), a.Fields().Len(), b.Fields().Len())
	}
	for i := range a.Fields().Len() {
		f := a.Fields().Get(i)
		o := b.Fields().ByNumber(f.Number())
		if o == nil {
			t.Errorf("%s: A2A has no field %d", a.Name(), f.Number())
			continue
		}
		if f.Name() != o.Name() || f.JSONName() != o.JSONName() || f.Kind() != o.Kind() || f.Cardinality() != o.Cardinality() ||
			f.IsMap() != o.IsMap() || f.IsPacked() != o.IsPacked() || f.HasPresence() != o.HasPresence() {
			t.Errorf("%s: field %v, A2A's is %v", a.Name(), f, o)
		}
		if (f.ContainingOneof() == nil) != (o.ContainingOneof() == nil) ||
			(f.ContainingOneof() != nil && f.ContainingOneof().Name() != o.ContainingOneof().Name()) {
			t.Errorf("%s.%s is in another oneof", a.Name(), f.Name())
		}
		switch {
		case f.Message() != nil:
			if o.Message() == nil || local(f.Message()) != local(o.Message()) {
				t.Errorf("%s.%s holds another message", a.Name(), f.Name())
			}
		case f.Enum() != nil:
			if o.Enum() == nil || local(f.Enum()) != local(o.Enum()) {
				t.Errorf("%s.%s holds another enum", a.Name(), f.Name())
			}
		}
	}
}

func sameEnum(t *testing.T, a, b protoreflect.EnumDescriptor) {
	t.Helper()
	if a.Values().Len() != b.Values().Len() || a.IsClosed() != b.IsClosed() {
		t.Errorf("%s has %d values, A2A's %d", a.Name(), a.Values().Len(), b.Values().Len())
	}
	for i := range a.Values().Len() {
		v := a.Values().Get(i)
		if o := b.Values().ByNumber(v.Number()); o == nil || o.Name() != v.Name() {
			t.Errorf("%s: value %d is %s, A2A's %v", a.Name(), v.Number(), v.Name(), o)
		}
	}
}

// TestWireTwin: the twin has the fields of the public API, and bytes exactly where a payload is meant. Where callers send a
// single payload the twin takes several, so that the second is seen.
func TestWireTwin(t *testing.T) {
	t.Parallel()
	payloads := pb.File_a2ataskstore_v1_model_proto.Messages()
	public := pb.File_a2ataskstore_v1_task_store_proto.Messages()
	twins := wirepb.File_a2ataskstore_wire_v1_wire_proto.Messages()
	for i := range twins.Len() {
		twin := twins.Get(i)
		m := public.ByName(twin.Name())
		if m == nil {
			t.Errorf("the API has no message %s", twin.Name())
			continue
		}
		if twin.Fields().Len() != m.Fields().Len() {
			t.Errorf("%s has %d fields, its twin %d", m.Name(), m.Fields().Len(), twin.Fields().Len())
		}
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			o := twin.Fields().ByNumber(f.Number())
			if o == nil || f.Name() != o.Name() || f.JSONName() != o.JSONName() {
				t.Errorf("%s: field %d has no twin", m.Name(), f.Number())
				continue
			}
			where := string(m.Name()) + "." + string(f.Name())
			if f.Message() == nil || payloads.ByName(f.Message().Name()) == nil {
				if f.Kind() != o.Kind() || f.Cardinality() != o.Cardinality() || f.IsPacked() != o.IsPacked() ||
					f.HasOptionalKeyword() != o.HasOptionalKeyword() {
					t.Errorf("%s is %v, its twin %v", where, f, o)
				}
				if f.Message() != nil && local(f.Message()) != local(o.Message()) {
					t.Errorf("%s holds %s, its twin %s", where, f.Message().FullName(), o.Message().FullName())
				}
				if f.Enum() != nil && f.Enum().FullName() != o.Enum().FullName() {
					t.Errorf("%s holds another enum than its twin", where)
				}
				continue
			}
			if o.Kind() != protoreflect.BytesKind {
				t.Errorf("%s holds a payload, its twin %v", where, o.Kind())
			}
			sent := strings.HasSuffix(string(m.Name()), "Request") ||
				slices.Contains([]string{"EventInput", "TaskDelta", "AppendParts", "ArtifactList"}, string(m.Name()))
			if want := sent || f.IsList(); o.IsList() != want {
				t.Errorf("%s: the twin is a list: %v, want %v", where, o.IsList(), want)
			}
		}
	}
	// Every message of the API that holds a payload, or a message that does, has a twin.
	var holds func(m protoreflect.MessageDescriptor) bool
	holds = func(m protoreflect.MessageDescriptor) bool {
		for i := range m.Fields().Len() {
			if f := m.Fields().Get(i).Message(); f != nil && (payloads.ByName(f.Name()) == f || (public.ByName(f.Name()) == f && holds(f))) {
				return true
			}
		}
		return false
	}
	for i := range public.Len() {
		m := public.Get(i)
		if twin := twins.ByName(m.Name()); (twin != nil) != holds(m) {
			t.Errorf("%s holds a payload: %v, has a twin: %v", m.Name(), holds(m), twin != nil)
		}
	}
}
