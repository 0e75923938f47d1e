package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// clock is a store's clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_760_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t interface{ Fatal(...any) }, config Config) *Store {
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// taskOf makes a task: an id, a context, a state, a time, a head of a size, and numbered messages and artifacts.
func taskOf(id string, state byte, seconds, size, items int) *document.Task {
	plain := plainTask{head: field(field(nil, 1, []byte(id)), 2, []byte("context"))}
	plain.head = field(plain.head, 9, make([]byte, size))
	stamp := append([]byte{1 << 3}, varint(seconds)...)
	plain.head = field(plain.head, 3, field([]byte{1 << 3, state}, 3, stamp))
	for i := range items {
		part := field(nil, 1, []byte("part"))
		plain.artifacts = append(plain.artifacts, plainArtifact{id: fmt.Sprint(i), parts: [][]byte{part}})
		plain.history = append(plain.history, part)
	}
	return must(document.ParseTask(plain.encode(backend.All)))
}

func varint(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func eventOf(size int) document.Event {
	return must(document.ParseEvent(field(nil, 2, field(nil, 1, bytes.Repeat([]byte("e"), size)))))
}

func snapshotAnd(events ...document.Event) []backend.EventInput {
	in := []backend.EventInput{{Snapshot: true}}
	for _, e := range events {
		in = append(in, backend.EventInput{Event: e})
	}
	return in
}

// counted is what all records and claims take, counted anew.
func counted(s *Store) int64 {
	total := int64(0)
	for i := range s.records {
		for _, e := range s.records[i].records.slots {
			rec := &e.value
			total += recordSize(e.key, &rec.row, writeIDsSize(rec.log.events.live()))
		}
		for _, e := range s.claims[i].claims.slots {
			total += claimSize(&e.key, &e.value)
		}
	}
	return total
}

// forgetAll is retention under which everything expires at once.
var forgetAll = backend.Retention{Terminal: 1, Idle: 1, TasklessLog: 1, Tombstone: 1}

// sweepAll runs rounds in batches until nothing goes any more.
func sweepAll(t interface{ Fatal(...any) }, s *Store, r backend.Retention, batch int) {
	for gone := 1; gone > 0; {
		gone = 0
		for cursor := []byte(nil); ; {
			res, err := s.Sweep(noContext, &backend.SweepRequest{Retention: r, Cursor: cursor, Batch: batch})
			if err != nil {
				t.Fatal(err)
			}
			gone += res.Tasks + res.Events + res.Keys + res.Tombstones
			if cursor = res.Cursor; cursor == nil {
				break
			}
		}
	}
}

// TestAccountsAreRight does random things to a small store. At each step its books equal what is there and keep within the
// bound; a refused write changes nothing; and in the end, when all is gone, nothing is left in the books.
func TestAccountsAreRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := newClock()
		limit := rapid.Int64Range(2_000, 60_000).Draw(t, "limit")
		s := open(t, Config{MaxBytes: limit, Now: now.Now})
		id := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 20_000))
		seconds := 0
		var before map[string]any
		check := func(t *rapid.T, err error) {
			if errors.Is(err, backend.ErrMemoryLimit) {
				if after := state(t, s); !reflect.DeepEqual(before, after) {
					t.Fatalf("a refused write has changed something: %s", gocmp.Diff(before, after))
				}
			}
		}
		write := func(op func(*rapid.T) error) func(*rapid.T) {
			return func(t *rapid.T) {
				before = state(t, s)
				check(t, op(t))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				used := s.memory.used.Load()
				if want := counted(s); used != want || used > limit || used < 0 {
					t.Fatalf("%d bytes are in use, the books say %d, the limit is %d", want, used, limit)
				}
			},
			"save": write(func(t *rapid.T) error {
				id, state := id.Draw(t, "id"), byte(rapid.IntRange(1, 3).Draw(t, "state"))
				seconds++
				_, err := s.Save(noContext, &backend.SaveRequest{
					Key:  backend.Key{TaskID: id},
					Task: taskOf(id, state, seconds, size.Draw(t, "size"), rapid.IntRange(0, 4).Draw(t, "items")),
					Pre:  backend.Precondition{Condition: backend.Any}, Events: snapshotAnd(eventOf(size.Draw(t, "event"))),
				})
				return err
			}),
			"delta": write(func(t *rapid.T) error {
				part := field(nil, 1, make([]byte, size.Draw(t, "size")))
				_, err := s.Save(noContext, &backend.SaveRequest{
					Key: backend.Key{TaskID: id.Draw(t, "id")}, Pre: backend.Precondition{Condition: backend.Present},
					Delta: &document.Delta{
						Append:  &document.AppendToArtifact{ID: "0", Parts: must(document.ParseParts([][]byte{part})), Base: -1},
						History: must(document.ParseHistory([][]byte{part})), MaxHistory: rapid.IntRange(-1, 3).Draw(t, "keep"),
					},
				})
				return err
			}),
			"append": write(func(t *rapid.T) error {
				_, err := s.AppendEvents(noContext, &backend.AppendRequest{
					Key:     backend.Key{TaskID: id.Draw(t, "id")},
					Events:  []document.Event{eventOf(size.Draw(t, "first")), eventOf(size.Draw(t, "second"))},
					WriteID: rapid.SampledFrom([]string{"", "v", "w", "x"}).Draw(t, "write id"), Origin: "origin",
				})
				return err
			}),
			"claim": write(func(t *rapid.T) error {
				_, err := s.ClaimKey(noContext, &backend.ClaimRequest{
					Key:       backend.ClaimKey{Key: id.Draw(t, "key")},
					MessageID: string(make([]byte, rapid.IntRange(1, 200).Draw(t, "message id"))), TaskID: "a",
					Token: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "token"), Lease: time.Minute, TTL: time.Hour,
				})
				return err
			}),
			"release": func(t *rapid.T) {
				_ = s.ReleaseKey(noContext, &backend.ReleaseRequest{Key: backend.ClaimKey{Key: id.Draw(t, "key")}, Token: "t"})
			},
			"bind": write(func(t *rapid.T) error {
				_, err := s.AppendEvents(noContext, &backend.AppendRequest{
					Key: backend.Key{TaskID: "a"}, Events: []document.Event{eventOf(1)},
					Claim: &backend.ClaimRef{Key: id.Draw(t, "key"), Token: "t"},
				})
				return err
			}),
			"delete": func(t *rapid.T) {
				if _, err := s.Delete(noContext, &backend.DeleteRequest{Key: backend.Key{TaskID: id.Draw(t, "id")}}); err != nil {
					t.Fatal(err)
				}
			},
			"list": func(t *rapid.T) { list(t, s) },
			"sweep": func(t *rapid.T) {
				now.advance(time.Minute)
				sweepAll(t, s, backend.Retention{LogEvents: 3, LogBytes: 20_000, TasklessLog: time.Hour}, 2)
			},
		})
		now.advance(48 * time.Hour)
		batch := rapid.IntRange(1, 100).Draw(t, "batch")
		sweepAll(t, s, forgetAll, batch)
		now.advance(time.Second)
		sweepAll(t, s, forgetAll, batch) // the tombstones
		if used := s.memory.used.Load(); used != 0 {
			t.Fatalf("everything is gone, but for %d bytes", used)
		}
		if rows := list(t, s); len(rows) != 0 || s.order.keys.Len() != 0 {
			t.Fatalf("everything is gone, but for %d rows and %d keys", len(rows), s.order.keys.Len())
		}
	})
}

