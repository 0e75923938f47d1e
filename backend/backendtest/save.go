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

var saveScenarios = []scenario{
	{name: "Save/Preconditions", run: testPreconditions},
	{name: "Save/CheckOrder", needs: []Capability{TaskLimit}, limit: 400, run: testCheckOrder},
	{name: "Save/Owners", run: testOwners},
	{name: "Save/WriteID", run: testWriteID},
	{name: "Save/ContextID", run: testContextID},
	{name: "Save/EventIDs", run: testEventIDs},
	{name: "Save/Events", run: testSaveEvents},
	{name: "Save/FinalSeq", run: testFinalSeq},
	{name: "Save/Times", needs: []Capability{Clock}, run: testSaveTimes},
	{name: "Save/Limit", needs: []Capability{TaskLimit}, limit: 1000, run: testTaskLimit},
}

// testPreconditions is the table of contract section 2.
func testPreconditions(t *testing.T, e *env) {
	const inserts, writes = backend.Reason("inserts"), backend.Reason("writes")
	type outcome struct{ absent, open, terminalSame, terminalOther backend.Reason }
	for _, tc := range []struct {
		name string
		pre  backend.Precondition
		want outcome
	}{
		{"absent", absent, outcome{inserts, backend.ErrTaskExists, backend.ErrTaskExists, backend.ErrTaskExists}},
		{"version", atVersion(2), outcome{backend.ErrTaskNotFound, writes, writes, backend.ErrTerminalState}},
		{"older version", atVersion(1), outcome{
			backend.ErrTaskNotFound, backend.ErrVersionConflict, backend.ErrVersionConflict, backend.ErrVersionConflict,
		}},
		{"newer version", atVersion(3), outcome{
			backend.ErrTaskNotFound, backend.ErrVersionConflict, backend.ErrVersionConflict, backend.ErrVersionConflict,
		}},
		{"present", present, outcome{backend.ErrTaskNotFound, writes, writes, backend.ErrTerminalState}},
		{"not terminal", notTerminal, outcome{
			backend.ErrTaskNotFound, writes, backend.ErrTerminalState, backend.ErrTerminalState,
		}},
		{"any", whatever, outcome{inserts, writes, writes, backend.ErrTerminalState}},
	} {
		s := e.space(t)
		for _, row := range []struct {
			name         string
			stored, next pb.TaskState
			want         backend.Reason
		}{
			{"absent", 0, working, tc.want.absent},
			{"open", working, inputRequired, tc.want.open},
			{"terminal same", failed, failed, tc.want.terminalSame},
			{"terminal other", failed, completed, tc.want.terminalOther},
		} {
			name := tc.name + ", " + row.name
			if row.stored != 0 { // version 2
				s.insert(taskIn(name, row.stored))
				s.must(s.whole(taskIn(name, row.stored), present))
			}
			m := taskIn(name, row.next)
			m.Artifacts = []*pb.Artifact{artifact("late", "part")}
			req := s.whole(m, tc.pre)
			req.Events = inputs(t, statusEvent(name, row.next))
			switch row.want {
			case inserts, writes:
				want := int64(1)
				if row.want == writes {
					want = 3
				}
				if res := s.must(req); res.Version != want || res.Seq != 1 || res.Replayed || res.UpdatedAt.IsZero() {
					t.Errorf("%s: %+v, want version %d and seq 1", name, res, want)
				}
				s.holds(m)
			default:
				err := s.refused(req, row.want)
				switch row.want {
				case backend.ErrVersionConflict:
					s.meta(err, "current_version", "2")
				case backend.ErrTerminalState:
					s.meta(err, "stored_state", row.stored.String())
					s.meta(err, "attempted_state", row.next.String())
				}
			}
		}
	}
}

