package a2astore

import (
	"encoding/json"
	"math"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"pgregory.net/rapid"
)

// The generators draw what an agent may write, and what a reader must then get: the same under the rules of the package
// comment.

type drawn[T any] struct{ in, want T }

func same[T any](v T) drawn[T] { return drawn[T]{v, v} }

var anyString = rapid.OneOf(
	rapid.String(),
	rapid.SampledFrom([]string{"", "\x00", "a\x00b", "\u2028", "\ufeff", "\U0010ffff", "\ufffd", "\"\\/<>&", "e\u0301", " ", "null"}),
)

type (
	myString string
	myInt    int16
	myBool   bool
	myFloat  float32
	myMap    map[myString]any
	myList   []any
)

const maxExact = 1 << 53

func drawValue(t *rapid.T, levels int) drawn[any] {
	kinds := 13
	if levels > 0 {
		kinds = 20
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return same[any](nil)
	case 1:
		return same[any](rapid.Bool().Draw(t, "bool"))
	case 2:
		return same[any](rapid.Float64().Draw(t, "float"))
	case 3:
		return same[any](rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
			math.MaxFloat64, math.SmallestNonzeroFloat64, maxExact + 2}).Draw(t, "odd float"))
	case 4, 5:
		return same[any](anyString.Draw(t, "string"))
	case 6:
		n := rapid.Int64Range(-maxExact, maxExact).Draw(t, "int")
		return drawn[any]{n, float64(n)}
	case 7:
		n := rapid.Uint64Range(0, maxExact).Draw(t, "uint")
		return drawn[any]{uint(n), float64(n)}
	case 8:
		n := rapid.Int16().Draw(t, "small int")
		return drawn[any]{myInt(n), float64(n)}
	case 9:
		s := anyString.Draw(t, "named string")
		return drawn[any]{myString(s), s}
	case 10:
		f := rapid.Float32().Draw(t, "float32")
		return drawn[any]{myFloat(f), float64(f)}
	case 11:
		f := rapid.Float64().Draw(t, "json number")
		b, _ := json.Marshal(f)
		return drawn[any]{json.Number(b), f}
	case 12:
		b := rapid.Bool().Draw(t, "bool pointer")
		if named := myBool(b); b {
			return drawn[any]{&named, b}
		}
		return drawn[any]{(*myBool)(nil), nil}
	case 13, 14:
		m := drawMap(t, levels-1)
		return drawn[any]{m.in, m.want}
	case 15, 16:
		l := drawList(t, levels-1)
		return drawn[any]{l.in, l.want}
	case 17:
		m := drawMap(t, levels-1)
		in := make(myMap, len(m.in))
		for k, v := range m.in {
			in[myString(k)] = v
		}
		return drawn[any]{&in, m.want}
	case 18:
		l := drawList(t, levels-1)
		return drawn[any]{myList(l.in), l.want}
	default:
		texts := rapid.SliceOfN(anyString, 0, 3).Draw(t, "texts")
		want := make([]any, len(texts))
		for i, s := range texts {
			want[i] = s
		}
		return drawn[any]{texts, want}
	}
}

func drawList(t *rapid.T, levels int) drawn[[]any] {
	n := rapid.IntRange(-1, 3).Draw(t, "length")
	d := drawn[[]any]{want: []any{}}
	for range n {
		v := drawValue(t, levels)
		d.in, d.want = append(d.in, v.in), append(d.want, v.want)
	}
	if n == 0 {
		d.in = []any{}
	}
	return d
}

func drawMap(t *rapid.T, levels int) drawn[map[string]any] {
	n := rapid.IntRange(-1, 3).Draw(t, "size")
	d := drawn[map[string]any]{want: map[string]any{}}
	if n >= 0 {
		d.in = map[string]any{}
	}
	for range n {
		k, v := anyString.Draw(t, "key"), drawValue(t, levels)
		d.in[k], d.want[k] = v.in, v.want
	}
	return d
}

func drawMetadata(t *rapid.T) drawn[map[string]any] {
	m := drawMap(t, 3)
	if m.in == nil {
		m.want = nil
	}
	return m
}

// drawEach draws a list; nil and empty ones are read as empty.
func drawEach[T any](t *rapid.T, empty []T, draw func(*rapid.T) drawn[T]) drawn[[]T] {
	n := rapid.IntRange(-1, 3).Draw(t, "count")
	d := drawn[[]T]{want: empty}
	if n >= 0 {
		d.in = []T{}
	}
	for range n {
		e := draw(t)
		d.in, d.want = append(d.in, e.in), append(d.want, e.want)
	}
	return d
}

func drawTexts[T ~string](t *rapid.T) drawn[[]T] {
	return drawEach(t, nil, func(t *rapid.T) drawn[T] { return same(T(anyString.Draw(t, "text"))) })
}

func drawPart(t *rapid.T) drawn[*a2a.Part] {
	meta := drawMetadata(t)
	in := a2a.Part{Filename: anyString.Draw(t, "filename"), MediaType: anyString.Draw(t, "media type"), Metadata: meta.in}
	want := in
	want.Metadata = meta.want
	switch rapid.IntRange(0, 5).Draw(t, "content") {
	case 0:
	case 1:
		in.Content = a2a.Text(anyString.Draw(t, "text"))
		want.Content = in.Content
	case 2:
		in.Content = a2a.Raw(rapid.SliceOf(rapid.Byte()).Draw(t, "raw"))
		want.Content = in.Content
	case 3:
		in.Content, want.Content = a2a.Raw(nil), a2a.Raw{}
	case 4:
		in.Content = a2a.URL(anyString.Draw(t, "url"))
		want.Content = in.Content
	case 5:
		v := drawValue(t, 4)
		in.Content, want.Content = a2a.Data{Value: v.in}, a2a.Data{Value: v.want}
	}
	return drawn[*a2a.Part]{&in, &want}
}

