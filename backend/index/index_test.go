package index_test

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/index"
)

// task is what the index knows of a task.
type task struct {
	key backend.Key
	row backend.Row
}

// before is the order of lists, said plainly.
func before(a, b task) int {
	return cmp.Or(b.row.Time.Compare(a.row.Time), cmp.Compare(b.key.TaskID, a.key.TaskID))
}

func matches(t task, req *backend.ListRequest) bool {
	return t.row.Kind == backend.RowTask && t.key.Tenant == req.Tenant && req.Owner.Sees(t.row.Owner) &&
		(req.ContextID == "" || t.row.ContextID == req.ContextID) &&
		(req.State == 0 || t.row.State == req.State) &&
		(!req.Since.Valid || (t.row.Time.Valid && t.row.Time.Compare(req.Since) >= 0)) &&
		(req.After == nil || before(t, task{
			key: backend.Key{TaskID: req.After.TaskID}, row: backend.Row{Time: req.After.Time},
		}) > 0)
}

// naive lists by filtering and sorting everything.
func naive(tasks []task, req *backend.ListRequest) []string {
	var hits []task
	for _, t := range tasks {
		if matches(t, req) {
			hits = append(hits, t)
		}
	}
	slices.SortFunc(hits, before)
	ids := make([]string, 0, len(hits))
	for _, t := range hits {
		ids = append(ids, t.key.TaskID)
	}
	return ids
}

// sorted is a Source over a slice. It counts what is open and what was read.
type sorted struct {
	keys  [][]byte
	open  int
	reads int
	fail  error
}

func newSources(tasks []task, n int) []index.Source {
	all := make([]*sorted, n)
	sources := make([]index.Source, n)
	for i := range all {
		all[i] = &sorted{}
		sources[i] = all[i]
	}
	for i, t := range tasks {
		s := all[i%n]
		s.keys = index.AppendKeys(s.keys, t.key, &t.row)
	}
	for _, s := range all {
		slices.SortFunc(s.keys, bytes.Compare)
	}
	return sources
}

func (s *sorted) NewIter(lower, upper []byte) (index.Iterator, error) {
	if bytes.Compare(lower, upper) >= 0 {
		return nil, errors.New("empty range")
	}
	s.open++
	return &sortedIter{s: s, lower: bytes.Clone(lower), upper: bytes.Clone(upper)}, nil
}

type sortedIter struct {
	s            *sorted
	lower, upper []byte
	at           int
	key          []byte
}

func (it *sortedIter) SeekGE(key []byte) bool {
	if bytes.Compare(key, it.lower) < 0 {
		key = it.lower
	}
	it.at = sort.Search(len(it.s.keys), func(i int) bool { return bytes.Compare(it.s.keys[i], key) >= 0 })
	return it.load()
}

func (it *sortedIter) Next() bool {
	it.at++
	return it.load()
}

func (it *sortedIter) load() bool {
	for i := range it.key {
		it.key[i] = 0xAA // a key that somebody still holds becomes visibly wrong
	}
	if it.at >= len(it.s.keys) || bytes.Compare(it.s.keys[it.at], it.upper) >= 0 || it.s.fail != nil {
		return false
	}
	it.s.reads++
	it.key = bytes.Clone(it.s.keys[it.at])
	return true
}

func (it *sortedIter) Key() []byte  { return it.key }
func (it *sortedIter) Error() error { return it.s.fail }
func (it *sortedIter) Close() error { it.s.open--; return nil }

