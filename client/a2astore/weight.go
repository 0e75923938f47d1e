package a2astore

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// What the Go values of messages take on the heap, in bytes, with a pointer to each and without the content of strings.
const (
	taskWeight     = 176
	statusWeight   = 64
	messageWeight  = 216
	artifactWeight = 168
	partWeight     = 136
	textWeight     = 16
	structWeight   = 352
	fieldWeight    = 48
	valueWeight    = 88
	listWeight     = 72
	looseWeight    = 16 // in the list of loose texts, which grows ahead
)

// weigher adds up what messages take in memory, about. With detach it also makes copies of the content of their parts and
// values: Raw bytes can be changed by the agent, and a string can be a small piece of one that an agent has long forgotten.
// Strings are listed in loose instead, if that is set, to be copied later.
type weigher struct {
	detach bool
	loose  *[]*string
	bytes  int64
}

func (w *weigher) add(n int) { w.bytes += int64(n) }

func (w *weigher) task(t *taskstorev1.Task) {
	w.head(t)
	for _, a := range t.GetArtifacts() {
		w.artifact(a)
	}
	w.messages(t.GetHistory())
}

// head weighs everything but artifacts and history.
func (w *weigher) head(t *taskstorev1.Task) {
	w.add(taskWeight + len(t.GetId()) + len(t.GetContextId()))
	w.status(t.GetStatus())
	w.structure(t.GetMetadata())
}

func (w *weigher) status(s *taskstorev1.TaskStatus) {
	if s == nil {
		return
	}
	w.add(statusWeight)
	if s.GetTimestamp() != nil {
		w.add(statusWeight)
	}
	if s.GetMessage() != nil {
		w.message(s.GetMessage())
	}
}

func (w *weigher) messages(list []*taskstorev1.Message) {
	for _, m := range list {
		w.message(m)
	}
}

func (w *weigher) message(m *taskstorev1.Message) {
	w.add(messageWeight + len(m.GetMessageId()) + len(m.GetContextId()) + len(m.GetTaskId()))
	w.texts(m.GetExtensions())
	w.texts(m.GetReferenceTaskIds())
	w.parts(m.GetParts())
	w.structure(m.GetMetadata())
}

func (w *weigher) artifact(a *taskstorev1.Artifact) {
	w.artifactFields(a)
	w.parts(a.GetParts())
}

func (w *weigher) artifactFields(a *taskstorev1.Artifact) {
	w.add(artifactWeight + len(a.GetArtifactId()) + len(a.GetName()) + len(a.GetDescription()))
	w.texts(a.GetExtensions())
	w.structure(a.GetMetadata())
}

func (w *weigher) parts(list []*taskstorev1.Part) {
	for _, p := range list {
		w.part(p)
	}
}

func (w *weigher) part(p *taskstorev1.Part) {
	w.add(partWeight + len(p.GetFilename()) + len(p.GetMediaType()))
	w.structure(p.GetMetadata())
	switch c := p.GetContent().(type) {
	case *taskstorev1.Part_Text:
		w.text(&c.Text)
	case *taskstorev1.Part_Url:
		w.text(&c.Url)
	case *taskstorev1.Part_Raw:
		w.add(len(c.Raw))
		if w.detach {
			c.Raw = bytes.Clone(c.Raw)
		}
	case *taskstorev1.Part_Data:
		w.value(c.Data)
	}
}

func (w *weigher) text(s *string) {
	w.add(len(*s))
	switch {
	case w.loose != nil:
		*w.loose = append(*w.loose, s)
		w.add(looseWeight)
	case w.detach:
		*s = strings.Clone(*s)
	}
}

func (w *weigher) texts(list []string) {
	for _, s := range list {
		w.add(textWeight + len(s))
	}
}

func (w *weigher) structure(s *structpb.Struct) {
	if s == nil {
		return
	}
	w.add(structWeight)
	for k, v := range s.GetFields() {
		w.add(fieldWeight + len(k))
		w.value(v)
	}
}

func (w *weigher) value(v *structpb.Value) {
	w.add(valueWeight)
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		w.text(&k.StringValue)
	case *structpb.Value_StructValue:
		w.structure(k.StructValue)
	case *structpb.Value_ListValue:
		w.add(listWeight)
		for _, e := range k.ListValue.GetValues() {
			w.value(e)
		}
	}
}
