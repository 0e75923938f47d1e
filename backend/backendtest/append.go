package backendtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
)

var appendScenarios = []scenario{
	{name: "Append/Numbers", run: testAppendNumbers},
	{name: "Append/Parallel", run: testAppendParallel},
	{name: "Append/ExplicitSeq", run: testExplicitSeq},
	{name: "Append/DroppedSeq", needs: []Capability{Sweeping}, run: testDroppedSeq},
	{name: "Append/WriteID", run: testAppendWriteID},
	{name: "Append/DroppedWriteID", needs: []Capability{Sweeping}, run: testDroppedWriteID},
	{name: "Append/Owners", run: testAppendOwners},
	{name: "Append/LogBeforeTask", run: testLogBeforeTask},
	{name: "Append/RequireTask", run: testRequireTask},
}

func (s *space) appended(got backend.AppendResult, first, last, version int64, replayed bool) {
	s.Helper()
	want := backend.AppendResult{FirstSeq: first, LastSeq: last, Version: version, Replayed: replayed}
	if got != want {
		s.Errorf("appended %+v, want %+v", got, want)
	}
}

func (s *space) inLog(id string, want ...int64) {
	s.Helper()
	if got := seqs(s.log(id)); !slices.Equal(got, want) {
		s.Errorf("log of %q holds %v, want %v", id, got, want)
	}
}

func testAppendNumbers(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working), textEvent("1"))
	req := s.appending("t", textEvent("2"), textEvent("3"), statusEvent("t", working))
	req.Origin = "replica"
	s.appended(s.append(req), 2, 4, 1, false)
	s.must(s.whole(taskIn("t", completed), present))
	s.appended(s.append(s.appending("t", textEvent("5"))), 5, 5, 2, false) // terminal tasks, too
	s.inLog("t", 1, 2, 3, 4, 5)
	_, res := s.get("t")
	if res.LastSeq != 5 || res.Version != 2 || res.FinalSeq != 4 { // an append is no write of the task
		t.Errorf("%+v", res)
	}
	for i, want := range []int64{1, 1, 1, 1, 2} {
		ev := s.log("t")[i]
		origin := ""
		if i > 0 && i < 4 {
			origin = "replica"
		}
		if ev.Version != want || ev.Origin != origin {
			t.Errorf("event %d: %+v", i, ev)
		}
		if !e.lacks(Internals) && ev.Appended != (i > 0) {
			t.Errorf("event %d: appended %v", i, ev.Appended)
		}
	}
	s.equal(s.event(s.log("t")[2]), textEvent("3"))
}