// testCheckOrder lets each request fail for two neighbouring reasons at once, and wants the first.
func testCheckOrder(t *testing.T, e *env) {
	s := e.space(t)
	big := strings.Repeat("x", 1000)
	stored := taskIn("t", completed)
	stored.Artifacts = []*pb.Artifact{artifact("a", "1"), artifact("twice"), artifact("twice")}
	first := s.whole(stored, absent)
	first.WriteID = "w1"
	s.must(first)

	foreign := s.as(backend.OwnerOf("other"))
	moved := taskIn("t", completed)
	moved.ContextId = "elsewhere"
	moved.Metadata = nil
	movedBig := proto.CloneOf(moved)
	movedBig.Artifacts = []*pb.Artifact{artifact("a", big)}
	movedOther := proto.CloneOf(moved)
	movedOther.Status.State = failed

	replay := s.whole(stored, atVersion(99)) // write_id before the precondition
	replay.WriteID = "w1"
	if res := s.must(replay); !res.Replayed || res.Version != 1 {
		t.Errorf("replay: %+v", res)
	}

	movedHead := s.change("t", headDelta(t, moved), present)
	movedHead.Delta.Append = partsDelta(t, "unknown", -1, textPart("x")).Append
	bigParts := s.change("t", partsDelta(t, "twice", -1, textPart(big)), present)
	overtaken := s.whole(taskIn("t", failed), atVersion(99))
	overtaken.WriteID = "w0"
	claimed := s.change("t", partsDelta(t, "a", 1, textPart(big)), present)
	claimed.Claim = &backend.ClaimRef{Key: "nobody's", Token: "token"}
	for _, tc := range []struct {
		name string
		req  *backend.SaveRequest
		want backend.Reason
	}{
		{"owner before precondition, terminal rule and context", foreign.whole(movedOther, atVersion(99)), backend.ErrTaskNotFound},
		{"owner before size", foreign.whole(movedBig, absent), backend.ErrTaskExists},
		{"precondition before terminal rule", overtaken, backend.ErrVersionConflict},
		{"absent before terminal rule and context", s.whole(movedOther, absent), backend.ErrTaskExists},
		{"terminal rule before context", s.whole(movedOther, present), backend.ErrTerminalState},
		{"context before size", s.whole(movedBig, present), backend.ErrContextMismatch},
		{"context before shape of the delta", movedHead, backend.ErrContextMismatch},
		{"shape of the delta before size", bigParts, backend.ErrArtifactAmbiguous},
		{"size before claim", claimed, backend.ErrTaskTooLarge},
	} {
		t.Logf("%s", tc.name)
		s.refused(tc.req, tc.want)
	}
}

func testOwners(t *testing.T, e *env) {
	alice := e.space(t).as(backend.OwnerOf("alice"))
	nobody, bob, trusted := alice.as(backend.OwnerOf("")), alice.as(backend.OwnerOf("bob")), alice.as(backend.Owner{})
	task := taskIn("t", working)
	first := alice.whole(task, absent)
	first.WriteID, first.Events = "w", inputs(t, statusEvent("t", working))
	alice.must(first)

	for _, foreign := range []*space{bob, nobody} {
		for _, pre := range []backend.Precondition{atVersion(1), present, notTerminal} {
			there := foreign.refused(foreign.whole(task, pre), backend.ErrTaskNotFound)
			nowhere := foreign.refused(foreign.whole(taskIn("unknown", working), pre), backend.ErrTaskNotFound)
			alice.alike(there, nowhere)
			delta := statusDelta(t, &pb.TaskStatus{State: failed})
			alice.alike(foreign.refused(foreign.change("t", delta, pre), backend.ErrTaskNotFound), nowhere)
		}
		delta := foreign.change("t", statusDelta(t, &pb.TaskStatus{State: failed}), whatever)
		foreign.refused(delta, backend.ErrTaskNotFound)
		own := alice.refused(alice.whole(task, absent), backend.ErrTaskExists)
		for _, pre := range []backend.Precondition{absent, whatever} {
			alice.alike(foreign.refused(foreign.whole(task, pre), backend.ErrTaskExists), own)
		}
		retry := foreign.whole(task, present) // a write_id of another owner is nobody's business
		retry.WriteID = "w"
		foreign.refused(retry, backend.ErrTaskNotFound)

		_, err := foreign.read("t", backend.All)
		_, unknown := foreign.read("unknown", backend.All)
		alice.alike(foreign.reason(err, backend.ErrTaskNotFound), foreign.reason(unknown, backend.ErrTaskNotFound))
		_, err = foreign.readLog("t", backend.Start{}, 10)
		_, unknown = foreign.readLog("unknown", backend.Start{}, 10)
		alice.alike(foreign.reason(err, backend.ErrTaskNotFound), foreign.reason(unknown, backend.ErrTaskNotFound))
		if deleted, err := foreign.delete("t", 0); deleted || err != nil {
			t.Errorf("foreign delete: %v, %v", deleted, err)
		}
		if deleted, err := foreign.delete("t", 99); deleted || err != nil {
			t.Errorf("foreign delete of a version: %v, %v", deleted, err)
		}
	}
	alice.holds(task)

	// Unset: the whole tenant.
	if _, res := trusted.get("t"); res.Owner != "alice" {
		t.Errorf("owner %q", res.Owner)
	}
	if res := trusted.must(trusted.whole(task, atVersion(1))); res.Version != 2 {
		t.Errorf("trusted write: %+v", res)
	}
	if _, res := alice.get("t"); res.Owner != "alice" || res.Version != 2 {
		t.Errorf("after the trusted write: %+v", res.Stored)
	}

	// An insert without an owner takes the log's, else "".
	trusted.insert(taskIn("new", working))
	if _, res := nobody.get("new"); res.Owner != "" {
		t.Errorf("owner %q", res.Owner)
	}
	bob.append(bob.appending("log first", textEvent("hello")))
	trusted.insert(taskIn("log first", working))
	if _, res := bob.get("log first"); res.Owner != "bob" || res.LastSeq != 1 {
		t.Errorf("owner %q, last seq %d", res.Owner, res.LastSeq)
	}
	bob.append(bob.appending("log", textEvent("hello")))
	for _, pre := range []backend.Precondition{absent, whatever} {
		alice.refused(alice.whole(taskIn("log", working), pre), backend.ErrTaskExists)
	}
	alice.refused(alice.whole(taskIn("log", working), present), backend.ErrTaskNotFound)

	// Another tenant has nothing to do with it.
	elsewhere := e.space(t).as(alice.owner)
	elsewhere.missing("t")
	elsewhere.insert(taskIn("t", failed))
	alice.holds(task)
}

