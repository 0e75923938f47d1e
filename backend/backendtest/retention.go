package backendtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var retentionScenarios = []scenario{
	{name: "Retention/Tasks", needs: []Capability{Clock, Sweeping}, run: testExpiry},
	{name: "Retention/ForEver", needs: []Capability{Clock, Sweeping}, run: testForEver},
	{name: "Retention/Logs", needs: []Capability{Sweeping}, run: testLogBounds},
	{name: "Retention/TasklessLogs", needs: []Capability{Clock, Sweeping}, run: testTasklessLogs},
	{name: "Retention/Tombstones", needs: []Capability{Clock, Sweeping}, run: testTombstones},
	{name: "Retention/Keys", needs: []Capability{Clock, Sweeping}, run: testSweptKeys},
	{name: "Retention/Batches", needs: []Capability{Clock, Sweeping}, run: testSweepBatches},
	{name: "Retention/Together", needs: []Capability{Clock, Sweeping}, run: testSweepsTogether},
}

// sweep runs a whole round of the sweeper, in batches, and adds up what it did.
func (e *env) sweep(t tb, r backend.Retention, batch ...int) backend.SweepResult {
	t.Helper()
	req := &backend.SweepRequest{Retention: r, Batch: 100}
	if len(batch) > 0 {
		req.Batch = batch[0]
	}
	var sum backend.SweepResult
	for range 100_000 {
		res, err := e.store.Sweep(t.Context(), req)
		if err != nil {
			t.Fatalf("sweep: %v", err)
		}
		sum.Tasks, sum.Events = sum.Tasks+res.Tasks, sum.Events+res.Events
		sum.Keys, sum.Tombstones = sum.Keys+res.Keys, sum.Tombstones+res.Tombstones
		if req.Cursor = res.Cursor; req.Cursor == nil {
			return sum
		}
	}
	t.Fatalf("the sweep does not end")
	return sum
}

func swept(t tb, got, want backend.SweepResult) {
	t.Helper()
	if got.Tasks != want.Tasks || got.Events != want.Events || got.Keys != want.Keys || got.Tombstones != want.Tombstones {
		t.Errorf("swept %+v, want %+v", got, want)
	}
}

// testExpiry: age counts from the last write or append, by the store's clock, whatever the agents' timestamps say.
func testExpiry(t *testing.T, e *env) {
	s := e.space(t)
	r := backend.Retention{Terminal: time.Hour, Idle: 10 * time.Hour}
	for _, m := range []*pb.Task{
		taskAt("done", "ctx", completed, day(2099, time.January, 1)), taskIn("done, rewritten", failed),
		taskIn("done, appended", rejected), taskAt("open", "ctx", working, day(1999, time.January, 1)),
		taskIn("waiting", inputRequired), taskIn("ended later", working),
	} {
		s.insert(m, textEvent("x"))
	}
	e.clock.advance(time.Hour - 1)
	swept(t, e.sweep(t, r), backend.SweepResult{})
	s.must(s.whole(taskIn("done, rewritten", failed), present))
	s.append(s.appending("done, appended", textEvent("late")))
	e.clock.advance(1)
	swept(t, e.sweep(t, r), backend.SweepResult{Tasks: 1})
	s.missing("done")
	_, err := s.readLog("done", backend.Start{}, 10)
	s.reason(err, backend.ErrTaskNotFound)
	s.same(s.walk(backend.ListRequest{}), []string{"open", "waiting", "ended later", "done, rewritten", "done, appended"})

	e.clock.advance(8 * time.Hour)
	s.must(s.change("ended later", statusDelta(t, &pb.TaskStatus{State: completed}), notTerminal))
	swept(t, e.sweep(t, r), backend.SweepResult{Tasks: 2})
	s.same(s.walk(backend.ListRequest{}), []string{"open", "waiting", "ended later"})
	e.clock.advance(time.Hour)
	swept(t, e.sweep(t, r), backend.SweepResult{Tasks: 3})
	s.same(s.walk(backend.ListRequest{}), []string{})
	swept(t, e.sweep(t, r), backend.SweepResult{})

	// Expiry acts like Delete.
	if res := s.insert(taskIn("done, rewritten", working), textEvent("x")); res.Version != 3 || res.Seq != 2 {
		t.Errorf("created again: %+v", res)
	}
	s.starts("done, rewritten", afterSeq(1), 2)
}

