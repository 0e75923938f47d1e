package memory

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// A list is of one instant: while every task changes its state and its time all the time, each list of everything shows each
// task once, rows match the filter, and the total is that of the rows.
func TestListsAreOfOneInstant(t *testing.T) {
	t.Parallel()
	const tasks, lists = 100, 100
	s := open(t, Config{MaxBytes: 1 << 30})
	var want []string
	save := func(i, state, seconds int) {
		id := fmt.Sprintf("%03d", i)
		_, err := s.Save(t.Context(), &backend.SaveRequest{
			Key: backend.Key{TaskID: id}, Task: taskOf(id, byte(state), seconds, 10, 0),
			Pre: backend.Precondition{Condition: backend.Any},
		})
		if err != nil {
			t.Error(err)
		}
	}
	for i := range tasks {
		save(i, 1, i)
		want = append(want, fmt.Sprintf("%03d", i))
	}

	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				i := (n*7 + w) % tasks
				save(i-i%2+w, 1+n%2, n) // a writer for the even tasks, one for the odd
			}
		})
	}
	for r := range 2 {
		readers.Go(func() {
			for range lists {
				all := list(t, s)
				if got := sortedIDs(all); !slices.Equal(got, want) {
					t.Errorf("a list shows %d tasks: %q", len(got), got)
					return
				}
				for i := 1; i < len(all); i++ {
					a, b := must(document.ParseTask(all[i-1].Task)), must(document.ParseTask(all[i].Task))
					if d := a.Time.Compare(b.Time); d < 0 || d == 0 && a.ID < b.ID {
						t.Errorf("%q at %v stands before %q at %v", a.ID, a.Time, b.ID, b.Time)
						return
					}
				}
				res, err := s.List(t.Context(), &backend.ListRequest{
					State: int32(1 + r), ContextID: "context", Size: everything, Extent: backend.Extent{StateOnly: true},
				})
				if err != nil || res.Total != len(res.Rows) {
					t.Errorf("%d rows, total %d, %v", len(res.Rows), res.Total, err)
					return
				}
				for _, row := range res.Rows {
					if state := must(document.ParseTask(row.Task)).State; state != int32(1+r) {
						t.Errorf("a list of state %d shows a task in state %d", 1+r, state)
						return
					}
				}
			}
		})
	}
	readers.Wait()
	stop.Store(true)
	writers.Wait()
}

