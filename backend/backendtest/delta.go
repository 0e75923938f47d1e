package backendtest

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var deltaScenarios = []scenario{
	{name: "Delta/Kinds", run: testDeltaKinds},
	{name: "Delta/Refusals", run: testDeltaRefusals},
	{name: "Delta/History", run: testDeltaHistory},
	{name: "Delta/LikeWholeSaves", run: testDeltasLikeWholeSaves},
	{name: "Delta/ManyChunks", run: testManyChunks},
}

// rich is a task with something in every field.
func rich(id string) *pb.Task {
	m := taskAt(id, "ctx", working, day(2025, time.May, 5))
	m.Status.Message = message("status")
	m.Artifacts = []*pb.Artifact{artifact("a", "1", "2"), artifact("b"), artifact("", "no id")}
	m.History = []*pb.Message{message("m1"), message("m2"), message("m3")}
	addUnknown(m, 900, "task")
	addUnknown(m.Status, 901, "status")
	addUnknown(m.Artifacts[0], 902, "artifact")
	addUnknown(m.Artifacts[0].Parts[0], 903, "part")
	addUnknown(m.History[0], 904, "message")
	return m
}

func testDeltaKinds(t *testing.T, e *env) {
	s := e.space(t)
	withFields := func(d *document.Delta, a *pb.Artifact) *document.Delta {
		d.Append.Replace, d.Append.Fields = true, parseArtifact(t, a).Fields
		return d
	}
	for _, tc := range []struct {
		name  string
		apply func(*pb.Task) *document.Delta
	}{
		{"nothing", func(m *pb.Task) *document.Delta { return historyDelta(t, -1) }},
		{"head", func(m *pb.Task) *document.Delta {
			m.Status = &pb.TaskStatus{State: inputRequired, Timestamp: day(2026, time.January, 1)}
			m.ProtoReflect().SetUnknown(nil) // gone, as with a whole save
			addUnknown(m, 905, "new")
			return headDelta(t, m)
		}},
		{"head without status", func(m *pb.Task) *document.Delta {
			m.Status = nil
			return headDelta(t, m)
		}},
		{"status", func(m *pb.Task) *document.Delta {
			m.Status = &pb.TaskStatus{State: authRequired, Message: message("why")}
			addUnknown(m.Status, 906, "kept")
			return statusDelta(t, m.Status)
		}},
		{"empty status", func(m *pb.Task) *document.Delta {
			m.Status = &pb.TaskStatus{}
			return statusDelta(t, m.Status)
		}},
		{"replace artifacts", func(m *pb.Task) *document.Delta {
			m.Artifacts = []*pb.Artifact{artifact("b", "9"), artifact("new")}
			d := historyDelta(t, -1)
			d.Artifacts = parseArtifacts(t, m.Artifacts)
			return d
		}},
		{"remove artifacts", func(m *pb.Task) *document.Delta {
			m.Artifacts = nil
			d := historyDelta(t, -1)
			d.Artifacts = parseArtifacts(t, nil)
			return d
		}},
		{"put new", func(m *pb.Task) *document.Delta {
			m.Artifacts = append(m.Artifacts, artifact("c", "3"))
			return putDelta(t, m.Artifacts[3])
		}},
		{"put in place", func(m *pb.Task) *document.Delta {
			m.Artifacts[0] = artifact("a", "other")
			return putDelta(t, m.Artifacts[0])
		}},
		{"put without id", func(m *pb.Task) *document.Delta {
			m.Artifacts[2] = &pb.Artifact{Name: "still none", Parts: []*pb.Part{textPart("x")}}
			return putDelta(t, m.Artifacts[2])
		}},
		{"append parts", func(m *pb.Task) *document.Delta {
			m.Artifacts[0].Parts = append(m.Artifacts[0].Parts, textPart("3"), textPart("4"))
			return partsDelta(t, "a", 2, textPart("3"), textPart("4"))
		}},
		{"append parts to none", func(m *pb.Task) *document.Delta {
			m.Artifacts[1].Parts = []*pb.Part{textPart("first")}
			return partsDelta(t, "b", 0, textPart("first"))
		}},
		{"append parts unchecked", func(m *pb.Task) *document.Delta {
			m.Artifacts[2].Parts = append(m.Artifacts[2].Parts, textPart("x"))
			return partsDelta(t, "", -1, textPart("x"))
		}},
		{"append no parts", func(m *pb.Task) *document.Delta { return partsDelta(t, "a", 2) }},
		{"append parts and replace fields", func(m *pb.Task) *document.Delta {
			fields := &pb.Artifact{ArtifactId: "a", Description: "new fields"}
			addUnknown(fields, 907, "new")
			d := withFields(partsDelta(t, "a", 2, textPart("3")), fields)
			fields.Parts = append(m.Artifacts[0].Parts, textPart("3"))
			m.Artifacts[0] = fields
			return d
		}},
		{"replace fields only", func(m *pb.Task) *document.Delta {
			fields := &pb.Artifact{ArtifactId: "a"}
			d := withFields(partsDelta(t, "a", -1), fields)
			m.Artifacts[0] = &pb.Artifact{ArtifactId: "a", Parts: m.Artifacts[0].Parts}
			return d
		}},
		{"append history", func(m *pb.Task) *document.Delta {
			m.History = append(m.History, message("m4"))
			return historyDelta(t, -1, message("m4"))
		}},
		{"everything at once", func(m *pb.Task) *document.Delta {
			m.Status = &pb.TaskStatus{State: completed}
			m.Artifacts[1].Parts = []*pb.Part{textPart("x")}
			m.History = append(m.History[2:], message("m4"))
			d := partsDelta(t, "b", 0, textPart("x"))
			d.Status, d.History, d.MaxHistory = parseStatus(t, m.Status), parseHistory(t, message("m4")), 2
			return d
		}},
	} {
		m := rich(tc.name)
		s.insert(m)
		want := proto.CloneOf(m)
		d := tc.apply(want)
		if res := s.must(s.change(m.Id, d, atVersion(1))); res.Version != 2 {
			t.Errorf("%s: %+v", tc.name, res)
		}
		s.holds(want)
		s.must(s.whole(want, atVersion(2))) // which also shows that the index is as after a whole save
		s.holds(want)
	}
}