func testForEver(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("done", completed), textEvent("x"))
	s.insert(taskIn("open", working), textEvent("x"))
	s.append(s.appending("log", textEvent("x")))
	s.insert(taskIn("deleted", working))
	s.mustDelete("deleted")
	e.clock.advance(100 * 365 * 24 * time.Hour)
	swept(t, e.sweep(t, backend.Retention{}), backend.SweepResult{})
	s.same(s.walk(backend.ListRequest{}), []string{"open", "done"})
	s.inLog("log", 1)
	if res := s.insert(taskIn("deleted", working)); res.Version != 2 {
		t.Errorf("%+v", res)
	}
}

func testLogBounds(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working), textEvent("1"))
	for i := range 9 {
		s.append(s.appending("t", textEvent(fmt.Sprint(i+2))))
		s.append(s.appending("log", textEvent(fmt.Sprint(i))))
	}
	swept(t, e.sweep(t, backend.Retention{LogEvents: 10}), backend.SweepResult{})
	swept(t, e.sweep(t, backend.Retention{LogEvents: 8}), backend.SweepResult{Events: 3})
	s.inLog("t", 3, 4, 5, 6, 7, 8, 9, 10)
	s.inLog("log", 2, 3, 4, 5, 6, 7, 8, 9)
	s.holds(taskIn("t", working))

	// By bytes: as many of the newest as fit.
	var sizes int64
	log := s.log("t")
	for _, ev := range log[5:] {
		sizes += int64(ev.Size())
	}
	s.mustDelete("log")
	swept(t, e.sweep(t, backend.Retention{LogBytes: sizes}), backend.SweepResult{Events: 5})
	s.inLog("t", 8, 9, 10)
	swept(t, e.sweep(t, backend.Retention{LogBytes: sizes - 1}), backend.SweepResult{Events: 1})
	s.inLog("t", 9, 10)

	// Snapshots count with their full size.
	big := taskIn("big", working)
	big.Artifacts = []*pb.Artifact{artifact("a", string(make([]byte, 10_000)))}
	req := s.whole(big, absent)
	req.Events = []backend.EventInput{snapshot, snapshot}
	s.must(req)
	swept(t, e.sweep(t, backend.Retention{LogBytes: 20_000}), backend.SweepResult{Events: 1})
	s.inLog("big", 2)
	swept(t, e.sweep(t, backend.Retention{LogBytes: 20_000}), backend.SweepResult{})

	// Of an id created again only the new events count.
	for i := range 5 {
		s.append(s.appending("log", textEvent(fmt.Sprint("again ", i))))
	}
	swept(t, e.sweep(t, backend.Retention{LogEvents: 5}), backend.SweepResult{})
	swept(t, e.sweep(t, backend.Retention{LogEvents: 3}), backend.SweepResult{Events: 2})
	s.inLog("log", 12, 13, 14)

	// A write after the trim counts on.
	s.append(s.appending("t", textEvent("11")))
	s.inLog("t", 9, 10, 11)
	if _, res := s.get("t"); res.LastSeq != 11 || res.Version != 1 {
		t.Errorf("%+v", res)
	}
}

func testTasklessLogs(t *testing.T, e *env) {
	s := e.space(t)
	r := backend.Retention{TasklessLog: time.Hour}
	s.append(s.appending("log", textEvent("x")))
	s.append(s.appending("used", textEvent("x")))
	s.append(s.appending("task", textEvent("x")))
	s.insert(taskIn("task", working))
	e.clock.advance(time.Hour - 1)
	s.append(s.appending("used", textEvent("x")))
	e.clock.advance(1)
	swept(t, e.sweep(t, r), backend.SweepResult{Tasks: 1})
	_, err := s.readLog("log", backend.Start{}, 10)
	s.reason(err, backend.ErrTaskNotFound)
	s.inLog("used", 1, 2)
	s.inLog("task", 1)
	s.as(backend.OwnerOf("bob")).append(s.as(backend.OwnerOf("bob")).appending("log", textEvent("x"))) // free for others
}

func testTombstones(t *testing.T, e *env) {
	s := e.space(t)
	r := backend.Retention{Tombstone: 30 * 24 * time.Hour}
	for _, id := range []string{"a", "b"} {
		s.insert(taskIn(id, working), textEvent("x"))
		s.mustDelete(id)
	}
	e.clock.advance(r.Tombstone - 1)
	swept(t, e.sweep(t, r), backend.SweepResult{})
	if res := s.insert(taskIn("a", working), textEvent("x")); res.Version != 2 || res.Seq != 2 {
		t.Errorf("%+v", res)
	}
	e.clock.advance(1)
	swept(t, e.sweep(t, r), backend.SweepResult{Tombstones: 1})
	if res := s.insert(taskIn("b", working), textEvent("x")); res.Version != 1 || res.Seq != 1 {
		t.Errorf("after the tombstone went: %+v", res)
	}
	s.holds(taskIn("a", working))
	s.inLog("b", 1)
}

