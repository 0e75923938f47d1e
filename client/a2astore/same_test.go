package a2astore

import (
	"bytes"
	"math"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// canonical are bytes that two messages share only if they hold the same, to the last bit of a number.
func canonical(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return b
}

// Two things are the same if and only if they are encoded the same.
func TestSameAsEncoded(t *testing.T) {
	t.Parallel()
	check := func(t *rapid.T, what string, got bool, a, b proto.Message) {
		tb := rapidTB{t: t}
		if want := bytes.Equal(canonical(tb, a), canonical(tb, b)); got != want {
			t.Fatalf("same %s: %v, want %v\n%v\n%v", what, got, want, a, b)
		}
	}
	// Two that are drawn apart are seldom the same, so one is compared with itself, too, and with what is read of it and copied.
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawMessage(t), drawMessage(t)
		x, _ := encodeMessage(a.in)
		y, _ := encodeMessage(b.in)
		check(t, "message", sameMessage(a.in, x), x, x)
		check(t, "message", sameMessage(gobCopy(rapidTB{t: t}, a.want), x), x, x)
		check(t, "message", sameMessage(a.in, y), x, y)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawArtifact(t), drawArtifact(t)
		x, _ := encodeArtifact(a.in)
		y, _ := encodeArtifact(b.in)
		check(t, "artifact", sameArtifact(a.in, x), x, x)
		check(t, "artifact", sameArtifact(gobCopy(rapidTB{t: t}, a.want), x), x, x)
		check(t, "artifact", sameArtifact(a.in, y), x, y)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPart(t), drawPart(t)
		x, _ := encodePart(a.in)
		y, _ := encodePart(b.in)
		check(t, "part", samePart(a.in, x), x, x)
		check(t, "part", samePart(a.want, x), x, x)
		check(t, "part", samePart(a.in, y), x, y)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawStatus(t), drawStatus(t)
		x, _ := encodeStatus(a.in)
		y, _ := encodeStatus(b.in)
		check(t, "status", sameStatus(&a.in, x), x, x)
		check(t, "status", sameStatus(&a.want, x), x, x)
		check(t, "status", sameStatus(&a.in, y), x, y)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawValue(t, 3), drawValue(t, 3)
		x, _ := encodeValue(a.in, 1)
		y, _ := encodeValue(b.in, 1)
		check(t, "value", sameValue(a.in, x), x, x)
		check(t, "value", sameValue(a.want, x), x, x)
		check(t, "value", sameValue(a.in, y), x, y)
	})
}

// What differs by one thing is not the same, though it may be read as the same.
func TestNotSame(t *testing.T) {
	t.Parallel()
	number := structpb.NewNumberValue
	values := []struct {
		name string
		v    any
		pb   *structpb.Value
	}{
		{"zeros", 0.0, number(math.Copysign(0, -1))},
		{"NaNs", math.NaN(), number(math.Float64frombits(math.Float64bits(math.NaN()) ^ 1))},
		{"int that is not exact", maxExact + 1, number(maxExact)},
		{"bytes", []byte{1}, structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{number(1)}})},
		{"struct", struct{}{}, structpb.NewStructValue(&structpb.Struct{})},
		{"nil and nothing", nil, &structpb.Value{}},
		{"nil and no value", nil, nil},
		{"bool and number", true, number(1)},
		{"text and number", "1", number(1)},
		{"other key", map[string]any{"a": nil}, structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"b": structpb.NewNullValue()}})},
		{"longer list", []any{nil}, structpb.NewListValue(&structpb.ListValue{})},
		{"shorter list", []any{}, structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNullValue()}})},
	}
	for _, tc := range values {
		if sameValue(tc.v, tc.pb) {
			t.Errorf("%s: %v is the same as %v", tc.name, tc.v, tc.pb)
		}
	}
	if sameStatus(&a2a.TaskStatus{}, nil) {
		t.Error("no status is the same as an empty one")
	}
	if sameStatus(&a2a.TaskStatus{}, &taskstorev1.TaskStatus{Timestamp: &timestamppb.Timestamp{Nanos: -1}}) {
		t.Error("a time that is none is the same as none")
	}
	if sameMessage(nil, &taskstorev1.Message{}) || sameArtifact(nil, &taskstorev1.Artifact{}) || samePart(nil, &taskstorev1.Part{}) {
		t.Error("nil is the same as something empty")
	}
	if sameMessage(&a2a.Message{Role: "robot"}, &taskstorev1.Message{}) {
		t.Error("a role that cannot be stored is the same as one that is")
	}
	if sameStruct(nil, &structpb.Struct{}) || sameStruct(map[string]any{}, nil) {
		t.Error("no metadata is the same as empty metadata")
	}
	if samePart(&a2a.Part{Content: a2a.Raw{}}, &taskstorev1.Part{}) || samePart(&a2a.Part{}, &taskstorev1.Part{Content: &taskstorev1.Part_Text{}}) {
		t.Error("no content is the same as empty content")
	}
}

func TestComparingAllocatesNothing(t *testing.T) {
	task := plainTask()
	task.Metadata["n"] = 3
	pb, err := encodeTask(task)
	if err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(100, func() {
		if !sameStatus(&task.Status, pb.GetStatus()) || !sameArtifact(task.Artifacts[0], pb.GetArtifacts()[0]) ||
			!sameMessage(task.History[0], pb.GetHistory()[0]) || !sameStruct(task.Metadata, pb.GetMetadata()) {
			t.Error("not the same")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
