package backendtest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var (
	getScenarios = []scenario{
		{name: "Get/Extents", run: testExtents},
		{name: "Get/Private", run: testPrivate},
	}
	deleteScenarios = []scenario{
		{name: "Delete/Idempotent", run: testDelete},
		{name: "Delete/Continuity", run: testContinuity},
	}
)

// cut returns what is left of a task within an extent.
func cut(m *pb.Task, x backend.Extent) *pb.Task {
	if x.StateOnly {
		out := &pb.Task{Id: m.Id, ContextId: m.ContextId}
		if m.Status != nil && (m.Status.State != 0 || m.Status.Timestamp != nil) {
			out.Status = &pb.TaskStatus{State: m.Status.State, Timestamp: m.Status.Timestamp}
		}
		return out
	}
	out := proto.CloneOf(m)
	if x.OmitArtifacts {
		out.Artifacts = nil
	}
	if x.History >= 0 && x.History < len(out.History) {
		out.History = out.History[len(out.History)-x.History:]
	}
	return out
}

func testExtents(t *testing.T, e *env) {
	s := e.space(t)
	bare := &pb.Task{Id: "bare"}
	timeless := taskIn("timeless", failed)
	timeless.ContextId = ""
	epoch := taskAt("epoch", "ctx", 0, day(1970, time.January, 1))
	tasks := []*pb.Task{rich("rich"), bare, timeless, epoch}
	for _, m := range tasks {
		s.insert(m)
	}
	check := func() {
		t.Helper()
		for _, m := range tasks {
			for _, x := range []backend.Extent{
				{StateOnly: true, History: -1}, {StateOnly: true}, backend.All, {OmitArtifacts: true, History: -1},
				{History: 0}, {History: 1}, {History: 2}, {History: 3}, {History: 4}, {History: 1 << 30},
				{OmitArtifacts: true}, {OmitArtifacts: true, History: 2},
			} {
				res, err := s.read(m.Id, x)
				if err != nil {
					t.Fatalf("%s %+v: %v", m.Id, x, err)
				}
				s.equal(decodeTask(t, res.Task), cut(m, x))
				inPieces, err := s.store.Get(t.Context(), &backend.GetRequest{
					Key: s.key(m.Id), Owner: s.owner, Extent: x, InPieces: true,
				})
				if err != nil {
					t.Fatalf("%s %+v in pieces: %v", m.Id, x, err)
				}
				if inPieces.Pieces != nil {
					inPieces.Task = slices.Concat(inPieces.Pieces...)
				}
				if !bytes.Equal(inPieces.Task, res.Task) || inPieces.Version != res.Version || inPieces.Owner != res.Owner {
					t.Errorf("%s %+v in pieces: %+v, not %+v", m.Id, x, inPieces, res)
				}
				if res.Version == 0 || res.Owner != "owner" || res.CreatedAt.IsZero() || res.UpdatedAt.IsZero() || res.Now.IsZero() {
					t.Errorf("%s %+v: %+v", m.Id, x, res)
				}
			}
		}
	}
	check()
	for _, m := range tasks { // and with deltas on top
		m.History = append(m.History, message("more"), message("yet more"))
		d := historyDelta(t, -1, m.History[len(m.History)-2:]...)
		m.Artifacts = append(m.Artifacts, artifact("put", "x"))
		d.Put = parseArtifact(t, m.Artifacts[len(m.Artifacts)-1])
		m.Status = &pb.TaskStatus{State: completed, Timestamp: day(2026, time.May, 1)}
		if m != timeless {
			d.Status = parseStatus(t, m.Status)
		} else {
			m.Status = &pb.TaskStatus{State: failed}
		}
		s.must(s.change(m.Id, d, present))
	}
	check()
}

// testPrivate: what a read returns is the caller's to keep.
func testPrivate(t *testing.T, e *env) {
	s := e.space(t)
	m := rich("t")
	s.insert(m, textEvent("x"))
	for _, x := range []backend.Extent{backend.All, {StateOnly: true}, {OmitArtifacts: true}, {History: 1}} {
		res, err := s.read("t", x)
		if err != nil {
			t.Fatal(err)
		}
		clear(res.Task)
		_ = append(res.Task, "garbage"...)
	}
	list, err := s.store.List(t.Context(), &backend.ListRequest{
		Tenant: s.tenant, Owner: s.owner, Size: 10, MaxBytes: 1 << 20, Extent: backend.All,
	})
	if err != nil || len(list.Rows) != 1 {
		t.Fatalf("list: %+v, %v", list, err)
	}
	clear(list.Rows[0].Task)
	page, err := s.store.ReadLog(t.Context(), &backend.ReadLogRequest{
		Key: s.key("t"), Owner: s.owner, MaxEvents: 1, MaxBytes: 1 << 20, Task: &backend.All,
	})
	if err != nil || page.Task == nil {
		t.Fatalf("log: %+v, %v", page, err)
	}
	clear(page.Task.Task)
	s.holds(m)
}