// testAppendParallel: callers that come at once share out 1 to n without gaps, each one's events in a row.
func testAppendParallel(t *testing.T, e *env) {
	s := e.space(t)
	for _, id := range []string{"log", "task"} {
		if id == "task" {
			s.insert(taskIn(id, working))
		}
		results := make([]backend.AppendResult, callers)
		parallel(t, callers, func(i int) (err error) {
			results[i], err = s.store.AppendEvents(t.Context(), s.appending(id, textEvent(fmt.Sprint(i))))
			return err
		})
		var got, want []int64
		for i, r := range results {
			got, want = append(got, r.FirstSeq), append(want, int64(i+1))
			if r.FirstSeq != r.LastSeq || r.Replayed {
				t.Errorf("%+v", r)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("seqs %v", got)
		}
		s.inLog(id, want...)
		for i, r := range results {
			s.equal(s.event(s.log(id)[r.FirstSeq-1]), textEvent(fmt.Sprint(i)))
		}
	}
	results := make([]backend.AppendResult, 16)
	parallel(t, 16, func(i int) (err error) {
		text := textEvent(fmt.Sprint(i))
		results[i], err = s.store.AppendEvents(t.Context(), s.appending("batches", text, text, text))
		return err
	})
	log := s.log("batches")
	for i, r := range results {
		if r.LastSeq != r.FirstSeq+2 {
			t.Fatalf("%+v", r)
		}
		for seq := r.FirstSeq; seq <= r.LastSeq; seq++ {
			s.equal(s.event(log[seq-1]), textEvent(fmt.Sprint(i)))
		}
	}
}

// at makes the caller choose the position.
func at(req *backend.AppendRequest, seq int64) *backend.AppendRequest {
	req.Seq = seq
	return req
}

func testExplicitSeq(t *testing.T, e *env) {
	s := e.space(t)
	s.appended(s.append(at(s.appending("t", textEvent("1")), 1)), 1, 1, 0, false)
	s.appended(s.append(at(s.appending("t", textEvent("1")), 1)), 1, 1, 0, true) // the same bytes
	err := s.notAppended(at(s.appending("t", textEvent("other")), 1), backend.ErrSeqConflict)
	s.meta(err, "seq", "1")
	s.meta(err, "last_seq", "1")
	s.appended(s.append(at(s.appending("t", textEvent("2")), 2)), 2, 2, 0, false)
	s.appended(s.append(at(s.appending("t", textEvent("5")), 5)), 5, 5, 0, false) // a gap
	s.inLog("t", 1, 2, 5)
	for _, seq := range []int64{3, 4} {
		err := s.notAppended(at(s.appending("t", textEvent("late")), seq), backend.ErrSeqNotWritten)
		s.meta(err, "last_seq", "5")
	}
	s.appended(s.append(s.appending("t", textEvent("6"))), 6, 6, 0, false) // the store goes on behind the head
	s.insert(taskIn("t", working), textEvent("7"))
	s.appended(s.append(at(s.appending("t", textEvent("8")), 8)), 8, 8, 1, false)
	s.appended(s.append(at(s.appending("t", textEvent("7")), 7)), 7, 7, 1, true) // of a Save
	s.must(s.whole(taskIn("t", working), present))
	s.appended(s.append(at(s.appending("t", textEvent("8")), 8)), 8, 8, 1, true) // the version that it carries
	s.appended(s.append(at(s.appending("t", textEvent("1")), 1)), 1, 1, 0, true)
	if res := s.must(func() *backend.SaveRequest {
		req := s.whole(taskIn("t", working), present)
		req.Events = inputs(t, textEvent("9"))
		return req
	}()); res.Seq != 9 {
		t.Errorf("%+v", res)
	}
	s.inLog("t", 1, 2, 5, 6, 7, 8, 9)

	s.appended(s.append(at(s.appending("far", textEvent("x")), 1<<40)), 1<<40, 1<<40, 0, false)
	s.inLog("far", 1<<40)
	s.notAppended(at(s.appending("far", textEvent("x")), 1), backend.ErrSeqNotWritten)

	// An incarnation before has used the positions up.
	s.mustDelete("t")
	s.append(s.appending("t", textEvent("10")))
	for _, seq := range []int64{1, 3, 9} {
		s.notAppended(at(s.appending("t", textEvent(fmt.Sprint(seq))), seq), backend.ErrSeqNotWritten)
	}
	s.appended(s.append(at(s.appending("t", textEvent("10")), 10)), 10, 10, 0, true)
}

// testDroppedSeq: what retention has dropped was there once, and can no longer be compared.
func testDroppedSeq(t *testing.T, e *env) {
	s := e.space(t)
	for i := range 10 {
		s.append(s.appending("t", textEvent(fmt.Sprint(i+1))))
	}
	e.sweep(t, backend.Retention{LogEvents: 4})
	s.inLog("t", 7, 8, 9, 10)
	s.appended(s.append(at(s.appending("t", textEvent("3")), 3)), 3, 3, 0, true)
	s.appended(s.append(at(s.appending("t", textEvent("other")), 6)), 6, 6, 0, true)
	s.notAppended(at(s.appending("t", textEvent("other")), 7), backend.ErrSeqConflict)
	s.inLog("t", 7, 8, 9, 10)
}

func testAppendWriteID(t *testing.T, e *env) {
	s := e.space(t)
	named := func(id, writeID string, texts ...string) *backend.AppendRequest {
		req := s.appending(id)
		for _, text := range texts {
			req.Events = append(req.Events, parseEvent(t, textEvent(text)))
		}
		req.WriteID = writeID
		return req
	}
	s.appended(s.append(named("t", "w1", "1", "2")), 1, 2, 0, false)
	s.appended(s.append(named("t", "w1", "1", "2")), 1, 2, 0, true)
	s.insert(taskIn("t", working), textEvent("3"))
	s.append(named("t", "w2", "4"))
	s.append(s.appending("t", textEvent("5"), textEvent("6")))
	s.appended(s.append(named("t", "w1", "1", "2")), 1, 2, 0, true) // whatever others did meanwhile
	s.appended(s.append(named("t", "w2", "4")), 4, 4, 1, true)
	s.must(s.whole(taskIn("t", completed), present))
	s.appended(s.append(named("t", "w2", "4")), 4, 4, 1, true)
	s.inLog("t", 1, 2, 3, 4, 5, 6)

	s.appended(s.append(named("other", "w1", "1")), 1, 1, 0, false) // of another task
	save := s.whole(taskIn("saved", working), absent)
	save.WriteID, save.Events = "w1", inputs(t, textEvent("1"))
	s.must(save)
	s.appended(s.append(named("saved", "w1", "2")), 2, 2, 1, false) // a Save's write_id is another matter
	if res := s.must(save); !res.Replayed {
		t.Errorf("%+v", res)
	}
	if !e.lacks(Internals) {
		for i, want := range []string{"w1", "w1", "", "w2", "", ""} {
			if got := s.log("t")[i].WriteID; got != want {
				t.Errorf("event %d has the write id %q, want %q", i, got, want)
			}
		}
	}
	s.mustDelete("other")
	s.appended(s.append(named("other", "w1", "1")), 2, 2, 0, false) // gone with its log

	results := make([]backend.AppendResult, callers) // retries that overlap
	parallel(t, callers, func(i int) (err error) {
		results[i], err = s.store.AppendEvents(t.Context(), named("retried", "w", "x", "y"))
		return err
	})
	first := 0
	for _, r := range results {
		if r.FirstSeq != 1 || r.LastSeq != 2 {
			t.Fatalf("%+v", r)
		}
		if !r.Replayed {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d of the retries appended", first)
	}
	s.inLog("retried", 1, 2)
}

// testDroppedWriteID: a retry some of whose events retention has dropped is another append.
func testDroppedWriteID(t *testing.T, e *env) {
	s := e.space(t)
	req := s.appending("t", textEvent("1"), textEvent("2"), textEvent("3"))
	req.WriteID = "w"
	s.appended(s.append(req), 1, 3, 0, false)
	e.sweep(t, backend.Retention{LogEvents: 2})
	s.appended(s.append(req), 4, 6, 0, false)
	s.appended(s.append(req), 4, 6, 0, true)
	e.sweep(t, backend.Retention{LogEvents: 3})
	s.appended(s.append(req), 4, 6, 0, true)
	e.sweep(t, backend.Retention{LogBytes: 1})
	s.appended(s.append(req), 7, 9, 0, false)
	s.inLog("t", 7, 8, 9)
}

func testAppendOwners(t *testing.T, e *env) {
	s := e.space(t)
	alice, bob, nobody, trusted := s.as(backend.OwnerOf("alice")), s.as(backend.OwnerOf("bob")), s.as(backend.OwnerOf("")), s.as(backend.Owner{})
	alice.append(alice.appending("log", textEvent("1")))
	alice.insert(taskIn("task", working), textEvent("1"))
	for _, id := range []string{"log", "task"} {
		for _, foreign := range []*space{bob, nobody} {
			req := foreign.appending(id, textEvent("x"))
			err := foreign.notAppended(req, backend.ErrTaskNotFound)
			foreign.alike(err, foreign.notAppended(at(foreign.appending(id, textEvent("1")), 1), backend.ErrTaskNotFound))
			_, unknown := foreign.readLog("unknown", backend.Start{}, 1)
			foreign.alike(err, foreign.reason(unknown, backend.ErrTaskNotFound))
			_, got := foreign.readLog(id, backend.Start{}, 1)
			foreign.alike(err, foreign.reason(got, backend.ErrTaskNotFound))
		}
		trusted.appended(trusted.append(trusted.appending(id, textEvent("2"))), 2, 2, map[string]int64{"task": 1}[id], false)
		alice.inLog(id, 1, 2)
	}
	trusted.append(trusted.appending("unowned", textEvent("1"))) // belongs to ""
	nobody.inLog("unowned", 1)
	alice.notAppended(alice.appending("unowned", textEvent("2")), backend.ErrTaskNotFound)
	alice.mustDelete("log")
	bob.append(bob.appending("log", textEvent("mine now")))
	alice.notAppended(alice.appending("log", textEvent("x")), backend.ErrTaskNotFound)
}

func testLogBeforeTask(t *testing.T, e *env) {
	s := e.space(t)
	s.appended(s.append(s.appending("t", textEvent("1"), textEvent("2"))), 1, 2, 0, false)
	s.missing("t") // a log is no task
	s.refused(s.whole(taskIn("t", working), present), backend.ErrTaskNotFound)
	if res := s.insert(taskIn("t", working), textEvent("3")); res.Version != 1 || res.Seq != 3 {
		t.Errorf("%+v", res)
	}
	s.inLog("t", 1, 2, 3)
	for i, want := range []int64{0, 0, 1} {
		if got := s.log("t")[i].Version; got != want {
			t.Errorf("event %d has version %d", i, got)
		}
	}
	s.append(s.appending("any", textEvent("1")))
	s.must(s.whole(taskIn("any", completed), whatever))
	if _, res := s.get("any"); res.LastSeq != 1 || res.FinalSeq != 1 || !res.Final {
		t.Errorf("%+v", res)
	}
}

func testRequireTask(t *testing.T, e *env) {
	s := e.space(t)
	require := func(id string) *backend.AppendRequest {
		req := s.appending(id, textEvent("x"))
		req.RequireTask = true
		return req
	}
	s.notAppended(require("t"), backend.ErrTaskNotFound)
	s.append(s.appending("t", textEvent("log only")))
	s.notAppended(require("t"), backend.ErrTaskNotFound)
	s.insert(taskIn("t", working))
	s.appended(s.append(require("t")), 2, 2, 1, false)
	s.mustDelete("t")
	s.notAppended(require("t"), backend.ErrTaskNotFound)
}