func walk(t interface{ Fatal(...any) }, sources []index.Source, req *backend.ListRequest, limit int) []string {
	ids := []string{}
	err := index.Walk(sources, req, func(id string) (bool, error) {
		ids = append(ids, id)
		return len(ids) < limit, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if n := s.(*sorted).open; n != 0 {
			t.Fatal("iterators left open:", n)
		}
	}
	return ids
}

const everything = 1 << 30

// text makes strings over few bytes, so that they collide, are prefixes of each other, and hold the bytes that encodings
// trip over.
func text(minLen int) *rapid.Generator[string] {
	return rapid.Map(
		rapid.SliceOfN(rapid.SampledFrom([]byte{0x01, 0x02, '/', 'a', 'b', 0x7f, 0x80, 0xfe, 0xff}), minLen, 4),
		func(b []byte) string { return string(b) })
}

var (
	anyState = rapid.SampledFrom([]int32{0, 1, 2, 3, 8, 9, 255, 256, 1<<31 - 1, -1, -2, -1 << 31})
	anyTime  = rapid.Custom(func(t *rapid.T) document.Timestamp {
		if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
			return document.Timestamp{}
		}
		seconds := rapid.SampledFrom([]int64{-62135596800, -1, 0, 1, 255, 256, 1760000000, 253402300799}).Draw(t, "seconds")
		nanos := rapid.SampledFrom([]int32{0, 1, 255, 256, 999999999}).Draw(t, "nanos")
		return document.Timestamp{Valid: true, Seconds: seconds, Nanos: nanos}
	})
)

func drawTasks(t *rapid.T) []task {
	owners := rapid.SliceOfN(text(0), 1, 3).Draw(t, "owners")
	contexts := append(rapid.SliceOfN(text(0), 1, 3).Draw(t, "contexts"), "")
	tenants := rapid.SliceOfN(text(0), 1, 2).Draw(t, "tenants")
	tasks := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) task {
		return task{
			key: backend.Key{
				Tenant: rapid.SampledFrom(tenants).Draw(t, "tenant"), TaskID: text(1).Draw(t, "id"),
			},
			row: backend.Row{
				Kind:      rapid.SampledFrom([]backend.RowKind{2, 2, 2, 2, 0, 1, 3}).Draw(t, "row kind"),
				Owner:     rapid.SampledFrom(owners).Draw(t, "owner"),
				ContextID: rapid.SampledFrom(contexts).Draw(t, "context"),
				State:     anyState.Draw(t, "state"), Time: anyTime.Draw(t, "time"),
			},
		}
	}), 0, 40, func(t task) backend.Key { return t.key }).Draw(t, "tasks")
	return tasks
}

// drawRequest makes a request that is about some of the tasks, mostly.
func drawRequest(t *rapid.T, tasks []task) *backend.ListRequest {
	like := task{row: backend.Row{State: 1}}
	if len(tasks) > 0 {
		like = rapid.SampledFrom(tasks).Draw(t, "like")
	}
	req := &backend.ListRequest{Tenant: like.key.Tenant}
	if rapid.Bool().Draw(t, "by owner") {
		req.Owner = backend.OwnerOf(like.row.Owner)
	}
	if rapid.Bool().Draw(t, "by context") {
		req.ContextID = like.row.ContextID
	}
	if rapid.Bool().Draw(t, "by state") {
		req.State = like.row.State
	}
	if rapid.Bool().Draw(t, "by time") {
		req.Since = rapid.OneOf(rapid.Just(like.row.Time), anyTime).Draw(t, "since")
	}
	return req
}

func TestWalkAndCountAreAFilterAndASort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tasks := drawTasks(t)
		sources := newSources(tasks, rapid.IntRange(1, 3).Draw(t, "sources"))
		req := drawRequest(t, tasks)
		want := naive(tasks, req)
		if got := walk(t, sources, req, everything); !slices.Equal(got, want) {
			t.Fatalf("walk:\n got %q\nwant %q", got, want)
		}
		got, err := index.Count(sources, req)
		if err != nil || got != len(want) {
			t.Fatalf("count: got %d, %v, want %d", got, err, len(want))
		}
	})
}