func testDelete(t *testing.T, e *env) {
	s := e.space(t)
	noop := func(id string, version int64) {
		t.Helper()
		if deleted, err := s.delete(id, version); deleted || err != nil {
			t.Errorf("delete of %q at %d: %v, %v", id, version, deleted, err)
		}
	}
	noop("t", 0)
	noop("t", 1)
	s.insert(taskIn("t", working), textEvent("x"))
	s.must(s.whole(taskIn("t", working), present))
	for _, version := range []int64{1, 3} {
		before := s.everything("t")
		_, err := s.delete("t", version)
		s.meta(s.reason(err, backend.ErrVersionConflict), "current_version", "2")
		s.unchanged("t", before)
	}
	if deleted, err := s.delete("t", 2); !deleted || err != nil {
		t.Errorf("delete: %v, %v", deleted, err)
	}
	s.missing("t")
	_, err := s.readLog("t", backend.Start{}, 10)
	s.reason(err, backend.ErrTaskNotFound)
	list, err := s.store.List(t.Context(), &backend.ListRequest{
		Tenant: s.tenant, Owner: s.owner, Size: 10, MaxBytes: 1 << 20, Extent: backend.All,
	})
	if err != nil || len(list.Rows) != 0 || list.Total != 0 {
		t.Errorf("list after the delete: %+v, %v", list, err)
	}
	noop("t", 0)
	noop("t", 2)
	s.refused(s.whole(taskIn("t", working), atVersion(2)), backend.ErrTaskNotFound)
	s.refused(s.whole(taskIn("t", working), present), backend.ErrTaskNotFound)
	req := s.appending("t", textEvent("x"))
	req.RequireTask = true
	s.notAppended(req, backend.ErrTaskNotFound)

	s.insert(taskIn("done", completed)) // terminal tasks, too
	s.mustDelete("done")
	s.append(s.appending("log", textEvent("x"))) // and logs without a task
	noop("log", 1)
	if len(s.log("log")) != 1 {
		t.Error("a delete at a version removed a log")
	}
	s.mustDelete("log")
	_, err = s.readLog("log", backend.Start{}, 10)
	s.reason(err, backend.ErrTaskNotFound)

	s.insert(taskIn("trusted", working))
	if deleted, err := s.as(backend.Owner{}).delete("trusted", 1); !deleted || err != nil {
		t.Errorf("trusted delete: %v, %v", deleted, err)
	}
}

// testContinuity: an id that is created again goes on from both numbers, for whoever creates it.
func testContinuity(t *testing.T, e *env) {
	s := e.space(t)
	m := rich("t")
	s.insert(m, textEvent("old 1"), textEvent("old 2"))
	s.must(s.change("t", historyDelta(t, -1, message("old")), present))
	s.append(s.appending("t", textEvent("old 3")))
	s.mustDelete("t")

	bob := s.as(backend.OwnerOf("bob"))
	again := taskAt("t", "another context", submitted, nil)
	req := bob.whole(again, absent)
	req.Events = inputs(t, textEvent("new 4"))
	if res := bob.must(req); res.Version != 3 || res.Seq != 4 {
		t.Errorf("created again: %+v", res)
	}
	bob.holds(again) // nothing of the old one
	if got := bob.log("t"); len(got) != 1 || got[0].Seq != 4 || got[0].Version != 3 {
		t.Errorf("log: %+v", got)
	}
	s.missing("t")
	if _, res := bob.get("t"); res.Final || res.LastSeq != 4 {
		t.Errorf("%+v", res)
	}
	bob.must(bob.whole(again, atVersion(3)))

	bob.mustDelete("t") // twice, and by way of a log
	if res := s.append(s.appending("t", textEvent("newer 5"))); res.FirstSeq != 5 || res.Version != 0 {
		t.Errorf("appended again: %+v", res)
	}
	if res := s.insert(taskIn("t", working)); res.Version != 5 || res.Seq != 0 {
		t.Errorf("created for the third time: %+v", res)
	}
	if _, res := s.get("t"); res.LastSeq != 5 {
		t.Errorf("last seq %d", res.LastSeq)
	}
	s.mustDelete("t")
	s.append(s.appending("t", textEvent("6")))
	s.mustDelete("t") // a log's tombstone keeps the task's version
	if res := s.insert(taskIn("t", working), textEvent("7")); res.Version != 6 || res.Seq != 7 {
		t.Errorf("created for the fourth time: %+v", res)
	}
}

// position returns where a list stands behind a task.
func position(m *pb.Task) *backend.Position {
	var at document.Timestamp
	if ts := m.GetStatus().GetTimestamp(); ts != nil {
		at = document.Timestamp{Valid: true, Seconds: ts.Seconds, Nanos: ts.Nanos}
	}
	return &backend.Position{Time: at, TaskID: m.Id}
}
