package backendtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func testEventIDs(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working))
	events := func(taskID, contextID string) []*pb.StreamResponse {
		return []*pb.StreamResponse{
			{Payload: &pb.StreamResponse_Task{Task: &pb.Task{Id: taskID, ContextId: contextID}}},
			{Payload: &pb.StreamResponse_Message{Message: &pb.Message{TaskId: taskID, ContextId: contextID}}},
			{Payload: &pb.StreamResponse_StatusUpdate{StatusUpdate: &pb.TaskStatusUpdateEvent{
				TaskId: taskID, ContextId: contextID,
			}}},
			{Payload: &pb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &pb.TaskArtifactUpdateEvent{
				TaskId: taskID, ContextId: contextID,
			}}},
		}
	}
	for _, ids := range [][2]string{{"t", "ctx"}, {"t", ""}, {"", "ctx"}, {"", ""}} {
		for i, event := range events(ids[0], ids[1]) {
			req := s.whole(taskIn("t", working), present)
			req.Events = inputs(t, event)
			s.must(req)
			s.append(s.appending("t", event))
			id := fmt.Sprint("log", i, ids)
			if ids[0] == "" {
				s.append(s.appending(id, event)) // no task: no context to compare with
			}
		}
	}
	for _, ids := range [][2]string{{"other", ""}, {"", "other"}, {"t", "other"}, {"other", "ctx"}} {
		for _, event := range events(ids[0], ids[1]) {
			req := s.whole(taskIn("t", working), present)
			req.Events = inputs(t, textEvent("fine"), event)
			s.refused(req, backend.ErrInvalid)
			delta := s.change("t", statusDelta(t, &pb.TaskStatus{State: failed}), present)
			delta.Events = inputs(t, event)
			s.refused(delta, backend.ErrInvalid)
			s.notAppended(s.appending("t", textEvent("fine"), event), backend.ErrInvalid)
			insert := s.whole(taskIn("new", working), absent)
			insert.Events = inputs(t, event)
			if ids[0] != "t" {
				s.refused(insert, backend.ErrInvalid)
			}
		}
	}
}

func testSaveEvents(t *testing.T, e *env) {
	s := e.space(t)
	req := s.whole(taskIn("t", submitted), absent)
	req.Origin = "replica-1"
	req.Events = append([]backend.EventInput{snapshot}, inputs(t, statusEvent("t", submitted))...)
	if res := s.must(req); res.Seq != 2 {
		t.Errorf("%+v", res)
	}
	delta := s.change("t", historyDelta(t, -1, message("m")), atVersion(1))
	delta.Events = append(inputs(t, textEvent("x")), snapshot)
	if res := s.must(delta); res.Seq != 4 {
		t.Errorf("%+v", res)
	}
	after := taskIn("t", submitted)
	after.History = []*pb.Message{message("m")}
	s.holds(after)
	snapshotOf := func(m *pb.Task) *pb.StreamResponse {
		return &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: m}}
	}
	want := []struct {
		version int64
		origin  string
		event   *pb.StreamResponse
	}{
		{1, "replica-1", snapshotOf(taskIn("t", submitted))},
		{1, "replica-1", statusEvent("t", submitted)},
		{2, "", textEvent("x")},
		{2, "", snapshotOf(after)},
	}
	_, res := s.get("t")
	got := s.log("t")
	if len(got) != len(want) || res.LastSeq != int64(len(want)) {
		t.Fatalf("%d events, last seq %d", len(got), res.LastSeq)
	}
	for i, ev := range got {
		if ev.Seq != int64(i+1) || ev.Version != want[i].version || ev.Origin != want[i].origin || ev.CreatedAt.IsZero() {
			t.Errorf("event %d: %+v", i, ev)
		}
		m := &pb.StreamResponse{}
		if err := proto.Unmarshal(ev.Bytes, m); err != nil {
			t.Fatal(err)
		}
		s.equal(m, want[i].event)
	}
}

// testFinalSeq: set once, by the first write in a terminal state, its events included.
func testFinalSeq(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working), textEvent("1"))
	s.append(s.appending("t", textEvent("2")))
	if _, res := s.get("t"); res.Final || res.FinalSeq != 0 || !res.FinalizedAt.IsZero() {
		t.Errorf("not terminal: %+v", res)
	}
	end := s.change("t", statusDelta(t, &pb.TaskStatus{State: completed}), notTerminal)
	end.Events = inputs(t, textEvent("3"), textEvent("4"))
	ended := s.must(end)
	s.append(s.appending("t", textEvent("5")))
	late := s.change("t", putDelta(t, artifact("late", "x")), present)
	late.Events = inputs(t, textEvent("6"))
	s.must(late)
	_, res := s.get("t")
	if !res.Final || res.FinalSeq != 4 || res.LastSeq != 6 || !res.FinalizedAt.Equal(ended.UpdatedAt) {
		t.Errorf("terminal: %+v", res)
	}
	page, err := s.readLog("t", backend.Start{}, 10)
	if err != nil || !page.Log.Final || page.Log.FinalSeq != 4 || page.Log.LastSeq != 6 {
		t.Errorf("log: %+v, %v", page.Log, err)
	}
	s.insert(taskIn("born terminal", rejected)) // without an event
	if _, res := s.get("born terminal"); !res.Final || res.FinalSeq != 0 || res.FinalizedAt.IsZero() {
		t.Errorf("born terminal: %+v", res)
	}
}

