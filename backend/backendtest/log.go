package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var logScenarios = []scenario{
	{name: "Log/Starts", run: testLogStarts},
	{name: "Log/AfterVersion", run: testAfterVersion},
	{name: "Log/Trimmed", needs: []Capability{Sweeping}, run: testTrimmedLog},
	{name: "Log/Empty", run: testEmptyLog},
	{name: "Log/Gaps", run: testLogGaps},
	{name: "Log/CreatedAgain", run: testLogCreatedAgain},
	{name: "Log/Pages", run: testLogPages},
	{name: "Log/PageBytes", needs: []Capability{Internals}, run: testLogPageBytes},
	{name: "Log/Task", run: testLogTask},
	{name: "Log/OneInstant", run: testOneInstant},
}

func afterSeq(n int64) backend.Start     { return backend.Start{N: n} }
func afterVersion(n int64) backend.Start { return backend.Start{Kind: backend.AfterVersion, N: n} }

var fromNow = backend.Start{Kind: backend.FromNow}

// starts wants the events behind a start.
func (s *space) starts(id string, start backend.Start, want ...int64) backend.LogPage {
	s.Helper()
	page, err := s.readLog(id, start, 1000)
	if err != nil {
		s.Fatalf("log of %q behind %+v: %v", id, start, err)
	}
	if got := seqs(page.Events); !slices.Equal(got, want) {
		s.Errorf("log of %q behind %+v: %v, want %v", id, start, got, want)
	}
	if from := page.From; !s.lacks(Internals) && len(want) > 0 && (from >= want[0] || from < page.Log.FirstSeq-1) {
		s.Errorf("log of %q behind %+v: resolved to %d of %+v", id, start, from, page.Log)
	}
	return page
}

// outOfRange wants a start to be refused, with the range that there is.
func (s *space) outOfRange(id string, start backend.Start, earliest, last int64) {
	s.Helper()
	_, err := s.readLog(id, start, 10)
	e := s.reason(err, backend.ErrLogRange)
	s.meta(e, "earliest_seq", fmt.Sprint(earliest))
	s.meta(e, "last_seq", fmt.Sprint(last))
}

func testLogStarts(t *testing.T, e *env) {
	s := e.space(t)
	for _, start := range []backend.Start{{}, afterSeq(1), afterVersion(0), afterVersion(1), fromNow} {
		_, err := s.readLog("unknown", start, 10)
		s.reason(err, backend.ErrTaskNotFound)
	}
	s.insert(taskIn("t", working), textEvent("1"), textEvent("2"))
	s.append(s.appending("t", textEvent("3")))
	page := s.starts("t", afterSeq(0), 1, 2, 3)
	if page.Log.FirstSeq != 1 || page.Log.LastSeq != 3 || page.Log.Final {
		t.Errorf("%+v", page.Log)
	}
	if !e.lacks(Internals) && (page.Log.Version != 1 || page.Log.Incarnation == 0) {
		t.Errorf("%+v", page.Log)
	}
	s.starts("t", afterVersion(0), 1, 2, 3)
	s.starts("t", afterSeq(1), 2, 3)
	s.starts("t", afterSeq(3))
	if page := s.starts("t", fromNow); !e.lacks(Internals) && page.From != 3 {
		t.Errorf("from now resolved to %d", page.From)
	}
	s.outOfRange("t", afterSeq(4), 1, 3)
	s.outOfRange("t", afterSeq(1<<62), 1, 3)
	s.outOfRange("t", afterVersion(2), 1, 3)
	s.append(s.appending("log", textEvent("1"))) // a log without a task has version 0
	s.starts("log", afterVersion(0), 1)
	s.outOfRange("log", afterVersion(1), 1, 1)
}

