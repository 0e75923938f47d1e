package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var concurrencyScenarios = []scenario{
	{name: "Concurrency/OneVersionOneWinner", run: testOneWinner},
	{name: "Concurrency/OneInsert", run: testOneInsert},
	{name: "Concurrency/OneRetry", run: testOneRetry},
	{name: "Concurrency/Deltas", run: testParallelDeltas},
	{name: "Concurrency/NoTornReads", run: testNoTornReads},
	{name: "Concurrency/WalkUnderWrites", run: testWalkUnderWrites},
	{name: "Concurrency/Linearizable", run: testLinearizable},
	{name: "Concurrency/ManyTasks", run: testManyTasks},
}

// callers is how many come at once.
const callers = 64

// parallel runs fn n times at once, and reports what fails.
func parallel(t *testing.T, n int, fn func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := fn(i); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
}

// winners counts the calls that took effect; the others must have failed for the reason.
func winners(t *testing.T, want backend.Reason, save func(i int) error) int {
	t.Helper()
	var mu sync.Mutex
	won := 0
	parallel(t, callers, func(i int) error {
		err := save(i)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			won++
			return nil
		}
		if !errors.Is(err, want) {
			return err
		}
		return nil
	})
	return won
}

func testOneWinner(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working))
	for version := int64(1); version <= 6; version++ {
		won := winners(t, backend.ErrVersionConflict, func(i int) error {
			var req *backend.SaveRequest
			if i%2 == 0 {
				req = s.whole(taskIn("t", working), atVersion(version))
			} else {
				req = s.change("t", historyDelta(t, -1, message(strconv.Itoa(i))), atVersion(version))
			}
			req.Events = inputs(t, textEvent(strconv.Itoa(i)))
			return s.save(req)
		})
		if _, res := s.get("t"); won != 1 || res.Version != version+1 || res.LastSeq != version {
			t.Fatalf("%d callers won version %d: %+v", won, version, res)
		}
	}
}

func testOneInsert(t *testing.T, e *env) {
	s := e.space(t)
	for round := range 5 {
		id := strconv.Itoa(round)
		won := winners(t, backend.ErrTaskExists, func(i int) error {
			o := s.as(backend.OwnerOf(strconv.Itoa(i % 4)))
			return o.save(o.whole(taskIn(id, working), absent))
		})
		if won != 1 {
			t.Fatalf("%d callers inserted one id", won)
		}
		// Unconditional writes all take effect, one behind the other.
		trusted := s.as(backend.Owner{})
		parallel(t, callers, func(i int) error {
			return trusted.save(trusted.whole(taskIn(id, working), whatever))
		})
		if _, res := trusted.get(id); res.Version != callers+1 {
			t.Errorf("version %d", res.Version)
		}
	}
}

// testOneRetry: of many attempts of one write that overlap, one writes and all get its reply.
func testOneRetry(t *testing.T, e *env) {
	s := e.space(t)
	for round := range 5 {
		id := strconv.Itoa(round)
		results := make([]backend.SaveResult, callers)
		parallel(t, callers, func(i int) (err error) {
			req := s.whole(taskIn(id, working), absent)
			req.WriteID, req.Events = "w", inputs(t, textEvent("x"))
			results[i], err = s.store.Save(t.Context(), req)
			return err
		})
		wrote := 0
		for _, res := range results {
			if !res.Replayed {
				wrote++
			}
			if res.Version != 1 || res.Seq != 1 || !res.UpdatedAt.Equal(results[0].UpdatedAt) {
				t.Fatalf("%+v", res)
			}
		}
		if wrote != 1 {
			t.Fatalf("%d attempts wrote", wrote)
		}
		s.inLog(id, 1)
	}
}

// testParallelDeltas: unconditional deltas that come at once all take effect, each once, whole saves between them or not.
func testParallelDeltas(t *testing.T, e *env) {
	s := e.space(t)
	m := taskIn("t", working)
	m.Artifacts = []*pb.Artifact{artifact("a"), artifact("b")}
	s.insert(m)
	parallel(t, callers, func(i int) error {
		name := strconv.Itoa(i)
		d := partsDelta(t, []string{"a", "b"}[i%2], -1, textPart(name))
		d.History = parseHistory(t, message(name))
		req := s.change("t", d, present)
		req.Events = []backend.EventInput{snapshot}
		return s.save(req)
	})
	got, res := s.get("t")
	if res.Version != callers+1 || res.LastSeq != callers {
		t.Errorf("%+v", res)
	}
	seen := map[string]int{}
	for i, a := range got.Artifacts {
		for _, p := range a.Parts {
			seen[p.GetText()]++
			if n, err := strconv.Atoi(p.GetText()); err != nil || n%2 != i {
				t.Errorf("artifact %q has the part %q", a.ArtifactId, p.GetText())
			}
		}
	}
	for _, h := range got.History {
		seen[h.MessageId]++
	}
	for i := range callers {
		if n := seen[strconv.Itoa(i)]; n != 2 {
			t.Errorf("delta %d shows %d times", i, n)
		}
	}
	// Each snapshot is the task as its own write left it.
	for i, ev := range s.log("t") {
		task := s.event(ev).GetTask()
		if n := len(task.GetHistory()); n != i+1 || len(task.Artifacts[0].Parts)+len(task.Artifacts[1].Parts) != i+1 {
			t.Errorf("snapshot %d has %d messages", ev.Seq, n)
		}
	}
	s.must(s.whole(got, atVersion(callers+1)))
	s.holds(got)
}