// A reader sees a task and its log of one instant, whole: the number of parts, of messages and of events is the version.
func TestReadersSeeWholeWrites(t *testing.T) {
	t.Parallel()
	const rounds = 600
	s := open(t, Config{MaxBytes: 1 << 30})
	key := backend.Key{TaskID: "id"}
	item := [][]byte{field(nil, 1, []byte("x"))}
	first := plainTask{
		head:      plainHead(10, 2),
		artifacts: []plainArtifact{{id: "a", parts: item}},
		history:   item,
	}
	if _, err := s.Save(t.Context(), &backend.SaveRequest{
		Key: key, Task: must(document.ParseTask(first.encode(backend.All))), Events: snapshotAnd(),
	}); err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		defer done.Store(true)
		for range rounds {
			_, err := s.Save(t.Context(), &backend.SaveRequest{
				Key: key, Pre: backend.Precondition{Condition: backend.Present}, Events: snapshotAnd(),
				Delta: &document.Delta{
					Append:     &document.AppendToArtifact{ID: "a", Parts: must(document.ParseParts(item)), Base: -1},
					History:    must(document.ParseHistory(item)),
					MaxHistory: -1,
				},
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	check := func(what string, task []byte, version int64) {
		parsed := must(document.ParseTask(task))
		parts := document.SplitArtifacts(parsed.Artifacts)[0].Parts.Count
		if int64(parts) != version || int64(parsed.History.Count) != version {
			t.Errorf("%s at version %d: %d parts, %d messages", what, version, parts, parsed.History.Count)
		}
	}
	for range 2 {
		all.Go(func() {
			for !done.Load() && !t.Failed() {
				got, err := s.Get(t.Context(), &backend.GetRequest{Key: key, Extent: backend.All})
				if err != nil {
					t.Error(err)
					return
				}
				check("a Get", got.Task, got.Version)
				page, err := s.ReadLog(t.Context(), &backend.ReadLogRequest{
					Key: key, MaxEvents: 3, Task: &backend.Extent{History: -1},
					Start: backend.Start{Kind: backend.AfterVersion, N: max(got.Version-2, 0)},
				})
				if err != nil {
					t.Error(err)
					return
				}
				check("the task of a log", page.Task.Task, page.Task.Version)
				if page.Log.LastSeq != page.Task.Version {
					t.Errorf("the log's last seq is %d, the task's version %d", page.Log.LastSeq, page.Task.Version)
				}
				for i, e := range page.Events {
					if e.Seq != page.From+int64(i)+1 || e.Version != e.Seq {
						t.Errorf("event %d of version %d stands at %d behind %d", e.Seq, e.Version, i, page.From)
					}
					check("a snapshot", snapshotTask(t, e.Bytes), e.Version)
				}
			}
		})
	}
	all.Wait()
}

// snapshotTask returns the task in the event of a snapshot.
func snapshotTask(t *testing.T, event []byte) []byte {
	for tag := range len(event) {
		if n := len(event) - tag; string(document.AppendSnapshotTag(nil, n)) == string(event[:tag]) {
			return event[tag:]
		}
	}
	t.Errorf("no snapshot: %q", event)
	return nil
}

// Everything at once, for the race detector, in a store small enough that its bound is met.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	now := newClock()
	s := open(t, Config{MaxBytes: 100_000, Now: now.Now})
	var heard atomic.Int64
	stop := s.Watch(func(backend.Key) { heard.Add(1) })
	defer stop()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for n := range 400 {
				id := fmt.Sprint((n*5 + w) % 8)
				key := backend.Key{TaskID: id}
				claim := backend.ClaimKey{Key: fmt.Sprint(n % 3)}
				var err error
				switch n % 9 {
				case 0, 1:
					_, err = s.Save(t.Context(), &backend.SaveRequest{
						Key: key, Task: taskOf(id, byte(1+n%2), n, n*10, n%4), Events: snapshotAnd(eventOf(n)),
						Pre: backend.Precondition{Condition: backend.Any}, Claim: &backend.ClaimRef{Key: claim.Key, Token: "0"},
					})
				case 2:
					_, err = s.AppendEvents(t.Context(), &backend.AppendRequest{
						Key: key, Events: []document.Event{eventOf(n)}, WriteID: fmt.Sprint(n),
					})
				case 3:
					_, err = s.ClaimKey(t.Context(), &backend.ClaimRequest{
						Key: claim, MessageID: "m", TaskID: id, Token: fmt.Sprint(w), Lease: time.Second, TTL: time.Second,
					})
				case 4:
					_, err = s.List(t.Context(), &backend.ListRequest{Size: 5, Extent: backend.All})
				case 5:
					_, err = s.Delete(t.Context(), &backend.DeleteRequest{Key: key})
				case 6:
					now.advance(time.Millisecond)
					_, err = s.Sweep(t.Context(), &backend.SweepRequest{
						Batch: 50, Retention: backend.Retention{Idle: time.Second, LogEvents: 5, Tombstone: 10 * time.Millisecond},
					})
				case 7:
					_, err = s.Heads(t.Context(), []backend.Key{key, {TaskID: "none"}})
				case 8:
					_, err = s.ReadLog(t.Context(), &backend.ReadLogRequest{Key: key, MaxEvents: 3, Task: &backend.All})
				}
				if err != nil && backend.ReasonOf(err) == "" {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if used, want := s.memory.used.Load(), counted(s); used != want {
		t.Errorf("%d bytes are in use, the books say %d", want, used)
	}
	if heard.Load() == 0 {
		t.Error("a watcher heard nothing")
	}
}
