package backendtest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var listScenarios = []scenario{
	{name: "List/Fixture", run: testListFixture},
	{name: "List/Order", run: testListOrder},
	{name: "List/Filters", run: testListFilters},
	{name: "List/Scope", run: testListScope},
	{name: "List/Extents", run: testListExtents},
	{name: "List/MaxBytes", needs: []Capability{Internals}, run: testListMaxBytes},
	{name: "List/FullPages", needs: []Capability{Internals}, run: testListFullPages},
	{name: "List/AnyPosition", needs: []Capability{Internals}, run: testListAnyPosition},
	{name: "List/WalkSurvives", run: testWalkSurvives},
	{name: "List/Moves", run: testListMoves},
	{name: "List/Thousands", run: testListThousands},
}

// list completes a request with the space's scope.
func (s *space) list(req backend.ListRequest) backend.ListResult {
	s.Helper()
	req.Tenant, req.Owner = s.tenant, s.owner
	if req.Size == 0 {
		req.Size = 100
	}
	if req.MaxBytes == 0 {
		req.MaxBytes = 3 << 20
	}
	res, err := s.store.List(s.Context(), &req)
	if err != nil {
		s.Fatalf("list %+v: %v", req, err)
	}
	if len(res.Rows) > req.Size {
		s.Errorf("%d rows on a page of %d", len(res.Rows), req.Size)
	}
	return res
}

// ids returns the ids of rows.
func (s *space) ids(rows []backend.Stored) []string {
	s.Helper()
	out := []string{}
	for _, r := range rows {
		out = append(out, decodeTask(s.tb, r.Task).GetId())
	}
	return out
}

// walk reads all pages, and wants the total on each and no empty page.
func (s *space) walk(req backend.ListRequest) []string {
	s.Helper()
	out := []string{}
	total := -1
	for {
		res := s.list(req)
		if !req.SkipTotal && total >= 0 && res.Total != total {
			s.Errorf("total %d on one page, %d on another", total, res.Total)
		}
		total = res.Total
		out = append(out, s.ids(res.Rows)...)
		if res.Next == nil {
			break
		}
		if len(res.Rows) == 0 {
			s.Fatalf("an empty page is not the last")
		}
		req.After = res.Next
	}
	if want := len(out); !req.SkipTotal && total != want {
		s.Errorf("total %d, want %d", total, want)
	}
	if req.SkipTotal && total != 0 {
		s.Errorf("total %d though it was not wanted", total)
	}
	return out
}

func (s *space) same(got, want []string) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("got %q, want %q", got, want)
	}
}

func testListFixture(t *testing.T, e *env) {
	s := e.space(t)
	for _, m := range []*pb.Task{
		taskAt("0", "A", submitted, day(2025, time.January, 1)),
		taskAt("1", "B", working, day(2025, time.January, 1)),
		taskAt("2", "A", submitted, day(2025, time.January, 2)),
		taskAt("3", "B", working, nil),
		taskAt("4", "A", completed, nil),
	} {
		s.insert(m)
	}
	s.same(s.walk(backend.ListRequest{}), []string{"2", "1", "0", "4", "3"})
	s.same(s.walk(backend.ListRequest{ContextID: "A"}), []string{"2", "0", "4"})
	s.same(s.walk(backend.ListRequest{State: int32(working)}), []string{"1", "3"})
	s.same(s.walk(backend.ListRequest{ContextID: "C"}), []string{})
	var pages [][]string
	for req := (backend.ListRequest{Size: 2}); ; {
		res := s.list(req)
		if res.Total != 5 {
			t.Errorf("total %d", res.Total)
		}
		pages = append(pages, s.ids(res.Rows))
		if req.After = res.Next; req.After == nil {
			break
		}
	}
	if got, want := fmt.Sprint(pages), "[[2 1] [0 4] [3]]"; got != want {
		t.Errorf("pages %s, want %s", got, want)
	}
}

// sorted returns the ids of tasks in the order of lists.
func sorted(tasks []*pb.Task) []string {
	tasks = slices.SortedFunc(slices.Values(tasks), func(a, b *pb.Task) int {
		return cmp.Or(position(b).Time.Compare(position(a).Time), strings.Compare(b.Id, a.Id))
	})
	out := []string{}
	for _, m := range tasks {
		out = append(out, m.Id)
	}
	return out
}

