package backendtest

import (
	"slices"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var followScenarios = []scenario{
	{name: "Follow/Heads", needs: []Capability{Following}, run: testHeads},
	{name: "Follow/Watch", needs: []Capability{Following}, run: testWatch},
	{name: "Follow/WatchMany", needs: []Capability{Following}, run: testWatchMany},
}

func (s *space) heads(ids ...string) []backend.Head {
	s.Helper()
	var keys []backend.Key
	for _, id := range ids {
		keys = append(keys, s.key(id))
	}
	heads, err := s.store.Heads(s.Context(), keys)
	if err != nil || len(heads) != len(keys) {
		s.Fatalf("heads: %v, %v", heads, err)
	}
	return heads
}

func testHeads(t *testing.T, e *env) {
	s := e.space(t)
	if got := s.heads(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	none := backend.Head{}
	if got := s.heads("task", "log"); got[0] != none || got[1] != none {
		t.Errorf("nothing there: %+v", got)
	}
	s.insert(taskIn("task", working), textEvent("1"), textEvent("2"))
	s.must(s.whole(taskIn("task", working), present))
	s.append(s.appending("log", textEvent("1")))
	got := s.heads("log", "unknown", "task", "log")
	if got[0].LastSeq != 1 || got[0].Version != 0 || got[0].Incarnation == 0 || got[1] != none || got[3] != got[0] {
		t.Errorf("%+v", got)
	}
	if got[2].LastSeq != 2 || got[2].Version != 2 || got[2].Incarnation == 0 {
		t.Errorf("%+v", got)
	}
	page := s.starts("task", afterSeq(2))
	if page.Log.Incarnation != got[2].Incarnation {
		t.Errorf("head %+v, log %+v", got[2], page.Log)
	}

	// Every change is news.
	last := got[2]
	for name, change := range map[string]func(){
		"save":   func() { s.must(s.whole(taskIn("task", working), whatever)) },
		"delta":  func() { s.must(s.change("task", statusDelta(t, &pb.TaskStatus{State: working}), present)) },
		"append": func() { s.append(s.appending("task", textEvent("x"))) },
		"delete": func() {
			s.mustDelete("task")
			s.append(s.appending("task", textEvent("x")))
			s.insert(taskIn("task", working))
		},
	} {
		change()
		if next := s.heads("task")[0]; next == last {
			t.Errorf("%s: the head is still %+v", name, next)
		} else {
			last = next
		}
	}
	s.mustDelete("task")
	if got := s.heads("task"); got[0] != none {
		t.Errorf("deleted: %+v", got)
	}
	s.append(s.appending("task", textEvent("x")))
	if got := s.heads("task"); got[0].Incarnation <= last.Incarnation {
		t.Errorf("incarnation %d after %d", got[0].Incarnation, last.Incarnation)
	}
}

// watch collects the keys that Watch reports.
func watch(t *testing.T, store backend.Store) (changed <-chan backend.Key, stop func()) {
	t.Helper()
	c := make(chan backend.Key, 10_000)
	stop = store.Watch(func(k backend.Key) {
		select {
		case c <- k:
		default:
		}
	})
	t.Cleanup(stop)
	return c, stop
}

// within bounds the wait for a report. A store that may miss one is asked for its head then, as the server does.
const within = 10 * time.Second

func (s *space) reported(changed <-chan backend.Key, what string, id string) {
	s.Helper()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		select {
		case k := <-changed:
			if k == s.key(id) {
				return
			}
		case <-timeout.C:
			if s.store.PollInterval() == 0 {
				s.Fatalf("%s of %q was not reported", what, id)
			}
			return
		}
	}
}

func testWatch(t *testing.T, e *env) {
	s := e.space(t)
	changed, stop := watch(t, e.store)
	other, _ := watch(t, e.store)
	both := func(what, id string) {
		t.Helper()
		s.reported(changed, what, id)
		s.reported(other, what, id)
	}
	s.insert(taskIn("t", working))
	both("insert", "t")
	s.must(s.whole(taskIn("t", working), present))
	both("save", "t")
	s.must(s.change("t", historyDelta(t, -1, message("m")), present))
	both("delta", "t")
	s.append(s.appending("t", textEvent("x")))
	both("append", "t")
	s.append(s.appending("log", textEvent("x")))
	both("append without a task", "log")
	s.mustDelete("t")
	both("delete", "t")
	if !e.lacks(Sweeping) {
		s.append(s.appending("swept", textEvent("x")))
		both("append", "swept")
		e.sweep(t, backend.Retention{LogBytes: 1})
		both("trim", "swept")
		e.clock.advance(time.Hour)
		e.sweep(t, backend.Retention{TasklessLog: time.Minute})
		both("expiry", "swept")
	}
	stop()
	for len(changed) > 0 {
		<-changed
	}
	s.insert(taskIn("after", working))
	s.reported(other, "insert", "after")
	if len(changed) != 0 {
		t.Error("a report after stop")
	}
	stop() // twice does no harm
}

// testWatchMany: no commit goes unreported, and what is reported can be read.
func testWatchMany(t *testing.T, e *env) {
	s := e.space(t)
	changed, _ := watch(t, e.store)
	ids := []string{"a", "b", "c", "d"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		parallel(t, len(ids), func(i int) error {
			for range 50 {
				if _, err := s.store.AppendEvents(t.Context(), s.appending(ids[i], textEvent("x"))); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	defer func() { <-done }()
	poll := e.store.PollInterval()
	if poll == 0 {
		poll = within
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	deadline := time.NewTimer(3 * within)
	defer deadline.Stop()
	for {
		heads := s.heads(ids...)
		if !slices.ContainsFunc(heads, func(h backend.Head) bool { return h.LastSeq < 50 }) {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
			if e.store.PollInterval() == 0 {
				t.Fatalf("no report for %v, heads are %+v", within, heads)
			}
		case <-deadline.C:
			t.Fatalf("heads are %+v", heads)
		}
	}
}