// testAfterVersion: behind the write of a version are the events of later Saves, and what was appended at it or later.
func testAfterVersion(t *testing.T, e *env) {
	s := e.space(t)
	s.append(s.appending("t", textEvent("1, before the task")))
	s.insert(taskIn("t", working), textEvent("2, version 1"), textEvent("3, version 1"))
	s.append(s.appending("t", textEvent("4, at 1")))
	s.must(s.whole(taskIn("t", working), present)) // version 2, no event
	s.append(s.appending("t", textEvent("5, at 2"), textEvent("6, at 2")))
	req := s.whole(taskIn("t", working), present)
	req.Events = inputs(t, textEvent("7, version 3"))
	s.must(req)
	s.must(s.whole(taskIn("t", completed), present)) // version 4, no event
	s.starts("t", afterVersion(0), 1, 2, 3, 4, 5, 6, 7)
	s.starts("t", afterVersion(1), 4, 5, 6, 7)
	s.starts("t", afterVersion(2), 5, 6, 7)
	s.starts("t", afterVersion(3))
	s.starts("t", afterVersion(4))
	s.outOfRange("t", afterVersion(5), 1, 7)
	s.append(s.appending("t", textEvent("8, at 4")))
	s.starts("t", afterVersion(3), 8)
	s.starts("t", afterVersion(4), 8)
}

func testTrimmedLog(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working), textEvent("1"))
	for v := int64(2); v <= 6; v++ { // version v: event 2v-2 of the Save, event 2v-1 appended
		req := s.whole(taskIn("t", working), present)
		req.Events = inputs(t, textEvent(fmt.Sprint(v)))
		s.must(req)
		s.append(s.appending("t", textEvent("at "+fmt.Sprint(v))))
	}
	e.sweep(t, backend.Retention{LogEvents: 4})      // drops 1 to 7: 6 is version 4's, 7 was appended at 4
	page := s.starts("t", afterSeq(7), 8, 9, 10, 11) // earliest - 1 is served
	if page.Log.FirstSeq != 8 || page.Log.LastSeq != 11 {
		t.Errorf("%+v", page.Log)
	}
	for _, n := range []int64{0, 1, 6} { // 0 is the first event of the log, which is gone
		s.outOfRange("t", afterSeq(n), 8, 11)
	}
	for _, n := range []int64{0, 1, 3, 4} { // what was appended at 4 is gone
		s.outOfRange("t", afterVersion(n), 8, 11)
	}
	s.starts("t", afterVersion(5), 9, 10, 11)
	s.starts("t", afterVersion(6), 11)

	e.sweep(t, backend.Retention{LogEvents: 3}) // drops 8, of the Save of version 5: nothing behind that write
	s.starts("t", afterVersion(5), 9, 10, 11)
	e.sweep(t, backend.Retention{LogBytes: 1})
	page = s.starts("t", afterSeq(11))
	if page.Log.FirstSeq != 12 || page.Log.LastSeq != 11 {
		t.Errorf("an emptied log: %+v", page.Log)
	}
	s.starts("t", fromNow)
	s.outOfRange("t", afterSeq(0), 12, 11)
	s.outOfRange("t", afterSeq(10), 12, 11)
	s.outOfRange("t", afterVersion(6), 12, 11)
	if res := s.must(s.change("t", statusDelta(t, &pb.TaskStatus{State: completed}), present)); res.Version != 7 {
		t.Errorf("%+v", res)
	}
	s.starts("t", afterVersion(7))
	s.appended(s.append(s.appending("t", textEvent("12"))), 12, 12, 7, false)
	s.starts("t", afterVersion(7), 12)
	s.starts("t", afterSeq(11), 12)
}

func testEmptyLog(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working))
	for _, start := range []backend.Start{{}, afterVersion(0), afterVersion(1), fromNow} {
		if page := s.starts("t", start); page.Log.FirstSeq != page.Log.LastSeq+1 || page.Log.LastSeq != 0 {
			t.Errorf("%+v", page.Log)
		}
	}
	s.outOfRange("t", afterSeq(1), 1, 0)
	s.outOfRange("t", afterVersion(2), 1, 0)
}