// state is everything that can be read.
func state(t interface{ Fatal(...any) }, s *Store) map[string]any {
	all := map[string]any{"list": list(t, s), "used": s.memory.used.Load()}
	for i := range s.records {
		for _, e := range s.records[i].records.slots {
			page, err := s.ReadLog(noContext, &backend.ReadLogRequest{
				Key: e.key, MaxEvents: everything, Task: &backend.Extent{History: -1},
			})
			all[e.key.TaskID] = []any{e.value.row, page, err == nil}
		}
		for _, e := range s.claims[i].claims.slots {
			all["claim "+e.key.Key] = e.value
		}
	}
	return all
}

const everything = 1 << 30

func list(t interface{ Fatal(...any) }, s *Store) []backend.Stored {
	res, err := s.List(noContext, &backend.ListRequest{Size: everything, Extent: backend.All})
	if err != nil {
		t.Fatal(err)
	}
	if res.Total != len(res.Rows) || res.Next != nil {
		t.Fatal("a list of everything has", len(res.Rows), "rows and says", res.Total, res.Next)
	}
	return res.Rows
}

// At the bound every kind of write that needs room fails with the one reason, and what was there stays; deleting makes room.
func TestAtTheBound(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	s := open(t, Config{MaxBytes: limit, Now: newClock().Now})
	insert := func(id string) error {
		_, err := s.Save(t.Context(), &backend.SaveRequest{
			Key: backend.Key{TaskID: id}, Task: taskOf(id, 2, 1, 1000, 1), Events: snapshotAnd(),
		})
		return err
	}
	n := 0
	for insert(fmt.Sprint("task ", n)) == nil {
		n++
	}
	if n < 100 || n > limit/2000 {
		t.Fatalf("%d tasks of 1 KB with an event filled 1 MiB", n)
	}
	// What is left is too small for a task, but not for small things.
	var claims int
	claim := func() error {
		claims++
		_, err := s.ClaimKey(t.Context(), &backend.ClaimRequest{
			Key: backend.ClaimKey{Key: fmt.Sprint("key ", claims)}, MessageID: "m", TaskID: "task 0", Token: "t",
			Lease: time.Minute, TTL: time.Hour,
		})
		return err
	}
	for claim() == nil {
	}

	key := backend.Key{TaskID: "task 0"}
	present := backend.Precondition{Condition: backend.Present}
	part := [][]byte{field(nil, 1, make([]byte, 500))}
	before := state(t, s)
	for name, write := range map[string]func() error{
		"insert":       func() error { return insert("another") },
		"claim":        claim,
		"claim, again": claim,
		"larger": func() error {
			_, err := s.Save(t.Context(), &backend.SaveRequest{Key: key, Task: taskOf("task 0", 2, 1, 2000, 1), Pre: present})
			return err
		},
		"append parts": func() error {
			_, err := s.Save(t.Context(), &backend.SaveRequest{Key: key, Pre: present, Delta: &document.Delta{
				Append: &document.AppendToArtifact{ID: "0", Parts: must(document.ParseParts(part)), Base: -1}, MaxHistory: -1,
			}})
			return err
		},
		"append history": func() error {
			_, err := s.Save(t.Context(), &backend.SaveRequest{Key: key, Pre: present, Delta: &document.Delta{
				History: must(document.ParseHistory(part)), MaxHistory: -1,
			}})
			return err
		},
		"append events": func() error {
			_, err := s.AppendEvents(t.Context(), &backend.AppendRequest{Key: key, Events: []document.Event{eventOf(500)}})
			return err
		},
		"append with a claim": func() error {
			_, err := s.AppendEvents(t.Context(), &backend.AppendRequest{
				Key: key, Events: []document.Event{eventOf(500)}, Claim: &backend.ClaimRef{Key: "key 1", Token: "t"},
			})
			return err
		},
		"a log": func() error {
			_, err := s.AppendEvents(t.Context(), &backend.AppendRequest{
				Key: backend.Key{TaskID: "another"}, Events: []document.Event{eventOf(1)},
			})
			return err
		},
	} {
		err := write()
		e, ok := errors.AsType[*backend.Error](err)
		if !ok || e.Reason != backend.ErrMemoryLimit || e.Meta["limit"] != fmt.Sprint(limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := state(t, s); !reflect.DeepEqual(before, after) {
		t.Errorf("refused writes have changed something: %s", gocmp.Diff(before, after))
	}

	if _, err := s.Save(t.Context(), &backend.SaveRequest{Key: key, Task: taskOf("task 0", 2, 1, 10, 0), Pre: present}); err != nil {
		t.Errorf("a write that needs less room: %v", err)
	}
	for i := 1; i <= 3; i++ {
		if _, err := s.Delete(t.Context(), &backend.DeleteRequest{Key: backend.Key{TaskID: fmt.Sprint("task ", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := insert("another"); err != nil {
		t.Errorf("an insert after deletes: %v", err)
	}
}

// TestChargeIsWhatTheHeapTakes fills stores with things of many shapes and compares the books with the heap: they may be
// too high, within reason, and hardly too low.
func TestChargeIsWhatTheHeapTakes(t *testing.T) { // not parallel: it measures the heap
	save := func(s *Store, req *backend.SaveRequest) {
		req.Pre.Condition = backend.Any
		must(s.Save(t.Context(), req))
	}
	id := func(i int) string { return fmt.Sprintf("0190c2f1-8a54-7000-8000-%012d", i) }
	key := func(i int) backend.Key { return backend.Key{Tenant: string([]byte("tenant")), TaskID: id(i)} }
	fill := map[string]struct {
		n    int
		each func(s *Store, i int)
	}{
		"small tasks": {6_000, func(s *Store, i int) {
			save(s, &backend.SaveRequest{Key: key(i), Task: taskOf(id(i), 2, i, 100, 0)})
		}},
		"tasks that move": {3_000, func(s *Store, i int) {
			for _, state := range []byte{1, 2, 6, 2, 3} {
				save(s, &backend.SaveRequest{Key: key(i), Task: taskOf(id(i), state, i, 100, 0)})
			}
		}},
		"1 KiB tasks with snapshots": {4_000, func(s *Store, i int) {
			save(s, &backend.SaveRequest{Key: key(i), Task: taskOf(id(i), 2, i, 800, 1), Events: snapshotAnd()})
		}},
		"64 KiB tasks": {200, func(s *Store, i int) {
			save(s, &backend.SaveRequest{Key: key(i), Task: taskOf(id(i), 2, i, 64<<10, 1)})
		}},
		"many small items": {200, func(s *Store, i int) {
			save(s, &backend.SaveRequest{Key: key(i), Task: taskOf(id(i), 2, i, 100, 100)})
			item := field(nil, 1, []byte("part"))
			save(s, &backend.SaveRequest{Key: key(i), Delta: &document.Delta{
				Append:  &document.AppendToArtifact{ID: "0", Parts: must(document.ParseParts([][]byte{item})), Base: -1},
				History: must(document.ParseHistory([][]byte{item})), MaxHistory: 100,
			}})
		}},
		"chunks": {20, func(s *Store, i int) {
			save(s, &backend.SaveRequest{Key: key(i), Task: taskOf(id(i), 2, i, 100, 1)})
			for range 500 {
				save(s, &backend.SaveRequest{Key: key(i), Delta: &document.Delta{
					Append: &document.AppendToArtifact{
						ID: "0", Parts: must(document.ParseParts([][]byte{field(nil, 1, make([]byte, 100))})), Base: -1,
					}, MaxHistory: -1,
				}})
			}
		}},
		"appended events": {6_000, func(s *Store, i int) {
			must(s.AppendEvents(t.Context(), &backend.AppendRequest{
				Key: key(i % 50), Events: []document.Event{eventOf(100)}, WriteID: id(i),
			}))
		}},
		"tombstones": {6_000, func(s *Store, i int) {
			save(s, &backend.SaveRequest{Key: key(i), Task: taskOf(id(i), 2, i, 1000, 0), Events: snapshotAnd()})
			must(s.Delete(t.Context(), &backend.DeleteRequest{Key: key(i)}))
		}},
		"claims": {6_000, func(s *Store, i int) {
			must(s.ClaimKey(t.Context(), &backend.ClaimRequest{
				Key: backend.ClaimKey{Owner: backend.OwnerOf("owner"), Key: id(i)}, MessageID: id(i), TaskID: id(i), Token: id(i),
				Lease: time.Minute, TTL: time.Hour,
			}))
		}},
	}
	for name, f := range fill {
		t.Run(name, func(t *testing.T) {
			s := open(t, Config{MaxBytes: 1 << 30})
			before := heap()
			for i := range f.n {
				f.each(s, i)
			}
			must(s.List(t.Context(), &backend.ListRequest{Size: 1}))
			taken, charged := heap()-before, s.memory.used.Load()
			ratio := float64(charged) / float64(taken)
			t.Logf("each takes %d bytes, and is charged %d: ratio %.2f", taken/int64(f.n), charged/int64(f.n), ratio)
			if ratio < 0.95 || ratio > 2 {
				t.Errorf("%d bytes of heap are charged as %d", taken, charged)
			}
			runtime.KeepAlive(s)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sortedIDs is for tests that compare sets of rows.
func sortedIDs(rows []backend.Stored) []string {
	ids := make([]string, 0, len(rows))
	for _, r := range rows {
		ids = append(ids, must(document.ParseTask(r.Task)).ID)
	}
	slices.SortFunc(ids, cmp.Compare)
	return ids
}