// awkwardIDs are ids that careless keys mix up, or put in another order than that of their bytes.
var awkwardIDs = []string{
	"a", "A", "b", "B", "aa", "a/", "a/b", "a\x01", "a\x01b", "a\x02", "a b", " ", "  ", "a ", "a\n", "a\t", "%", "_", "a%", "a_", "*",
	"'", "\"", "\\", "a\\0", "0", "00", "1", "10", "2", "\x7f", "\u0080", "ÿ", "é", "e\u0301", "É", "ß", "ss", "ı", "I", "i", "\u07ff",
	"\u0800", "\ufeff", "\ufffd", "\uffff", "\U00010000", "\U0010ffff", "\U0010ffff\U0010ffff", "\u200d", "日本", "a日", "\u202e", ".",
	"..", "../a", "null", "~", strings.Repeat("k", 256), strings.Repeat("\U0010ffff", 64),
}

func testListOrder(t *testing.T, e *env) {
	s := e.space(t)
	times := []*timestamppb.Timestamp{
		nil, {Seconds: -62135596800}, {Seconds: -62135596800, Nanos: 1}, {Seconds: -2, Nanos: 999999999}, {Seconds: -1},
		{Seconds: -1, Nanos: 999999999}, {}, {Nanos: 1}, {Nanos: 999999999}, {Seconds: 1}, {Seconds: 255}, {Seconds: 256},
		{Seconds: 1 << 31}, {Seconds: 1 << 33, Nanos: 5}, {Seconds: 9300000000}, {Seconds: 253402300799, Nanos: 999999999},
	}
	var tasks []*pb.Task
	for i, at := range times {
		tasks = append(tasks, taskAt(fmt.Sprintf("x%d", i), "ctx", working, at), taskAt(fmt.Sprintf("y%d", i), "ctx", failed, at))
	}
	for _, id := range awkwardIDs {
		tasks = append(tasks, taskAt(id, "awkward", working, times[7]))
	}
	for i := range tasks {
		s.insert(tasks[i*7%len(tasks)])
	}
	want := sorted(tasks)
	for _, size := range []int{1, 2, 3, 7, len(tasks) - 1, len(tasks), 100} {
		s.same(s.walk(backend.ListRequest{Size: size}), want)
		s.same(s.walk(backend.ListRequest{Size: size, SkipTotal: true}), want)
	}
	for _, since := range times[1:] {
		after, err := document.NewTimestamp(since.Seconds, since.Nanos)
		if err != nil {
			t.Fatal(err)
		}
		late := slices.DeleteFunc(slices.Clone(tasks), func(m *pb.Task) bool {
			at := position(m).Time
			return !at.Valid || at.Compare(after) < 0
		})
		s.same(s.walk(backend.ListRequest{Since: after, Size: 9}), sorted(late))
	}
}

func testListScope(t *testing.T, e *env) {
	s := e.space(t)
	alice, bob, nobody := s.as(backend.OwnerOf("alice")), s.as(backend.OwnerOf("bob")), s.as(backend.OwnerOf(""))
	for i, o := range []*space{alice, bob, nobody, alice, bob, alice} {
		o.insert(taskAt(fmt.Sprint(i), "ctx", working, day(2025, time.January, 1+i)))
	}
	e.space(t).insert(taskIn("elsewhere", working))
	s.append(s.appending("log", textEvent("a log is no task")))
	alice.same(alice.walk(backend.ListRequest{Size: 2}), []string{"5", "3", "0"})
	bob.same(bob.walk(backend.ListRequest{Size: 1}), []string{"4", "1"})
	nobody.same(nobody.walk(backend.ListRequest{}), []string{"2"})
	trusted := s.as(backend.Owner{})
	trusted.same(trusted.walk(backend.ListRequest{Size: 4}), []string{"5", "4", "3", "2", "1", "0"})
	for i, row := range trusted.list(backend.ListRequest{}).Rows {
		if want := []string{"alice", "bob", "alice", "", "bob", "alice"}[i]; row.Owner != want || row.Version != 1 {
			t.Errorf("row %d: owner %q, version %d", i, row.Owner, row.Version)
		}
	}
	unknown := s.as(backend.OwnerOf("alic"))
	unknown.same(unknown.walk(backend.ListRequest{}), []string{})
}

func testListExtents(t *testing.T, e *env) {
	s := e.space(t)
	extents := []backend.Extent{
		backend.All, {History: 0}, {History: 2}, {OmitArtifacts: true, History: -1}, {OmitArtifacts: true, History: 1},
	}
	if !e.lacks(Internals) {
		extents = append(extents, backend.Extent{StateOnly: true})
	}
	tasks := []*pb.Task{rich("c"), rich("b"), {Id: "a"}}
	for _, m := range tasks {
		s.insert(m)
		m.History = append(m.History, message("delta"))
		s.must(s.change(m.Id, historyDelta(t, -1, message("delta")), present))
	}
	for _, x := range extents {
		for i, row := range s.list(backend.ListRequest{Extent: x}).Rows {
			s.equal(decodeTask(t, row.Task), cut(tasks[i], x))
			if row.Version != 2 || row.Owner != "owner" {
				t.Errorf("row %d: %d, %q", i, row.Version, row.Owner)
			}
		}
	}
}