func testWriteID(t *testing.T, e *env) {
	s := e.space(t)
	write := func(req *backend.SaveRequest, id string) *backend.SaveRequest {
		req.WriteID = id
		return req
	}
	first := write(s.whole(taskIn("t", working), absent), "w1")
	first.Events = inputs(t, statusEvent("t", working), textEvent("two"))
	want := s.must(first)
	if want.Seq != 2 {
		t.Fatalf("%+v", want)
	}
	want.Replayed = true
	retried := func(req *backend.SaveRequest) {
		t.Helper()
		before := s.everything("t")
		if res := s.must(req); !res.UpdatedAt.Equal(want.UpdatedAt) || res.Version != want.Version ||
			res.Seq != want.Seq || !res.Replayed {
			t.Errorf("retry: %+v, want %+v", res, want)
		}
		s.unchanged("t", before)
	}
	retried(first)
	retried(write(s.whole(taskIn("t", completed), atVersion(7)), "w1")) // whatever else it says
	s.append(s.appending("t", textEvent("appended")))                   // an append is no write of the task
	retried(first)
	retried(write(s.as(backend.Owner{}).whole(taskIn("t", working), absent), "w1"))

	want = s.must(write(s.whole(taskIn("t", working), atVersion(1)), "w2"))
	if want.Seq != 0 || want.Replayed {
		t.Errorf("a save without events: %+v", want)
	}
	want.Replayed = true
	retried(write(s.whole(taskIn("t", working), atVersion(1)), "w2"))
	s.refused(first, backend.ErrTaskExists) // overtaken: the precondition decides
	s.refused(write(s.whole(taskIn("t", working), atVersion(1)), "w1"), backend.ErrVersionConflict)

	delta := write(s.change("t", statusDelta(t, &pb.TaskStatus{State: completed}), notTerminal), "w3")
	delta.Events = []backend.EventInput{snapshot}
	want = s.must(delta)
	want.Replayed = true
	retried(delta)

	if res := s.must(write(s.whole(taskIn("other", working), absent), "w3")); res.Replayed {
		t.Error("a write_id of another task counted")
	}
	s.must(s.whole(taskIn("unnamed", working), absent)) // no write_id is no write_id
	s.refused(s.whole(taskIn("unnamed", working), absent), backend.ErrTaskExists)
	s.mustDelete("t")
	if res := s.must(write(s.whole(taskIn("t", working), absent), "w3")); res.Replayed || res.Version != 4 {
		t.Errorf("a write_id outlived its task: %+v", res)
	}
}

func testContextID(t *testing.T, e *env) {
	s := e.space(t)
	in := func(id, contextID string) *pb.Task { return taskAt(id, contextID, working, nil) }
	s.insert(in("t", "ctx"))
	s.insert(in("none", ""))
	for _, pre := range []backend.Precondition{present, whatever, notTerminal, atVersion(1)} {
		for _, other := range []string{"", "CTX", "ctx "} {
			s.refused(s.whole(in("t", other), pre), backend.ErrContextMismatch)
			s.refused(s.change("t", headDelta(t, in("t", other)), pre), backend.ErrContextMismatch)
		}
		s.refused(s.whole(in("none", "ctx"), pre), backend.ErrContextMismatch)
		s.refused(s.change("none", headDelta(t, in("none", "ctx")), pre), backend.ErrContextMismatch)
	}
	s.must(s.change("t", statusDelta(t, &pb.TaskStatus{State: inputRequired}), present))
	s.holds(taskAt("t", "ctx", inputRequired, nil))
	s.mustDelete("t")
	s.insert(in("t", "new")) // another task
}

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
