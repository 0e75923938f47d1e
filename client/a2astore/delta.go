package a2astore

import (
	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// deltaOf returns the delta that makes of a stored task what saving the whole task would make of it, or nil if there is
// none: several artifacts changed, history was rewritten, something cannot be encoded, which encodeTask can then say better.
//
// It looks at the tasks alone. The event of an update does not tell what changed: a2a-go merges metadata, moves status
// messages into the history, and stores the FAILED of an agent under the event that failed.
func deltaOf(was *taskstorev1.Task, task *a2a.Task) *taskstorev1.TaskDelta {
	if string(task.ID) != was.GetId() || task.ContextID != was.GetContextId() {
		return nil
	}
	d := &taskstorev1.TaskDelta{TaskId: was.GetId()}
	if !headDelta(d, was, task) || !artifactDelta(d, was.GetArtifacts(), task.Artifacts) ||
		!historyDelta(d, was.GetHistory(), task.History) {
		return nil
	}
	return d
}

// headDelta prefers to replace the status alone, which leaves the fields of the head that this version does not know.
func headDelta(d *taskstorev1.TaskDelta, was *taskstorev1.Task, task *a2a.Task) bool {
	if sameStruct(task.Metadata, was.GetMetadata()) {
		if sameStatus(&task.Status, was.GetStatus()) {
			return true
		}
		status, err := encodeStatus(task.Status)
		d.HeadChange = &taskstorev1.TaskDelta_Status{Status: status}
		return err == nil
	}
	head, err := encodeTask(&a2a.Task{ID: task.ID, ContextID: task.ContextID, Status: task.Status, Metadata: task.Metadata})
	d.HeadChange = &taskstorev1.TaskDelta_Head{Head: head}
	return err == nil
}

// artifactDelta takes one artifact that is new, replaced in its place, or longer.
func artifactDelta(d *taskstorev1.TaskDelta, was []*taskstorev1.Artifact, is []*a2a.Artifact) bool {
	if len(is) < len(was) || len(is) > len(was)+1 {
		return false
	}
	changed := -1
	for i, a := range is {
		if i < len(was) && sameArtifact(a, was[i]) {
			continue
		}
		if changed >= 0 || a == nil {
			return false
		}
		changed = i
	}
	if changed < 0 {
		return true
	}
	a := is[changed]
	for i, other := range is {
		if i != changed && other.ID == a.ID {
			return false // the delta could mean either
		}
	}
	if changed == len(was) {
		return putDelta(d, a)
	}
	old := was[changed]
	switch {
	case string(a.ID) != old.GetArtifactId():
		return false
	case startsWith(a.Parts, old.GetParts(), samePart):
		return appendDelta(d, old, a)
	default:
		return putDelta(d, a)
	}
}

func putDelta(d *taskstorev1.TaskDelta, a *a2a.Artifact) bool {
	pb, err := encodeArtifact(a)
	d.ArtifactChange = &taskstorev1.TaskDelta_PutArtifact{PutArtifact: pb}
	return err == nil
}

func appendDelta(d *taskstorev1.TaskDelta, was *taskstorev1.Artifact, is *a2a.Artifact) bool {
	base := len(was.GetParts())
	parts := &taskstorev1.AppendParts{ArtifactId: was.GetArtifactId(), BaseParts: proto.Int32(int32(base))}
	for _, p := range is.Parts[base:] {
		pb, err := encodePart(p)
		if err != nil {
			return false
		}
		parts.Parts = append(parts.Parts, pb)
	}
	if !sameArtifactFields(is, was) {
		fields := *is
		fields.Parts = nil
		pb, err := encodeArtifact(&fields)
		if err != nil {
			return false
		}
		parts.Artifact = pb
	}
	d.ArtifactChange = &taskstorev1.TaskDelta_AppendParts{AppendParts: parts}
	return true
}

// historyDelta takes a history that lost some of its oldest messages, got new ones at the end, or both.
func historyDelta(d *taskstorev1.TaskDelta, was []*taskstorev1.Message, is []*a2a.Message) bool {
	gone, ok := lost(was, is)
	if !ok {
		return false
	}
	for _, m := range is[len(was)-gone:] {
		pb, err := encodeMessage(m)
		if err != nil {
			return false
		}
		d.AppendHistory = append(d.AppendHistory, pb)
	}
	if gone > 0 {
		d.MaxHistory = proto.Int32(int32(len(is)))
	}
	return true
}

// maxOverlaps bounds the comparisons of whole histories, for those that repeat one message over and over.
const maxOverlaps = 3

// lost returns how many of the oldest messages are gone; the others come first in what the history is now.
func lost(was []*taskstorev1.Message, is []*a2a.Message) (gone int, ok bool) {
	if len(is) == 0 || len(was) == 0 {
		return len(was), true
	}
	overlaps := 0
	for i, m := range was {
		if !sameMessage(is[0], m) {
			continue
		}
		if startsWith(is, was[i:], sameMessage) {
			return i, true
		}
		if overlaps++; overlaps == maxOverlaps {
			break
		}
	}
	return 0, false
}