// testNoTornReads: a reader never sees half of a write.
func testNoTornReads(t *testing.T, e *env) {
	const writes = 150
	s := e.space(t)
	task := func(n int) *pb.Task {
		m := taskAt("t", "ctx", working, day(2025, time.January, n))
		m.Artifacts = []*pb.Artifact{artifact("a", strconv.Itoa(n))}
		m.History = []*pb.Message{message(strconv.Itoa(n))}
		return m
	}
	s.insert(task(0))
	var done atomic.Bool
	parallel(t, 4, func(worker int) error {
		if worker == 0 {
			defer done.Store(true)
			for n := 1; n <= writes; n++ {
				req := s.whole(task(n), present)
				if n%3 != 0 { // the same as a delta
					d := statusDelta(t, task(n).Status)
					d.Put, d.History, d.MaxHistory = parseArtifact(t, task(n).Artifacts[0]), parseHistory(t, task(n).History[0]), 1
					req = s.change("t", d, present)
				}
				if err := s.save(req); err != nil {
					return err
				}
			}
			return nil
		}
		for !done.Load() {
			res, err := s.read("t", backend.All)
			if err != nil {
				return err
			}
			list, err := s.store.List(t.Context(), &backend.ListRequest{
				Tenant: s.tenant, Owner: s.owner, Size: 1, MaxBytes: 1 << 20, Extent: backend.All,
			})
			if err != nil {
				return err
			}
			if len(list.Rows) != 1 || list.Total != 1 {
				return fmt.Errorf("%d rows of %d", len(list.Rows), list.Total)
			}
			for _, row := range []backend.Stored{res.Stored, list.Rows[0]} {
				if got, want := decodeTask(t, row.Task), task(int(row.Version)-1); !proto.Equal(got, want) {
					return fmt.Errorf("version %d is %v", row.Version, got)
				}
			}
		}
		return nil
	})
}

// testWalkUnderWrites: a walk returns each task that nobody touches once, in order, whatever happens around it.
func testWalkUnderWrites(t *testing.T, e *env) {
	s := e.space(t)
	at := func(n int) *pb.TaskStatus {
		return &pb.TaskStatus{State: working, Timestamp: day(2025, time.January, 1+n%20)}
	}
	var still []*pb.Task
	for i := range 60 {
		m := &pb.Task{Id: fmt.Sprint("still ", i), ContextId: "ctx", Status: at(i * 7)}
		still = append(still, m)
		s.insert(m)
	}
	want := sorted(still)
	var done atomic.Bool
	parallel(t, 4, func(worker int) error {
		if worker < 2 {
			for i := range 150 {
				id := fmt.Sprint("moving ", worker, " ", i%10)
				err := s.save(s.whole(&pb.Task{Id: id, ContextId: "ctx", Status: at(i * 3)}, whatever))
				if err == nil && i%7 == 0 {
					_, err = s.delete(id, 0)
				}
				if err != nil {
					return err
				}
			}
			done.Store(true)
			return nil
		}
		for !done.Load() {
			var got []string
			for req := (backend.ListRequest{Tenant: s.tenant, Owner: s.owner, Size: 7, MaxBytes: 1 << 20}); ; {
				res, err := s.store.List(t.Context(), &req)
				if err != nil {
					return err
				}
				for _, row := range res.Rows {
					if id := decodeTask(t, row.Task).GetId(); strings.HasPrefix(id, "still") {
						got = append(got, id)
					}
				}
				if req.After = res.Next; req.After == nil {
					break
				}
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("walked %q, want %q", got, want)
			}
		}
		return nil
	})
}

// testManyTasks: writers of different tasks, in different tenants, do not disturb each other.
func testManyTasks(t *testing.T, e *env) {
	spaces := []*space{e.space(t), e.space(t), e.space(t)}
	const perCaller = 4
	parallel(t, callers, func(i int) error {
		s := spaces[i%len(spaces)]
		for k := range perCaller {
			id := fmt.Sprint(i, "/", k)
			m := taskAt(id, "ctx", working, day(2025, time.January, 1+i%28))
			req := s.whole(m, absent)
			req.Events = inputs(t, textEvent(id))
			if err := s.save(req); err != nil {
				return err
			}
			if err := s.save(s.change(id, putDelta(t, artifact(id, "x")), atVersion(1))); err != nil {
				return err
			}
			if _, err := s.store.AppendEvents(t.Context(), s.appending(id, textEvent("more"))); err != nil {
				return err
			}
			if k == 0 {
				if _, err := s.delete(id, 2); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for n, s := range spaces {
		var want []*pb.Task
		for i := n; i < callers; i += len(spaces) {
			for k := 1; k < perCaller; k++ {
				m := taskAt(fmt.Sprint(i, "/", k), "ctx", working, day(2025, time.January, 1+i%28))
				want = append(want, m)
				s.inLog(m.Id, 1, 2)
				stored, _ := s.get(m.Id)
				if len(stored.Artifacts) != 1 || stored.Artifacts[0].ArtifactId != m.Id {
					t.Errorf("%q holds %v", m.Id, stored.Artifacts)
				}
			}
		}
		s.same(s.walk(backend.ListRequest{Size: 11}), sorted(want))
	}
}