func testLogGaps(t *testing.T, e *env) {
	s := e.space(t)
	for _, seq := range []int64{3, 7, 8, 20} {
		s.append(at(s.appending("t", textEvent(fmt.Sprint(seq))), seq))
	}
	s.starts("t", afterSeq(0), 3, 7, 8, 20)
	for start, want := range map[int64][]int64{
		1: {3, 7, 8, 20}, 2: {3, 7, 8, 20}, 3: {7, 8, 20}, 5: {7, 8, 20}, 7: {8, 20}, 12: {20}, 19: {20}, 20: nil,
	} {
		s.starts("t", afterSeq(start), want...)
	}
	s.outOfRange("t", afterSeq(21), 1, 20)
	if e.lacks(Sweeping) {
		return
	}
	e.sweep(t, backend.Retention{LogEvents: 2})
	s.starts("t", afterSeq(7), 8, 20)
	s.starts("t", afterSeq(10), 20)
	s.outOfRange("t", afterSeq(0), 8, 20)
	s.outOfRange("t", afterSeq(3), 8, 20)
}

func testLogCreatedAgain(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working), textEvent("1"), textEvent("2"))
	s.must(s.whole(taskIn("t", completed), present)) // version 2
	before := s.starts("t", afterSeq(0), 1, 2)
	s.mustDelete("t")
	_, err := s.readLog("t", afterSeq(2), 10)
	s.reason(err, backend.ErrTaskNotFound)
	s.insert(taskIn("t", working)) // version 3
	if page := s.starts("t", afterSeq(0)); page.Log.FirstSeq != 3 || page.Log.LastSeq != 2 || page.Log.Final {
		t.Errorf("%+v", page.Log)
	} else if !e.lacks(Internals) && page.Log.Incarnation == before.Log.Incarnation {
		t.Error("the incarnation is the same")
	}
	s.append(s.appending("t", textEvent("3")))
	s.starts("t", afterSeq(0), 3)
	s.starts("t", afterSeq(2), 3) // earliest - 1: nothing was missed
	s.outOfRange("t", afterSeq(1), 3, 3)
	s.starts("t", afterVersion(0), 3)
	s.starts("t", afterVersion(3), 3)
	s.outOfRange("t", afterVersion(2), 3, 3) // what was appended at version 2 is gone
	s.outOfRange("t", afterVersion(1), 3, 3)
	s.outOfRange("t", afterVersion(4), 3, 3)
}

func testLogPages(t *testing.T, e *env) {
	s := e.space(t)
	const n = 25
	for i := range n {
		s.append(s.appending("t", textEvent(fmt.Sprint(i+1))))
	}
	for _, size := range []int{1, 2, 7, 24, 25, 26} {
		var got []int64
		for start := (backend.Start{}); ; {
			page, err := s.readLog("t", start, size)
			if err != nil || len(page.Events) > size {
				t.Fatalf("page of %d: %d events, %v", size, len(page.Events), err)
			}
			if len(page.Events) == 0 {
				break
			}
			got = append(got, seqs(page.Events)...)
			start = afterSeq(got[len(got)-1])
		}
		if len(got) != n || got[0] != 1 || got[n-1] != n || !slices.IsSorted(got) {
			t.Errorf("pages of %d: %v", size, got)
		}
	}
	if e.lacks(Internals) {
		return
	}
	page, err := s.readLog("t", afterSeq(3), 0)
	if err != nil || len(page.Events) != 0 || page.From != 3 || page.Log.LastSeq != n {
		t.Errorf("a page without events: %+v, %v", page, err)
	}
}

