package a2astore

import (
	"errors"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// read is what is remembered of a task that came from the service, which becomes the memo's.
func read(key memoryKey, task *taskstorev1.Task, version int64) *memo {
	m := remember(key, task, version, weigher{})
	if m != nil {
		m.bytes = max(m.bytes, int64(proto.Size(task))) // with the fields that this version does not know
	}
	return m
}

// written is what is remembered of a task that was sent to the service, which becomes the memo's.
func written(key memoryKey, task *taskstorev1.Task, version int64) *memo {
	return remember(key, task, version, weigher{detach: true})
}

// remember returns nil for a task that has ended, as that is rarely written again.
func remember(key memoryKey, task *taskstorev1.Task, version int64, w weigher) *memo {
	if isTerminal(task.GetStatus().GetState()) {
		return nil
	}
	w.task(task)
	return &memo{key: key, version: version, task: task, bytes: w.bytes}
}

// deltaTo is the delta to the task; nil if there is none, or nothing is known.
func (m *memo) deltaTo(task *a2a.Task) *taskstorev1.TaskDelta {
	if m == nil {
		return nil
	}
	return deltaOf(m.task, task)
}

// changed is what is remembered after the delta was written, of which it keeps the pieces. It uses up m.
//
// The texts of pieces, which are the parts and messages that came at the end, stay loose: the caller's own strings. One that
// hands over the same strings again and again, then pays nothing for their length when they are compared, as strings with one
// address are equal. All other texts are few, or replaced often, and copied at once.
func (m *memo) changed(d *taskstorev1.TaskDelta, version int64) *memo {
	t := m.task
	if d.GetPutArtifact() != nil || d.MaxHistory != nil {
		m.detach() // the list must not hold what goes
	}
	gone, come, pieces := weigher{}, weigher{detach: true}, weigher{detach: true, loose: &m.loose}
	switch c := d.GetHeadChange().(type) {
	case *taskstorev1.TaskDelta_Head:
		gone.head(t)
		come.head(c.Head)
		t.Status, t.Metadata = c.Head.GetStatus(), c.Head.GetMetadata()
	case *taskstorev1.TaskDelta_Status:
		gone.status(t.GetStatus())
		come.status(c.Status)
		t.Status = c.Status
	}
	if isTerminal(t.GetStatus().GetState()) {
		return nil
	}
	switch c := d.GetArtifactChange().(type) {
	case *taskstorev1.TaskDelta_PutArtifact:
		come.artifact(c.PutArtifact)
		if i := indexOf(t, c.PutArtifact.GetArtifactId()); i >= 0 {
			gone.artifact(t.GetArtifacts()[i])
			t.Artifacts[i] = c.PutArtifact
		} else {
			t.Artifacts = append(t.Artifacts, c.PutArtifact)
		}
	case *taskstorev1.TaskDelta_AppendParts:
		i := indexOf(t, c.AppendParts.GetArtifactId())
		a := t.GetArtifacts()[i]
		pieces.parts(c.AppendParts.GetParts())
		if fields := c.AppendParts.GetArtifact(); fields != nil {
			gone.artifactFields(a)
			come.artifactFields(fields)
			fields.Parts = a.GetParts()
			t.Artifacts[i], a = fields, fields
		}
		a.Parts = append(a.GetParts(), c.AppendParts.GetParts()...)
	}
	pieces.messages(d.GetAppendHistory())
	t.History = append(t.GetHistory(), d.GetAppendHistory()...)
	if d.MaxHistory != nil {
		over := len(t.GetHistory()) - int(d.GetMaxHistory())
		gone.messages(t.GetHistory()[:over])
		clear(t.GetHistory()[:over]) // the list may keep its memory
		t.History = t.GetHistory()[over:]
	}
	m.version = version
	m.bytes += come.bytes + pieces.bytes - gone.bytes
	return m
}

// detach makes copies of the loose texts.
func (m *memo) detach() {
	for _, s := range m.loose {
		*s = strings.Clone(*s)
	}
	m.bytes -= looseWeight * int64(len(m.loose))
	m.loose = nil
}

func indexOf(t *taskstorev1.Task, artifactID string) int {
	for i, a := range t.GetArtifacts() {
		if a.GetArtifactId() == artifactID {
			return i
		}
	}
	return -1
}

// unchanged is what is remembered after a write that failed: nil if the error says that the version is not stored any more.
// If it is not known what became of the write, the version is either stored, or never will be again.
func (m *memo) unchanged(err error) *memo {
	for _, gone := range []error{client.ErrVersionConflict, client.ErrTerminalState, client.ErrNotFound} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return m
}

// doesNotFit reports whether the service refused a write because it is a delta, and has written nothing. The version is
// checked before, so that what was remembered of it was wrong.
func doesNotFit(err error) bool {
	return errors.Is(err, client.ErrArtifactUnknown) || errors.Is(err, client.ErrArtifactAmbiguous) ||
		errors.Is(err, client.ErrBasePartsConflict)
}