func testSweptKeys(t *testing.T, e *env) {
	s := e.space(t)
	s.claim("unbound", "m", "x", "one", backend.Claimed, "x")
	s.claim("bound", "m", "t", "one", backend.Claimed, "t")
	s.must(bind(s.whole(taskIn("t", working), absent), "bound", "one"))
	s.mustDelete("t")
	e.clock.advance(lease - 1)
	swept(t, e.sweep(t, backend.DefaultRetention), backend.SweepResult{})
	e.clock.advance(1)
	swept(t, e.sweep(t, backend.DefaultRetention), backend.SweepResult{Keys: 1})
	s.claim("bound", "m", "x", "two", backend.Replay, "t")
	s.claim("unbound", "m2", "y", "two", backend.Claimed, "y")
	e.clock.advance(ttl)
	swept(t, e.sweep(t, backend.DefaultRetention), backend.SweepResult{Keys: 2})
	s.claim("bound", "m2", "y", "two", backend.Claimed, "y")
}

// fill writes tasks, logs, tombstones and keys that expire within two hours, and the same again that do not.
func (s *space) fill(n int) {
	s.Helper()
	for i := range n {
		old, kept := fmt.Sprint("old ", i), fmt.Sprint("kept ", i)
		s.insert(taskIn(old+" task", completed), textEvent("x"))
		s.append(s.appending(old+" log", textEvent("x")))
		s.claim(old, "m", "x", "one", backend.Claimed, "x")
		s.insert(taskIn(kept+" task", working), textEvent("x"), textEvent("y"))
	}
}

var shortRetention = backend.Retention{Terminal: time.Hour, TasklessLog: time.Hour, LogEvents: 1}

func testSweepBatches(t *testing.T, e *env) {
	const n = 12
	for _, batch := range []int{1, 2, 5, 1000} {
		s := e.space(t)
		s.fill(n)
		e.clock.advance(2 * time.Hour)
		swept(t, e.sweep(t, shortRetention, batch), backend.SweepResult{Tasks: 2 * n, Events: n, Keys: n})
		swept(t, e.sweep(t, shortRetention, batch), backend.SweepResult{})
		if rows := s.list(backend.ListRequest{}).Rows; len(rows) != n {
			t.Errorf("%d tasks left", len(rows))
		}
		e.clock.advance(time.Hour)
		forget := backend.Retention{Tombstone: time.Hour}
		swept(t, e.sweep(t, forget, batch), backend.SweepResult{Tombstones: 2 * n})
	}
	// A round that was cut off does no harm, nor does a cursor from before.
	s := e.space(t)
	s.fill(n)
	e.clock.advance(2 * time.Hour)
	req := &backend.SweepRequest{Retention: shortRetention, Batch: 5}
	first, err := e.store.Sweep(t.Context(), req)
	if err != nil || first.Cursor == nil || first.Tasks > req.Batch {
		t.Fatalf("first batch: %+v, %v", first, err)
	}
	rest := e.sweep(t, shortRetention)
	if sum := first.Tasks + rest.Tasks; sum != 2*n {
		t.Errorf("%d tasks and logs swept", sum)
	}
	if again, err := e.store.Sweep(t.Context(), &backend.SweepRequest{Retention: shortRetention, Batch: 5, Cursor: first.Cursor}); err != nil || again.Tasks != 0 {
		t.Errorf("an old cursor: %+v, %v", again, err)
	}
}

// testSweepsTogether: sweepers of several replicas, and writers, do each other no harm.
func testSweepsTogether(t *testing.T, e *env) {
	const n = 40
	s := e.space(t)
	s.fill(n)
	e.clock.advance(2 * time.Hour)
	sums := make([]backend.SweepResult, 3)
	parallel(t, 4, func(i int) error {
		if i < len(sums) {
			sums[i] = e.sweep(t, shortRetention, 7)
			return nil
		}
		for k := range n {
			id := fmt.Sprint("kept ", k, " task")
			if _, err := s.store.AppendEvents(t.Context(), s.appending(id, textEvent("z"))); err != nil {
				return err
			}
		}
		return nil
	})
	tasks := 0
	for _, sum := range sums {
		tasks += sum.Tasks
	}
	if tasks != 2*n {
		t.Errorf("%d tasks and logs swept, want %d", tasks, 2*n)
	}
	e.sweep(t, shortRetention)
	for k := range n {
		id := fmt.Sprint("kept ", k, " task")
		if got := seqs(s.log(id)); !slices.Equal(got, []int64{3}) {
			t.Errorf("log of %q holds %v", id, got)
		}
		s.missing(fmt.Sprint("old ", k, " task"))
	}
}
