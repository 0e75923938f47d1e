package document_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func parseTask(b []byte) error {
	_, err := document.ParseTask(b)
	return err
}

func parseEvent(b []byte) error {
	_, err := document.ParseEvent(b)
	return err
}

// wrap encodes a value as a field.
func wrap(f protoreflect.FieldDescriptor, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), value)
}

// eachPath calls fn for every field that can be reached from a message without passing a message twice. outer encodes a
// value of the field's message into the outermost one.
func eachPath(d protoreflect.MessageDescriptor, fn func(path string, f protoreflect.FieldDescriptor, outer func([]byte) []byte)) {
	var walk func(d protoreflect.MessageDescriptor, path string, above []protoreflect.FullName, outer func([]byte) []byte)
	walk = func(d protoreflect.MessageDescriptor, path string, above []protoreflect.FullName, outer func([]byte) []byte) {
		for _, name := range above {
			if name == d.FullName() {
				return
			}
		}
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			here := strings.TrimPrefix(path+"."+string(f.Name()), ".")
			fn(here, f, outer)
			if f.Message() != nil {
				walk(f.Message(), here, append(above[:len(above):len(above)], d.FullName()), func(b []byte) []byte {
					return outer(wrap(f, b))
				})
			}
		}
	}
	walk(d, "", nil, func(b []byte) []byte { return b })
}

// roots are the payloads that are validated on their own.
var roots = map[string]struct {
	message proto.Message
	parse   func([]byte) error
}{
	"Task":           {&pb.Task{}, parseTask},
	"StreamResponse": {&pb.StreamResponse{}, parseEvent},
	"TaskStatus": {&pb.TaskStatus{}, func(b []byte) error {
		_, err := document.ParseStatus(b)
		return err
	}},
	"Artifact": {&pb.Artifact{}, func(b []byte) error {
		_, err := document.ParseArtifact(b)
		return err
	}},
	"Message": {&pb.Message{}, func(b []byte) error {
		_, err := document.ParseHistory([][]byte{{}, b})
		return err
	}},
	"Part": {&pb.Part{}, func(b []byte) error {
		_, err := document.ParseParts([][]byte{{}, b})
		return err
	}},
	"Artifacts": {&pb.Artifact{}, func(b []byte) error {
		_, err := document.ParseArtifacts([][]byte{{}, b})
		return err
	}},
}

// refused wants a refusal that names the path and holds no content.
func refused(t *testing.T, err error, path, detail string) {
	t.Helper()
	e, ok := errors.AsType[*document.Error](err)
	if !ok {
		t.Errorf("%s: error %v, want %q", path, err, detail)
		return
	}
	if e.Path != path || !strings.Contains(e.Detail, detail) {
		t.Errorf("error %q at %q, want %q at %q", e.Detail, e.Path, detail, path)
	}
}

func TestRepeatedSingularMessagesAreRefused(t *testing.T) {
	t.Parallel()
	for name, root := range roots {
		tried := 0
		eachPath(root.message.ProtoReflect().Descriptor(), func(path string, f protoreflect.FieldDescriptor, outer func([]byte) []byte) {
			if f.Message() == nil {
				return
			}
			tried++
			once := wrap(f, nil)
			if err := root.parse(outer(once)); err != nil {
				t.Errorf("%s: %s once: %v", name, path, err)
			}
			twice := outer(append(once[:len(once):len(once)], once...))
			if f.Cardinality() == protoreflect.Repeated {
				if err := root.parse(twice); err != nil {
					t.Errorf("%s: %s twice: %v", name, path, err)
				}
				return
			}
			detail := "occurs twice"
			if f.ContainingOneof() != nil && f.Parent() == root.message.ProtoReflect().Descriptor() && name == "StreamResponse" {
				detail = "one payload"
			}
			refused(t, root.parse(twice), path, detail)
		})
		if tried < 3 {
			t.Errorf("%s: %d fields tried", name, tried)
		}
	}
}

func TestInvalidUTF8IsRefused(t *testing.T) {
	t.Parallel()
	for name, root := range roots {
		eachPath(root.message.ProtoReflect().Descriptor(), func(path string, f protoreflect.FieldDescriptor, outer func([]byte) []byte) {
			if f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind {
				return
			}
			for _, valid := range []string{"", "\x00", "ü", "\U0010ffff", "\ufffd"} {
				if err := root.parse(outer(wrap(f, []byte(valid)))); err != nil {
					t.Errorf("%s: %s = %q: %v", name, path, valid, err)
				}
			}
			for _, invalid := range []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80"} {
				err := root.parse(outer(wrap(f, []byte(invalid))))
				if f.Kind() == protoreflect.BytesKind {
					if err != nil {
						t.Errorf("%s: bytes %s: %v", name, path, err)
					}
					continue
				}
				refused(t, err, path, "invalid UTF-8")
			}
		})
	}
}

// nested returns an encoded Value in which messages nest to the depth, itself included: a list in a list.
func nested(depth int) []byte {
	b := []byte{}
	for level := depth - 1; level >= 1; level-- {
		num := protowire.Number(6) // Value.list_value
		if level%2 == 0 {
			num = 1 // ListValue.values
		}
		b = protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), b)
	}
	return b
}

// depthOf counts how deep messages nest in a message, itself included.
func depthOf(m protoreflect.Message) int {
	deepest := 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				deepest = max(deepest, 1+depthOf(v.Message())) // and the entry
				return true
			})
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				deepest = max(deepest, depthOf(v.List().Get(i).Message()))
			}
		case f.Message() != nil:
			deepest = max(deepest, depthOf(v.Message()))
		}
		return true
	})
	return deepest + 1
}