func drawParts(t *rapid.T) drawn[[]*a2a.Part] { return drawEach(t, []*a2a.Part{}, drawPart) }

func drawMessage(t *rapid.T) drawn[*a2a.Message] {
	parts, meta := drawParts(t), drawMetadata(t)
	extensions, references := drawTexts[string](t), drawTexts[a2a.TaskID](t)
	in := a2a.Message{
		ID: anyString.Draw(t, "message id"), ContextID: anyString.Draw(t, "context id"), TaskID: a2a.TaskID(anyString.Draw(t, "task id")),
		Role:  rapid.SampledFrom([]a2a.MessageRole{"", a2a.MessageRoleUser, a2a.MessageRoleAgent, "ROLE_3", "ROLE_-1"}).Draw(t, "role"),
		Parts: parts.in, Metadata: meta.in, Extensions: extensions.in, ReferenceTasks: references.in,
	}
	want := in
	want.Parts, want.Metadata, want.Extensions, want.ReferenceTasks = parts.want, meta.want, extensions.want, references.want
	return drawn[*a2a.Message]{&in, &want}
}

func drawArtifact(t *rapid.T) drawn[*a2a.Artifact] {
	parts, meta, extensions := drawParts(t), drawMetadata(t), drawTexts[string](t)
	in := a2a.Artifact{
		ID: a2a.ArtifactID(anyString.Draw(t, "artifact id")), Name: anyString.Draw(t, "name"), Description: anyString.Draw(t, "description"),
		Parts: parts.in, Metadata: meta.in, Extensions: extensions.in,
	}
	want := in
	want.Parts, want.Metadata, want.Extensions = parts.want, meta.want, extensions.want
	return drawn[*a2a.Artifact]{&in, &want}
}

var states = []a2a.TaskState{
	a2a.TaskStateUnspecified, a2a.TaskStateSubmitted, a2a.TaskStateWorking, a2a.TaskStateCompleted, a2a.TaskStateFailed,
	a2a.TaskStateCanceled, a2a.TaskStateInputRequired, a2a.TaskStateRejected, a2a.TaskStateAuthRequired,
	"TASK_STATE_9", "TASK_STATE_2147483647", "TASK_STATE_-2147483648",
}

func drawStatus(t *rapid.T) drawn[a2a.TaskStatus] {
	in := a2a.TaskStatus{State: rapid.SampledFrom(states).Draw(t, "state")}
	want := in
	if rapid.Bool().Draw(t, "has message") {
		m := drawMessage(t)
		in.Message, want.Message = m.in, m.want
	}
	if rapid.Bool().Draw(t, "has time") {
		sec := rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds")
		utc := time.Unix(sec, rapid.Int64Range(0, 999999999).Draw(t, "nanos")).UTC()
		local := utc.In(time.FixedZone("somewhere", rapid.IntRange(-14*3600, 14*3600).Draw(t, "offset")))
		in.Timestamp, want.Timestamp = &local, &utc
	}
	return drawn[a2a.TaskStatus]{in, want}
}

func drawTask(t *rapid.T) drawn[*a2a.Task] {
	status, meta := drawStatus(t), drawMetadata(t)
	artifacts, history := drawEach(t, nil, drawArtifact), drawEach(t, nil, drawMessage)
	in := a2a.Task{
		ID: a2a.TaskID(anyString.Draw(t, "id")), ContextID: anyString.Draw(t, "context"),
		Status: status.in, Artifacts: artifacts.in, History: history.in, Metadata: meta.in,
	}
	want := in
	want.Status, want.Artifacts, want.History, want.Metadata = status.want, artifacts.want, history.want, meta.want
	return drawn[*a2a.Task]{&in, &want}
}

func drawEvent(t *rapid.T) drawn[a2a.Event] {
	id, ctx := a2a.TaskID(anyString.Draw(t, "task")), anyString.Draw(t, "context")
	switch rapid.IntRange(0, 4).Draw(t, "event") {
	case 0:
		task := drawTask(t)
		return drawn[a2a.Event]{task.in, task.want}
	case 1:
		m := drawMessage(t)
		return drawn[a2a.Event]{m.in, m.want}
	case 2:
		status, meta := drawStatus(t), drawMetadata(t)
		return drawn[a2a.Event]{
			&a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: ctx, Status: status.in, Metadata: meta.in},
			&a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: ctx, Status: status.want, Metadata: meta.want},
		}
	case 3:
		return same[a2a.Event](&a2a.TaskArtifactUpdateEvent{TaskID: id, ContextID: ctx}) // without an artifact
	default:
		a, meta := drawArtifact(t), drawMetadata(t)
		last, appends := rapid.Bool().Draw(t, "last"), rapid.Bool().Draw(t, "append")
		return drawn[a2a.Event]{
			&a2a.TaskArtifactUpdateEvent{TaskID: id, ContextID: ctx, Artifact: a.in, Append: appends, LastChunk: last, Metadata: meta.in},
			&a2a.TaskArtifactUpdateEvent{TaskID: id, ContextID: ctx, Artifact: a.want, Append: appends, LastChunk: last, Metadata: meta.want},
		}
	}
}