func testListMaxBytes(t *testing.T, e *env) {
	s := e.space(t)
	var want []string
	for i := range 20 {
		m := taskIn(fmt.Sprintf("%02d", 19-i), working)
		m.Artifacts = []*pb.Artifact{artifact("a", strings.Repeat("x", 100*i))}
		m.History = []*pb.Message{message(strings.Repeat("m", 200))}
		s.insert(m)
		want = append(want, m.Id)
	}
	for _, limit := range []int{1, 500, 1000, 2000, 5000, 1 << 20} {
		var got []string
		for req := (backend.ListRequest{MaxBytes: limit, Extent: backend.All}); ; {
			res := s.list(req)
			size := 0
			for _, r := range res.Rows {
				size += len(r.Task)
			}
			if size > limit && len(res.Rows) > 1 {
				t.Errorf("%d rows of %d bytes, the limit is %d", len(res.Rows), size, limit)
			}
			if len(res.Rows) == 0 || res.Total != 20 {
				t.Fatalf("%d rows, total %d", len(res.Rows), res.Total)
			}
			got = append(got, s.ids(res.Rows)...)
			if req.After = res.Next; req.After == nil {
				break
			}
		}
		s.same(got, want)
		if rows := s.list(backend.ListRequest{MaxBytes: limit, Size: 3, Extent: backend.All}).Rows; len(rows) > 3 {
			t.Errorf("%d rows", len(rows))
		}
	}
	if res := s.list(backend.ListRequest{MaxBytes: 1000, Extent: backend.Extent{OmitArtifacts: true}}); len(res.Rows) != 20 {
		t.Errorf("%d rows: artifacts and messages that were not read count", len(res.Rows))
	}
}

// testListFullPages: a page holds as many rows as fit its bytes, counted as they are on it, whatever part of the tasks is read
// and in whichever way they were written.
func testListFullPages(t *testing.T, e *env) {
	s := e.space(t)
	for i := range 12 {
		m := taskIn(fmt.Sprintf("%02d", i), working)
		m.Artifacts = []*pb.Artifact{artifact("a", strings.Repeat("x", 50*i))}
		for range i {
			m.History = append(m.History, message(strings.Repeat("m", 200)))
		}
		s.insert(m)
		if i%3 == 1 {
			s.must(s.change(m.Id, partsDelta(t, "a", -1, textPart(strings.Repeat("y", 300))), present))
		}
		if i%3 == 2 {
			s.must(s.change(m.Id, historyDelta(t, -1, message(strings.Repeat("n", 100))), present))
		}
	}
	for _, extent := range []backend.Extent{
		backend.All, {History: -1, OmitArtifacts: true}, {History: 1}, {History: 3, OmitArtifacts: true}, {}, {OmitArtifacts: true}, {StateOnly: true},
	} {
		all := s.list(backend.ListRequest{Extent: extent}).Rows
		if len(all) != 12 {
			t.Fatalf("%d rows", len(all))
		}
		for _, limit := range []int{1, 300, 700, 1500, 4000} {
			for _, most := range []int{5, 100} {
				rest := all
				for req := (backend.ListRequest{Size: most, MaxBytes: limit, Extent: extent}); ; {
					size, fit := 0, 0
					for fit < min(len(rest), most) && (fit == 0 || size+len(rest[fit].Task) <= limit) {
						size += len(rest[fit].Task)
						fit++
					}
					res := s.list(req)
					if len(res.Rows) != fit {
						t.Fatalf("%+v: %d rows on a page of at most %d and %d bytes, want %d", extent, len(res.Rows), most, limit, fit)
					}
					for i, r := range res.Rows {
						if !bytes.Equal(r.Task, rest[i].Task) || r.Version != rest[i].Version || r.Owner != rest[i].Owner {
							t.Errorf("%+v: row %d is another one on a page of %d bytes", extent, i, limit)
						}
					}
					rest = rest[fit:]
					if req.After = res.Next; req.After == nil || len(rest) == 0 {
						if req.After != nil || len(rest) != 0 {
							t.Fatalf("%d rows are left, next is %v", len(rest), req.After)
						}
						break
					}
				}
			}
		}
	}
}