// TestDepth: a payload is refused exactly if, in its place in a task or an event, it nests deeper than MaxDepth.
func TestDepth(t *testing.T) {
	t.Parallel()
	field := func(num protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), b)
	}
	entry := func(b []byte) []byte { return field(1, field(2, b)) } // Struct.fields.value
	for depth := 70; depth < 100; depth++ {
		value := nested(depth)
		for _, tc := range []struct {
			name   string
			parse  func([]byte) error
			b      []byte
			above  int
			parsed proto.Message
		}{
			{"metadata", parseTask, field(6, entry(value)), 3, &pb.Task{}},
			{"part", parseTask, field(4, field(4, field(4, value))), 3, &pb.Task{}},
			{"status message", parseTask, field(3, field(2, field(6, entry(value)))), 5, &pb.Task{}},
			{"artifact alone", roots["Artifact"].parse, field(4, field(4, value)), 3, nil},
			{"message alone", roots["Message"].parse, field(6, entry(value)), 4, nil},
			{"part alone", roots["Part"].parse, field(5, entry(value)), 5, nil},
			{"status alone", roots["TaskStatus"].parse, field(2, field(5, field(4, value))), 4, nil},
			{"event", parseEvent, field(1, field(4, field(4, field(4, value)))), 4, &pb.StreamResponse{}},
		} {
			err := tc.parse(tc.b)
			deep := tc.above+depth > document.MaxDepth
			if tc.parsed != nil {
				if uErr := proto.Unmarshal(tc.b, tc.parsed); uErr != nil || depthOf(tc.parsed.ProtoReflect()) != tc.above+depth {
					t.Fatalf("%s: %v, depth %d, want %d", tc.name, uErr, depthOf(tc.parsed.ProtoReflect()), tc.above+depth)
				}
			}
			if (err != nil) != deep || (deep && !strings.Contains(err.Error(), "nested deeper")) {
				t.Errorf("%s at %d levels: %v", tc.name, tc.above+depth, err)
			}
		}
	}
	// Unknown groups nest, too; unknown bytes do not.
	for _, n := range []int{document.MaxDepth - 1, document.MaxDepth} {
		open := strings.Repeat(string(protowire.AppendTag(nil, 20, protowire.StartGroupType)), n)
		end := strings.Repeat(string(protowire.AppendTag(nil, 20, protowire.EndGroupType)), n)
		if err := parseTask([]byte(open + end)); (err != nil) != (n == document.MaxDepth) {
			t.Errorf("%d groups: %v", n, err)
		}
	}
	million := []byte(strings.Repeat(string(protowire.AppendTag(nil, 20, protowire.StartGroupType)), 1_000_000))
	if err := parseTask(million); err == nil {
		t.Error("a million open groups are a task")
	}
}

func TestMalformedIsRefused(t *testing.T) {
	t.Parallel()
	for _, b := range []string{
		"\x0a", "\x0a\x05a", "\x80", "\x08", "\x0b", "\x0c", "\x0d\x00\x00", "\x09\x00", "\x0e", "\x0f", "\x00\x00", "\x0b\x14",
		"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x1a\x02\x08", "\xfa\xff\xff\xff\xff\x7f\x00", "\x22\x03\x22\x05a",
		"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x80\x80\x80\x80\x10\x00", "\xf8\xff\xff\xff\x3f\x00",
	} {
		if err := proto.Unmarshal([]byte(b), &pb.Task{}); err == nil {
			t.Errorf("%q is a task after all", b)
		}
		if err := parseTask([]byte(b)); err == nil {
			t.Errorf("%q was taken", b)
		}
		if err := parseEvent([]byte("\x0a" + string(rune(len(b))) + b)); err == nil {
			t.Errorf("an event with %q was taken", b)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), []byte("later"))
	for _, tc := range []struct {
		name          string
		event         *pb.StreamResponse
		more          []byte
		task, context string
		detail        string
	}{
		{name: "task", event: &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: &pb.Task{
			Id: "t", ContextId: "c", History: []*pb.Message{{TaskId: "other", ContextId: "other"}},
		}}}, task: "t", context: "c"},
		{name: "message", event: &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{
			MessageId: "m", TaskId: "t", ContextId: "c",
		}}}, task: "t", context: "c"},
		{name: "status update", event: &pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{
			StatusUpdate: &pb.TaskStatusUpdateEvent{TaskId: "t", ContextId: "c"},
		}}, task: "t", context: "c"},
		{name: "artifact update", event: &pb.StreamResponse{Payload: &pb.StreamResponse_ArtifactUpdate{
			ArtifactUpdate: &pb.TaskArtifactUpdateEvent{TaskId: "t", ContextId: "c"},
		}}, task: "t", context: "c", more: unknown},
		{name: "no ids", event: &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{}}}},
		{name: "a later kind", event: &pb.StreamResponse{}, more: unknown},
		{name: "nothing", event: &pb.StreamResponse{}, detail: "no payload"},
		{
			name: "two kinds", event: &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: &pb.Task{}}},
			more: []byte{2<<3 | 2, 0}, detail: "one payload",
		},
	} {
		b, err := proto.Marshal(tc.event)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := document.ParseEvent(append(b, tc.more...))
		if tc.detail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil || ev.TaskID != tc.task || ev.ContextID != tc.context || string(ev.Bytes) != string(append(b, tc.more...)) {
			t.Errorf("%s: %+v, %v", tc.name, ev, err)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ b, want string }{
		{"\x1a\x04\x12\x02\x0a\x05", "status.message: malformed protobuf"},
		{"\x1a\x00\x1a\x00", "status: occurs twice"},
		{"\x80", "malformed protobuf"},
	} {
		if err := parseTask([]byte(tc.b)); fmt.Sprint(err) != tc.want {
			t.Errorf("%q: %v, want %q", tc.b, err, tc.want)
		}
	}
}