func testLogPageBytes(t *testing.T, e *env) {
	s := e.space(t)
	sizes := []int{}
	for i := range 20 {
		event := textEvent(strings.Repeat("x", 1+i%5*100))
		s.append(s.appending("t", event))
		ev := s.log("t")[i]
		sizes = append(sizes, ev.Size())
	}
	for _, limit := range []int{1, 300, 1000, 1 << 20} {
		for start := range int64(20) {
			page, err := s.store.ReadLog(t.Context(), &backend.ReadLogRequest{
				Key: s.key("t"), Owner: s.owner, Start: afterSeq(start), MaxEvents: 100, MaxBytes: limit,
			})
			if err != nil {
				t.Fatal(err)
			}
			want := int64(1) // the first one whatever its size, then as many as fit
			for sum := sizes[start]; start+want < 20 && sum+sizes[start+want] <= limit; want++ {
				sum += sizes[start+want]
			}
			if got := int64(len(page.Events)); got != want || page.Events[0].Seq != start+1 {
				t.Errorf("limit %d behind %d: %d events, want %d", limit, start, got, want)
			}
		}
	}
}

func testLogTask(t *testing.T, e *env) {
	s := e.space(t)
	read := func(id string, x *backend.Extent) *backend.Stored {
		t.Helper()
		page, err := s.store.ReadLog(t.Context(), &backend.ReadLogRequest{
			Key: s.key(id), Owner: s.owner, MaxEvents: 1, MaxBytes: 1 << 20, Task: x,
		})
		if err != nil {
			t.Fatal(err)
		}
		return page.Task
	}
	m := rich("t")
	s.append(s.appending("t", textEvent("x")))
	if got := read("t", &backend.All); got != nil {
		t.Errorf("a log without a task has %+v", got)
	}
	s.insert(m)
	if got := read("t", nil); got != nil {
		t.Error("a task that was not asked for")
	}
	extents := []backend.Extent{backend.All}
	if !e.lacks(Internals) {
		extents = append(extents, backend.Extent{StateOnly: true}, backend.Extent{OmitArtifacts: true, History: 1})
	}
	for _, x := range extents {
		got := read("t", &x)
		if got == nil || got.Version != 1 || got.Owner != "owner" {
			t.Fatalf("%+v: %+v", x, got)
		}
		s.equal(decodeTask(t, got.Task), cut(m, x))
	}
}

// testOneInstant: the task, the events and the numbers of one page are of one instant, whatever is written meanwhile.
func testOneInstant(t *testing.T, e *env) {
	const writes = 200
	s := e.space(t)
	m := taskIn("t", working)
	s.insert(m, textEvent("1"))
	var done atomic.Bool
	parallel(t, 4, func(worker int) error {
		if worker == 0 {
			defer done.Store(true)
			for v := range int64(writes) {
				req := s.change("t", statusDelta(t, &pb.TaskStatus{State: working, Timestamp: day(2025, time.January, int(v+2))}), atVersion(v+1))
				req.Events = inputs(t, textEvent("x"))
				if err := s.save(req); err != nil {
					return err
				}
			}
			return nil
		}
		for last := int64(0); !done.Load(); {
			page, err := s.store.ReadLog(t.Context(), &backend.ReadLogRequest{
				Key: s.key("t"), Owner: s.owner, Start: afterSeq(0), MaxEvents: writes + 2, MaxBytes: 1 << 30, Task: &backend.All,
			})
			if err != nil {
				return err
			}
			n := int64(len(page.Events))
			if page.Log.LastSeq != n || page.Task == nil || page.Task.Version != n || page.Events[n-1].Version != n || n < last {
				return fmt.Errorf("task of version %v, log of %+v, %d events", page.Task, page.Log, n)
			}
			if at := decodeTask(t, page.Task.Task).GetStatus().GetTimestamp(); n > 1 && at.AsTime() != day(2025, time.January, int(n)).AsTime() {
				return fmt.Errorf("task of version %d has the time %v", n, at.AsTime())
			}
			res, err := s.read("t", backend.Extent{StateOnly: true})
			if err != nil {
				return err
			}
			if res.Version != res.LastSeq || res.Version < n {
				return fmt.Errorf("get: version %d, last seq %d, after %d", res.Version, res.LastSeq, n)
			}
			last = res.Version
		}
		return nil
	})
}
