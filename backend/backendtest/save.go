package backendtest

import (
	"strings"
	"testing"

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
