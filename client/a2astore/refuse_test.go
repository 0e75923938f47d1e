package a2astore

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/proto"
)

// A type outside a2a-go can pose as content by embedding.
type foreignContent struct{ a2a.Text }

func TestRefused(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	early := time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC)
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	dataPart := func(v any) *a2a.Task {
		text := a2a.NewTextPart("x")
		return &a2a.Task{Artifacts: []*a2a.Artifact{
			{}, {}, {Parts: a2a.ContentParts{text, a2a.NewDataPart(v)}},
		}}
	}
	const data = "artifacts[2].parts[1].data"
	cycle := map[string]any{}
	cycle["self"] = []any{cycle}
	var pointer any
	pointer = &pointer

	tests := []struct {
		name string
		task *a2a.Task
		path string // how the error starts
	}{
		{"nil task", nil, "is nil"},
		{"id", &a2a.Task{ID: bad}, "id: not valid UTF-8"},
		{"context id", &a2a.Task{ContextID: bad}, "contextId: "},
		{"state", &a2a.Task{Status: a2a.TaskStatus{State: "completed"}}, `status.state: unknown task state "completed"`},
		{"state, synthetic but known", &a2a.Task{Status: a2a.TaskStatus{State: "TASK_STATE_3"}}, "status.state: "},
		{"state, not canonical", &a2a.Task{Status: a2a.TaskStatus{State: "TASK_STATE_09"}}, "status.state: "},
		{"state, too large", &a2a.Task{Status: a2a.TaskStatus{State: "TASK_STATE_2147483648"}}, "status.state: "},
		{"time too early", &a2a.Task{Status: a2a.TaskStatus{Timestamp: &early}}, "status.timestamp: "},
		{"time too late", &a2a.Task{Status: a2a.TaskStatus{Timestamp: &late}}, "status.timestamp: "},
		{"role", &a2a.Task{Status: a2a.TaskStatus{Message: &a2a.Message{Role: "user"}}}, "status.message.role: "},
		{"message id", &a2a.Task{History: []*a2a.Message{{ID: bad}}}, "history[0].messageId: "},
		{"nil message", &a2a.Task{History: []*a2a.Message{{}, nil}}, "history[1]: is nil"},
		{"extension", &a2a.Task{History: []*a2a.Message{{Extensions: []string{"", bad}}}}, "history[0].extensions[1]: "},
		{"reference", &a2a.Task{History: []*a2a.Message{{ReferenceTasks: []a2a.TaskID{bad}}}}, "history[0].referenceTaskIds[0]: "},
		{"nil artifact", &a2a.Task{Artifacts: []*a2a.Artifact{nil}}, "artifacts[0]: is nil"},
		{"artifact name", &a2a.Task{Artifacts: []*a2a.Artifact{{Name: bad}}}, "artifacts[0].name: "},
		{"nil part", &a2a.Task{Artifacts: []*a2a.Artifact{{Parts: a2a.ContentParts{nil}}}}, "artifacts[0].parts[0]: is nil"},
		{"text", &a2a.Task{Artifacts: []*a2a.Artifact{{Parts: a2a.ContentParts{a2a.NewTextPart(bad)}}}}, "artifacts[0].parts[0].text: "},
		{"url", &a2a.Task{Artifacts: []*a2a.Artifact{{Parts: a2a.ContentParts{{Content: a2a.URL(bad)}}}}}, "artifacts[0].parts[0].url: "},
		{"foreign content", &a2a.Task{Artifacts: []*a2a.Artifact{{Parts: a2a.ContentParts{{Content: foreignContent{}}}}}}, "artifacts[0].parts[0].content: "},
		{"pointer to content", &a2a.Task{Artifacts: []*a2a.Artifact{{Parts: a2a.ContentParts{{Content: &a2a.Data{}}}}}}, "artifacts[0].parts[0].content: "},
		{"metadata value", &a2a.Task{Metadata: map[string]any{"a": []any{1, bad}}}, `metadata["a"][1]: not valid UTF-8`},
		{"metadata key", &a2a.Task{Metadata: map[string]any{bad: 1}}, `metadata["a\xffb"]: not valid UTF-8`},
		{"int", dataPart(int64(maxExact + 1)), data + ": 9007199254740993 is not exact"},
		{"max int", dataPart(int64(math.MaxInt64)), data + ": "},
		{"max uint", dataPart(uint64(math.MaxUint64)), data + ": "},
		{"uintptr", dataPart(uintptr(1)), data + ": "},
		{"complex", dataPart(complex(1, 1)), data + ": "},
		{"json number, int", dataPart(map[string]any{"total": json.Number("9007199254740993")}), data + `["total"]: 9007199254740993 is not exact`},
		{"json number, fraction", dataPart(json.Number("0.1234567890123456789")), data + ": "},
		{"json number, range", dataPart(json.Number("1e999")), data + ": "},
		{"json number, underflow", dataPart(json.Number("1e-999")), data + ": "},
		{"json number, huge exponent", dataPart(json.Number("1e-99999999999999999999")), data + ": "},
		{"not a number", dataPart(json.Number("0x10")), data + ": "},
		{"no number", dataPart(json.Number("")), data + ": "},
		{"infinite number", dataPart(json.Number("inf")), data + ": "},
		{"bytes", dataPart([]byte("x")), data + ": []uint8 cannot be stored"},
		{"raw JSON", dataPart(json.RawMessage(`{}`)), data + ": "},
		{"array of bytes", dataPart([4]byte{}), data + ": "},
		{"struct", dataPart(struct{ A int }{1}), data + ": "},
		{"struct in typed list", dataPart([]any{[]struct{}{{}}}), data + "[0][0]: "},
		{"time", dataPart(time.Now()), data + ": time.Time has a JSON form of its own"},
		{"pointer to time", dataPart(new(time.Time)), data + ": "},
		{"big int", dataPart(big.NewInt(1)), data + ": "},
		{"type with its own JSON", dataPart(a2a.TaskStateWorking), data + ": "},
		{"int keys", dataPart(map[int]string{1: "x"}), data + ": "},
		{"func", dataPart(func() {}), data + ": "},
		{"chan", dataPart(make(chan int)), data + ": "},
		{"cycle", dataPart(cycle), data + `["self"][0]["self"]`},
		{"cycle of pointers", dataPart(pointer), data + ": nested deeper"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := encodeTask(tc.task)
			if err == nil {
				t.Fatal("accepted")
			}
			if !errors.Is(err, a2a.ErrInvalidParams) {
				t.Errorf("%v does not wrap ErrInvalidParams", err)
			}
			if !strings.HasPrefix(err.Error(), tc.path) {
				t.Errorf("error %q does not start with %q", err, tc.path)
			}
			if len(err.Error()) > 512 || !utf8.ValidString(err.Error()) {
				t.Errorf("error text of %d bytes, or not UTF-8: %q", len(err.Error()), err)
			}
		})
	}
}