func TestWalkStartsBehindEveryPosition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tasks := drawTasks(t)
		sources := newSources(tasks, rapid.IntRange(1, 3).Draw(t, "sources"))
		req := drawRequest(t, tasks)
		// Positions of rows that match, that do not, and that are not there: a walk survives the loss of its row.
		for _, at := range append(tasks, task{
			key: backend.Key{TaskID: text(1).Draw(t, "id")}, row: backend.Row{Time: anyTime.Draw(t, "time")},
		}) {
			req.After = &backend.Position{Time: at.row.Time, TaskID: at.key.TaskID}
			want := naive(tasks, req)
			if got := walk(t, sources, req, everything); !slices.Equal(got, want) {
				t.Fatalf("after %+v:\n got %q\nwant %q", req.After, got, want)
			}
		}
	})
}

func TestWalkInPagesReturnsEachTaskOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tasks := drawTasks(t)
		byID := map[backend.Key]task{}
		for _, task := range tasks {
			byID[task.key] = task
		}
		sources := newSources(tasks, 2)
		req := drawRequest(t, tasks)
		want := naive(tasks, req)
		size := rapid.IntRange(1, 4).Draw(t, "size")
		got := []string{}
		for {
			page := walk(t, sources, req, size)
			got = append(got, page...)
			if len(page) < size {
				break
			}
			last := byID[backend.Key{Tenant: req.Tenant, TaskID: page[len(page)-1]}]
			req.After = &backend.Position{Time: last.row.Time, TaskID: last.key.TaskID}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	})
}

func TestKeysOfTasksAreDistinctAndNoneBeginsAnother(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var keys [][]byte
		for _, task := range drawTasks(t) {
			own := index.AppendKeys(nil, task.key, &task.row)
			size := 0
			for _, k := range own {
				size += len(k)
			}
			if size != index.Size(task.key, &task.row) {
				t.Fatalf("Size is %d, the keys have %d bytes", index.Size(task.key, &task.row), size)
			}
			keys = append(keys, own...)
		}
		slices.SortFunc(keys, bytes.Compare)
		for i := 1; i < len(keys); i++ {
			if bytes.HasPrefix(keys[i], keys[i-1]) {
				t.Fatalf("%x begins %x", keys[i-1], keys[i])
			}
		}
	})
}