func testDeltaRefusals(t *testing.T, e *env) {
	s := e.space(t)
	m := rich("t")
	m.Artifacts = append(m.Artifacts, artifact("twice", "1"), artifact("twice", "2"))
	s.insert(m)
	status := func() *document.Delta { return statusDelta(t, &pb.TaskStatus{State: inputRequired}) }

	s.refused(s.change("t", status(), absent), backend.ErrInvalid)
	s.refused(s.change("unknown", status(), absent), backend.ErrInvalid)
	for _, pre := range []backend.Precondition{atVersion(1), present, notTerminal, whatever} {
		s.refused(s.change("unknown", status(), pre), backend.ErrTaskNotFound)
		s.refused(s.change("t", partsDelta(t, "unknown", -1, textPart("x")), pre), backend.ErrArtifactUnknown)
		s.refused(s.change("t", partsDelta(t, "twice", -1, textPart("x")), pre), backend.ErrArtifactAmbiguous)
		s.refused(s.change("t", putDelta(t, artifact("twice")), pre), backend.ErrArtifactAmbiguous)
		for _, base := range []int{0, 1, 3} {
			err := s.refused(s.change("t", partsDelta(t, "a", base, textPart("x")), pre), backend.ErrBasePartsConflict)
			s.meta(err, "current_parts", "2")
			s.meta(err, "current_version", "1")
		}
	}
	s.holds(m)

	// A refused delta writes none of its pieces.
	d := status()
	d.Append, d.History = partsDelta(t, "unknown", -1).Append, parseHistory(t, message("m"))
	req := s.change("t", d, present)
	req.Events = inputs(t, textEvent("x"))
	s.refused(req, backend.ErrArtifactUnknown)

	s.append(s.appending("log", textEvent("x"))) // a log is no task
	s.refused(s.change("log", status(), whatever), backend.ErrTaskNotFound)
	s.mustDelete("t")
	s.refused(s.change("t", status(), whatever), backend.ErrTaskNotFound)
}

func testDeltaHistory(t *testing.T, e *env) {
	s := e.space(t)
	all := []*pb.Message{message("1"), message("22"), message("333"), message("4444"), message("5")}
	for stored := range 4 {
		for added := range 3 {
			for keep := -1; keep < 7; keep++ {
				m := taskIn("t", working)
				m.History = all[:stored]
				s.must(s.whole(m, whatever))
				s.must(s.change("t", historyDelta(t, keep, all[stored:stored+added]...), present))
				m.History = all[:stored+added]
				if keep >= 0 && keep < len(m.History) {
					m.History = m.History[len(m.History)-keep:]
				}
				s.holds(m)
			}
		}
	}
}

// testManyChunks streams an artifact in the way that agents do.
func testManyChunks(t *testing.T, e *env) {
	const chunks = 300
	s := e.space(t)
	m := taskIn("t", working)
	m.Artifacts = []*pb.Artifact{artifact("before", "x"), artifact("text"), artifact("after", "x")}
	s.insert(m)
	for i := range chunks {
		part := textPart(time.Duration(i).String())
		m.Artifacts[1].Parts = append(m.Artifacts[1].Parts, part)
		req := s.change("t", partsDelta(t, "text", i, part), atVersion(int64(i+1)))
		req.Events = inputs(t, &pb.StreamResponse{Payload: &pb.StreamResponse_ArtifactUpdate{
			ArtifactUpdate: &pb.TaskArtifactUpdateEvent{
				TaskId: "t", ContextId: "ctx", Append: true,
				Artifact: &pb.Artifact{ArtifactId: "text", Parts: []*pb.Part{part}},
			},
		}})
		s.must(req)
	}
	s.holds(m)
	s.must(s.change("t", statusDelta(t, &pb.TaskStatus{State: completed}), notTerminal))
	m.Status.State = completed
	s.holds(m)
	if _, res := s.get("t"); res.Version != chunks+2 || res.LastSeq != chunks || res.FinalSeq != chunks {
		t.Errorf("%+v", res)
	}
}