func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]a2a.Event{
		"is not an event":                      a2a.StreamResponse{},
		"<nil> is not an event":                nil,
		"task: is nil":                         (*a2a.Task)(nil),
		"message: is nil":                      (*a2a.Message)(nil),
		"statusUpdate: is nil":                 (*a2a.TaskStatusUpdateEvent)(nil),
		"artifactUpdate: is nil":               (*a2a.TaskArtifactUpdateEvent)(nil),
		"statusUpdate.taskId: not":             &a2a.TaskStatusUpdateEvent{TaskID: "\xff"},
		"statusUpdate.status.state: unknown":   &a2a.TaskStatusUpdateEvent{Status: a2a.TaskStatus{State: "x"}},
		`statusUpdate.metadata["k"]: `:         &a2a.TaskStatusUpdateEvent{Metadata: map[string]any{"k": []byte{}}},
		"artifactUpdate.contextId: not":        &a2a.TaskArtifactUpdateEvent{ContextID: "\xff"},
		"artifactUpdate.artifact.parts[0]: is": &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{Parts: a2a.ContentParts{nil}}},
		`artifactUpdate.metadata["k"]: `:       &a2a.TaskArtifactUpdateEvent{Metadata: map[string]any{"k": []byte{}}},
	}
	for text, event := range tests {
		_, err := encodeEvent(event)
		if !errors.Is(err, a2a.ErrInvalidParams) || !strings.Contains(err.Error(), text) {
			t.Errorf("encodeEvent(%#v) = %v, want %q", event, err, text)
		}
	}
}

// The deepest payload that is accepted can be read by parsers that stop at 100 levels, also inside the replies.
func TestDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int, wrap func(any) any) any {
		var v any = "x"
		for range n {
			v = wrap(v)
		}
		return v
	}
	object := func(v any) any { return map[string]any{"k": v} }
	list := func(v any) any { return []any{v} }
	typed := func(v any) any { return myList{v} }
	pointer := func(v any) any { return &v }

	tests := []struct {
		name    string
		deepest any
		tooDeep any
	}{
		// Task, its Struct and entry; then three levels for each object, two for each list, and the Value of the string.
		{"objects", nested(28, object), nested(29, object)},
		{"lists", nested(43, list), nested(44, list)},
		{"typed lists", nested(43, typed), nested(44, typed)},
		{"pointers", nested(maxDepth/2-1, pointer), nested(maxDepth/2+1, pointer)},
	}
	for _, tc := range tests {
		pb, err := encodeTask(&a2a.Task{Metadata: map[string]any{"m": tc.deepest}})
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		b, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth}).Unmarshal(b, pb); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if _, err := encodeTask(&a2a.Task{Metadata: map[string]any{"m": tc.tooDeep}}); err == nil {
			t.Errorf("%s: accepted deeper than %d levels", tc.name, maxDepth)
		}
	}
}

func TestExactNumbers(t *testing.T) {
	t.Parallel()
	accepted := map[json.Number]float64{
		"0": 0, "1": 1, "-1": -1, "1.50": 1.5, "0.1": 0.1, "1e3": 1000, "1E+3": 1000, "100e-2": 1, "0e999999999": 0,
		"0.000001": 1e-6, "9007199254740992": maxExact, "-9007199254740992": -maxExact,
		"1152921504606846976": 1 << 60, "18446744073709549568": 18446744073709549568, "1.7976931348623157e308": math.MaxFloat64,
		"5e-324": math.SmallestNonzeroFloat64, "123456789012345680000": 123456789012345680000,
	}
	for in, want := range accepted {
		v, err := encodeValue(in, 1)
		if err != nil || v.GetNumberValue() != want {
			t.Errorf("encodeValue(%s) = %v, %v", in, v, err)
		}
	}
	if v, err := encodeValue(json.Number("-0"), 1); err != nil || !math.Signbit(v.GetNumberValue()) {
		t.Errorf("encodeValue(-0) = %v, %v", v, err)
	}
	for _, in := range []any{int64(math.MinInt64), int64(1 << 60), uint64(1 << 63)} {
		if _, err := encodeValue(in, 1); err != nil {
			t.Errorf("encodeValue(%v): %v", in, err)
		}
	}
}
