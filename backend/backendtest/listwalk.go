package backendtest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// testListFilters compares every combination of filters, over random tasks, with what a loop over all of them finds.
func testListFilters(t *testing.T, e *env) {
	genSeconds := rapid.Int64Range(-2, 2)
	genContext := rapid.SampledFrom([]string{"", "a", "b", "ab"})
	genKnown := rapid.Custom(func(t *rapid.T) pb.TaskState { return pb.TaskState(rapid.Int32Range(0, 8).Draw(t, "state")) })
	owners := rapid.SampledFrom([]backend.Owner{backend.OwnerOf("owner"), backend.OwnerOf(""), backend.OwnerOf("own")})
	rapid.Check(t, func(t *rapid.T) {
		s := e.space(t)
		tasks := map[string]*pb.Task{}
		owner := map[string]backend.Owner{}
		for i := range rapid.IntRange(0, 25).Draw(t, "tasks") {
			id := strconv.Itoa(i * 7 % 25)
			m := taskAt(id, genContext.Draw(t, "context"), genKnown.Draw(t, "state"), nil)
			if rapid.IntRange(0, 3).Draw(t, "timed") > 0 {
				m.Status.Timestamp = &timestamppb.Timestamp{
					Seconds: genSeconds.Draw(t, "seconds"), Nanos: rapid.Int32Range(0, 1).Draw(t, "nanos"),
				}
			}
			tasks[id], owner[id] = m, owners.Draw(t, "owner")
			s.as(owner[id]).insert(m)
		}
		for range 5 {
			caller := s.as(rapid.OneOf(owners, rapid.Just(backend.Owner{})).Draw(t, "caller"))
			req := backend.ListRequest{
				Size: rapid.IntRange(1, 26).Draw(t, "size"), SkipTotal: rapid.Bool().Draw(t, "skip total"),
				ContextID: genContext.Draw(t, "context filter"),
			}
			if rapid.Bool().Draw(t, "by state") {
				req.State = int32(genKnown.Draw(t, "state filter"))
			}
			if rapid.Bool().Draw(t, "by time") {
				req.Since, _ = document.NewTimestamp(genSeconds.Draw(t, "since"), rapid.Int32Range(0, 1).Draw(t, "since nanos"))
			}
			var want []*pb.Task
			for id, m := range tasks {
				at := position(m).Time
				if caller.owner.Sees(owner[id].Name) && (req.ContextID == "" || m.ContextId == req.ContextID) &&
					(req.State == 0 || int32(m.Status.State) == req.State) &&
					(!req.Since.Valid || (at.Valid && at.Compare(req.Since) >= 0)) {
					want = append(want, m)
				}
			}
			if got, want := caller.walk(req), sorted(want); !slices.Equal(got, want) {
				t.Fatalf("%+v for %+v: got %q, want %q", req, caller.owner, got, want)
			}
		}
	})
}

// testListAnyPosition starts pages at every place, also between rows.
func testListAnyPosition(t *testing.T, e *env) {
	s := e.space(t)
	var tasks []*pb.Task
	for i := range 12 {
		m := taskAt(fmt.Sprintf("%02d", 2*i), "ctx", working, &timestamppb.Timestamp{Seconds: int64(i/4) * 10, Nanos: 5})
		if i < 4 {
			m.Status.Timestamp = nil
		}
		tasks = append(tasks, m)
		s.insert(m)
	}
	all := sorted(tasks)
	for _, at := range []document.Timestamp{
		{}, {Valid: true}, {Valid: true, Seconds: 10}, {Valid: true, Seconds: 10, Nanos: 5}, {Valid: true, Seconds: 10, Nanos: 6},
		{Valid: true, Seconds: 20, Nanos: 5}, {Valid: true, Seconds: 30}, {Valid: true, Seconds: -5},
	} {
		for _, id := range []string{"", "00", "03", "04", "07", "11", "12", "22", "3", "\U0010ffff"} {
			want := slices.DeleteFunc(slices.Clone(all), func(row string) bool {
				i := slices.IndexFunc(tasks, func(m *pb.Task) bool { return m.Id == row })
				c := position(tasks[i]).Time.Compare(at)
				return c > 0 || (c == 0 && row >= id)
			})
			res := s.list(backend.ListRequest{After: &backend.Position{Time: at, TaskID: id}})
			if got := s.ids(res.Rows); !slices.Equal(got, want) {
				t.Errorf("behind %+v %q: got %q, want %q", at, id, got, want)
			}
			if res.Total != len(all) {
				t.Errorf("total %d", res.Total)
			}
		}
	}
}