func testSaveTimes(t *testing.T, e *env) {
	s := e.space(t)
	created := e.clock.Now()
	s.append(s.appending("t", textEvent("before the task")))
	e.clock.advance(time.Second)
	inserted := e.clock.Now()
	if res := s.insert(taskIn("t", working), textEvent("x")); !res.UpdatedAt.Equal(inserted) {
		t.Errorf("updated at %v, want %v", res.UpdatedAt, inserted)
	}
	e.clock.advance(time.Nanosecond)
	finalized := e.clock.Now()
	s.must(s.whole(taskIn("t", canceled), present))
	e.clock.advance(time.Hour)
	updated := e.clock.Now()
	s.must(s.whole(taskIn("t", canceled), present))
	e.clock.advance(time.Minute)
	s.append(s.appending("t", textEvent("late")))
	_, res := s.get("t")
	if !res.CreatedAt.Equal(inserted) || !res.FinalizedAt.Equal(finalized) || !res.UpdatedAt.Equal(updated) ||
		!res.Now.Equal(e.clock.Now()) {
		t.Errorf("%+v", res)
	}
	for i, want := range []time.Time{created, inserted, e.clock.Now()} {
		if got := s.log("t")[i].CreatedAt; !got.Equal(want) {
			t.Errorf("event %d created at %v, want %v", i, got, want)
		}
	}
}

// testTaskLimit: a task exactly at the limit is kept, one byte more is not, by whichever path it would come about.
func testTaskLimit(t *testing.T, e *env) {
	const limit = 1000
	s := e.space(t)
	base := func(id string) *pb.Task {
		m := taskIn(id, working)
		m.Artifacts = []*pb.Artifact{artifact("a", "one"), artifact("b")}
		m.History = []*pb.Message{message("m1"), message("m2")}
		return m
	}
	for _, path := range []struct {
		name string
		grow func(m *pb.Task, pad string) (after *pb.Task, req *backend.SaveRequest)
	}{
		{"whole", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.Artifacts[0].Description = pad
			return m, s.whole(m, present)
		}},
		{"head", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.Status.Message = &pb.Message{MessageId: pad}
			return m, s.change(m.Id, headDelta(t, m), present)
		}},
		{"status", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.Status.Message = &pb.Message{MessageId: pad}
			return m, s.change(m.Id, statusDelta(t, m.Status), present)
		}},
		{"replace artifacts", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.Artifacts = []*pb.Artifact{artifact("c", pad)}
			d := partsDelta(t, "", 0)
			d.Append, d.Artifacts = nil, parseArtifacts(t, m.Artifacts)
			return m, s.change(m.Id, d, present)
		}},
		{"put new", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.Artifacts = append(m.Artifacts, artifact("c", pad))
			return m, s.change(m.Id, putDelta(t, m.Artifacts[2]), present)
		}},
		{"put known", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.Artifacts[0] = artifact("a", pad)
			return m, s.change(m.Id, putDelta(t, m.Artifacts[0]), present)
		}},
		{"append parts", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.Artifacts[0].Parts = append(m.Artifacts[0].Parts, textPart(pad))
			return m, s.change(m.Id, partsDelta(t, "a", 1, textPart(pad)), present)
		}},
		{"append history", func(m *pb.Task, pad string) (*pb.Task, *backend.SaveRequest) {
			m.History = append(m.History[1:], &pb.Message{MessageId: pad})
			return m, s.change(m.Id, historyDelta(t, 2, &pb.Message{MessageId: pad}), present)
		}},
	} {
		n := 0
		for after, _ := path.grow(base(path.name), ""); proto.Size(after) < limit; n++ {
			after, _ = path.grow(base(path.name), strings.Repeat("x", n+1))
		}
		t.Logf("%s", path.name)
		s.insert(base(path.name))
		_, over := path.grow(base(path.name), strings.Repeat("x", n+1))
		s.refused(over, backend.ErrTaskTooLarge)
		after, req := path.grow(base(path.name), strings.Repeat("x", n))
		if size := proto.Size(after); size != limit {
			t.Fatalf("the padding makes %d bytes, want %d", size, limit)
		}
		s.must(req)
		s.holds(after)
		// Deltas have counted right: not even an empty message fits any more.
		s.refused(s.change(after.Id, historyDelta(t, -1, &pb.Message{}), present), backend.ErrTaskTooLarge)
	}
	insert := base("insert")
	insert.Artifacts[0].Description = strings.Repeat("x", limit)
	s.refused(s.whole(insert, absent), backend.ErrTaskTooLarge)
}