func TestContractFixture(t *testing.T) {
	t.Parallel()
	day := func(n int64) document.Timestamp {
		return document.Timestamp{Valid: true, Seconds: 1735689600 + (n-1)*86400}
	}
	var none document.Timestamp
	var tasks []task
	for _, f := range []struct {
		id, context string
		state       int32
		time        document.Timestamp
	}{
		{"0", "A", 1, day(1)}, {"1", "B", 2, day(1)}, {"2", "A", 1, day(2)}, {"3", "B", 2, none}, {"4", "A", 3, none},
	} {
		tasks = append(tasks, task{
			key: backend.Key{TaskID: f.id},
			row: backend.Row{Kind: backend.RowTask, ContextID: f.context, State: f.state, Time: f.time},
		})
	}
	sources := newSources(tasks, 1)
	for name, tt := range map[string]struct {
		req  backend.ListRequest
		want []string
	}{
		"all":               {backend.ListRequest{}, []string{"2", "1", "0", "4", "3"}},
		"all of the owner":  {backend.ListRequest{Owner: backend.OwnerOf("")}, []string{"2", "1", "0", "4", "3"}},
		"context A":         {backend.ListRequest{ContextID: "A"}, []string{"2", "0", "4"}},
		"WORKING":           {backend.ListRequest{State: 2}, []string{"1", "3"}},
		"since is included": {backend.ListRequest{Since: day(1)}, []string{"2", "1", "0"}},
		"since day 2":       {backend.ListRequest{Since: day(2)}, []string{"2"}},
		"another owner":     {backend.ListRequest{Owner: backend.OwnerOf("x")}, []string{}},
		"another tenant":    {backend.ListRequest{Tenant: "x"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := walk(t, newSources(tasks, 1), &tt.req, everything); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := walk(t, sources, &backend.ListRequest{}, 2); !slices.Equal(got, []string{"2", "1"}) {
		t.Errorf("a walk of two: %q", got)
	}
}

// A page reads what it returns, and a key or two per group to find and to open it, however many tasks there are.
func TestWalkReadsWhatItReturns(t *testing.T) {
	t.Parallel()
	const n, page, states = 10_000, 50, 4
	tasks := make([]task, n)
	for i := range tasks {
		tasks[i] = task{
			key: backend.Key{TaskID: string(rune('a'+i%26)) + string(rune(0x4e00+i))},
			row: backend.Row{
				Kind: backend.RowTask, Owner: string(rune('a' + i%2)), ContextID: "c", State: int32(1 + i%states),
				Time: document.Timestamp{Valid: true, Seconds: int64(i)},
			},
		}
	}
	middle := &backend.Position{Time: document.Timestamp{Valid: true, Seconds: n / 2}, TaskID: "x"}
	for name, req := range map[string]backend.ListRequest{
		"all":      {},
		"deep":     {After: middle},
		"owner":    {Owner: backend.OwnerOf("a")},
		"state":    {State: 2},
		"context":  {ContextID: "c", After: middle},
		"since":    {Since: document.Timestamp{Valid: true, Seconds: n - 10}},
		"contexts": {ContextID: "c", Owner: backend.OwnerOf("b"), State: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sources := newSources(tasks, 1)
			got := walk(t, sources, &req, page)
			if want := naive(tasks, &req); !slices.Equal(got, want[:min(page, len(want))]) {
				t.Fatalf("got %q", got)
			}
			if reads := sources[0].(*sorted).reads; reads > page+2*2*states {
				t.Errorf("%d keys were read for a page of %d", reads, page)
			}
		})
	}
}

func TestErrorsEndAWalk(t *testing.T) {
	t.Parallel()
	tasks := []task{
		{key: backend.Key{TaskID: "a"}, row: backend.Row{Kind: backend.RowTask, State: 1}},
		{key: backend.Key{TaskID: "b"}, row: backend.Row{Kind: backend.RowTask, State: 2}},
	}
	boom := errors.New("boom")
	check := func(s *sorted, err error) {
		t.Helper()
		if !errors.Is(err, boom) {
			t.Errorf("got %v, want the cause", err)
		}
		if s.open != 0 {
			t.Errorf("%d iterators left open", s.open)
		}
	}

	sources := newSources(tasks, 1)
	s := sources[0].(*sorted)
	check(s, index.Walk(sources, &backend.ListRequest{}, func(string) (bool, error) { return true, boom }))
	check(s, index.Walk(sources, &backend.ListRequest{}, func(string) (bool, error) { s.fail = boom; return true, nil }))
	check(s, index.Walk(sources, &backend.ListRequest{}, func(string) (bool, error) { return true, nil }))
	check(s, index.Walk(sources, &backend.ListRequest{State: 1}, func(string) (bool, error) { return true, nil }))
	_, err := index.Count(sources, &backend.ListRequest{})
	check(s, err)
	_, err = index.Count(sources, &backend.ListRequest{State: 2})
	check(s, err)
}

func TestForeignKeysAreAnErrorNotAPanic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &sorted{}
		for _, k := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 30)).Draw(t, "keys") {
			s.keys = append(s.keys, append([]byte{rapid.ByteRange(1, 3).Draw(t, "kind"), 0}, k...))
		}
		slices.SortFunc(s.keys, bytes.Compare)
		req := &backend.ListRequest{ContextID: rapid.SampledFrom([]string{"", "a"}).Draw(t, "context")}
		_ = index.Walk([]index.Source{s}, req, func(string) (bool, error) { return true, nil })
		if s.open != 0 {
			t.Fatalf("%d iterators left open", s.open)
		}
	})
}