// testWalkSurvives deletes or moves the row that each page ended with; all others come exactly once.
func testWalkSurvives(t *testing.T, e *env) {
	for _, size := range []int{1, 2, 3} {
		for _, filter := range []backend.ListRequest{{}, {ContextID: "ctx"}, {State: int32(working)}} {
			s := e.space(t)
			var tasks []*pb.Task
			for i := range 20 {
				m := taskAt(fmt.Sprint(i), "ctx", working, day(2025, time.January, 1+i/3))
				if i < 4 {
					m.Status.Timestamp = nil
				}
				tasks = append(tasks, m)
				s.insert(m)
			}
			var got []string
			for req, n := filter, 0; ; n++ {
				req.Size = size
				res := s.list(req)
				got = append(got, s.ids(res.Rows)...)
				if req.After = res.Next; req.After == nil {
					break
				}
				switch last := got[len(got)-1]; n % 3 {
				case 0:
					s.mustDelete(last)
				case 1: // to the front, where the walk has been
					s.must(s.change(last, statusDelta(t, &pb.TaskStatus{State: completed, Timestamp: day(2026, 1, 1)}), present))
				default: // out of the filter, in its place
					at := tasks[slices.IndexFunc(tasks, func(m *pb.Task) bool { return m.Id == last })].Status.Timestamp
					s.must(s.change(last, statusDelta(t, &pb.TaskStatus{State: inputRequired, Timestamp: at}), present))
				}
			}
			s.same(got, sorted(tasks))
		}
	}
}

// testListMoves: a row is where its latest write puts it, and only there.
func testListMoves(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskAt("fixed", "ctx", working, day(2025, time.June, 1)))
	at := func(state pb.TaskState, month time.Month) *pb.TaskStatus {
		return &pb.TaskStatus{State: state, Timestamp: day(2025, month, 1)}
	}
	s.insert(&pb.Task{Id: "moved", ContextId: "ctx", Status: at(working, time.January)})
	first, last := []string{"moved", "fixed"}, []string{"fixed", "moved"}
	check := func(state pb.TaskState, all []string) {
		t.Helper()
		for _, req := range []backend.ListRequest{{}, {ContextID: "ctx"}} {
			s.same(s.walk(req), all)
			for _, st := range allStates[1:] {
				req.State = int32(st)
				want := slices.DeleteFunc(slices.Clone(all), func(id string) bool {
					return (id == "fixed" && st != working) || (id == "moved" && st != state)
				})
				s.same(s.walk(req), want)
			}
		}
	}
	check(working, last)
	s.must(s.change("moved", statusDelta(t, at(inputRequired, time.December)), present))
	check(inputRequired, first)
	s.must(s.change("moved", statusDelta(t, &pb.TaskStatus{State: working}), present))
	check(working, last)
	s.must(s.change("moved", headDelta(t, &pb.Task{Id: "moved", ContextId: "ctx", Status: at(submitted, time.July)}), present))
	check(submitted, first)
	s.must(s.change("moved", historyDelta(t, -1, message("m")), present)) // stays
	check(submitted, first)
	s.must(s.whole(&pb.Task{Id: "moved", ContextId: "ctx", Status: at(completed, time.February)}, present))
	check(completed, last)
	s.mustDelete("moved")
	check(0, []string{"fixed"})
}

func testListThousands(t *testing.T, e *env) {
	const n = 2000
	s := e.space(t)
	contexts := map[string][]*pb.Task{}
	var all []*pb.Task
	for i := range n {
		contextID := "rare"
		if i%100 != 0 {
			contextID = fmt.Sprint("ctx", i%3)
		}
		m := taskAt(fmt.Sprintf("%x", i*7919%n), contextID, allStates[i%9], &timestamppb.Timestamp{Seconds: int64(i * 31 % 500)})
		all, contexts[contextID] = append(all, m), append(contexts[contextID], m)
	}
	parallel(t, 8, func(worker int) error {
		for i := worker; i < n; i += 8 {
			if _, err := s.store.Save(t.Context(), s.whole(all[i], absent)); err != nil {
				return err
			}
		}
		return nil
	})
	s.same(s.walk(backend.ListRequest{}), sorted(all))
	s.same(s.walk(backend.ListRequest{Size: 37, SkipTotal: true}), sorted(all))
	for contextID, tasks := range contexts {
		s.same(s.walk(backend.ListRequest{ContextID: contextID}), sorted(tasks))
		mine := slices.DeleteFunc(slices.Clone(tasks), func(m *pb.Task) bool { return m.Status.State != failed })
		s.same(s.walk(backend.ListRequest{ContextID: contextID, State: int32(failed)}), sorted(mine))
	}
}
