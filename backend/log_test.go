package backend_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
)

// history is a log as it was written, and the row that goes with it.
type history struct {
	row    backend.Row
	events []backend.Event // all of them, also those that were dropped
}

func (h *history) search(mark int64) (seq int64, err error) {
	for _, e := range h.events {
		if e.Seq >= h.row.FirstSeq && e.Mark() <= mark {
			seq = e.Seq
		}
	}
	return seq, nil
}

// genHistory draws a log whose oldest events may have been dropped, perhaps of an id that was used before.
func genHistory(t *rapid.T) *history {
	h := &history{}
	h.row = backend.Row{Kind: backend.RowTask, Incarnation: 1, Version: 1, StartSeq: 1, FirstSeq: 1}
	if rapid.Bool().Draw(t, "used before") {
		h.row = backend.Row{
			Kind: backend.RowTask, Incarnation: 2, Version: 4, StartSeq: 6, FirstSeq: 6, LastSeq: 5, DroppedMark: backend.Mark(3, false),
		}
	}
	for range rapid.IntRange(0, 12).Draw(t, "events") {
		appended := rapid.Bool().Draw(t, "appended")
		if !appended {
			h.row.Version += rapid.Int64Range(1, 2).Draw(t, "saves")
		}
		h.row.LastSeq += rapid.SampledFrom([]int64{1, 1, 1, 3}).Draw(t, "step")
		h.row.LogEvents++
		h.events = append(h.events, backend.Event{Seq: h.row.LastSeq, Version: h.row.Version, Appended: appended})
	}
	h.row.Version += rapid.Int64Range(0, 1).Draw(t, "silent saves")
	r := backend.Retention{LogEvents: rapid.Int64Range(0, 12).Draw(t, "kept")}
	for i := range h.events {
		if !backend.Trim(&h.row, &r, &h.events[i]) {
			break
		}
	}
	return h
}

// TestResolveStart: a start is served if, and only if, everything behind it is there; then exactly that is read.
func TestResolveStart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := genHistory(t)
		row := &h.row
		start := backend.Start{
			Kind: backend.StartKind(rapid.IntRange(0, 2).Draw(t, "kind")), N: rapid.Int64Range(0, 30).Draw(t, "n"),
		}
		behind := func(e *backend.Event) bool { // whether the caller wants the event
			switch start.Kind {
			case backend.FromNow:
				return false
			case backend.AfterVersion:
				return e.Version > start.N || (e.Appended && e.Version >= start.N)
			default:
				return e.Seq > start.N
			}
		}
		served := true
		switch {
		case start.Kind == backend.AfterSeq && start.N > 0:
			served = start.N >= row.StartSeq-1 && start.N >= row.FirstSeq-1 && start.N <= row.LastSeq
		case start.Kind == backend.AfterVersion && start.N > 0:
			served = start.N <= row.Version && (row.Incarnation == 1 || start.N >= 3)
		}
		var want []int64
		for i := range h.events {
			if e := &h.events[i]; behind(e) {
				want = append(want, e.Seq)
				served = served && e.Seq >= row.FirstSeq
			}
		}
		from, err := backend.ResolveStart(row, start, h.search)
		if !served {
			wantReason(t, err, backend.ErrLogRange)
			wantMeta(t, err, "earliest_seq", row.FirstSeq)
			wantMeta(t, err, "last_seq", row.LastSeq)
			return
		}
		if err != nil {
			t.Fatalf("%+v of %+v: %v", start, *row, err)
		}
		var got []int64
		for _, e := range h.events {
			if e.Seq > from {
				got = append(got, e.Seq)
			}
		}
		if !cmp.Equal(got, want) || from < row.FirstSeq-1 || from > row.LastSeq {
			t.Fatalf("%+v of %+v: %d: %v, want %v", start, *row, from, got, want)
		}
	})
}

func TestPlanRead(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		for _, owner := range []backend.Owner{alice, bob, nobody, trusted} {
			page, err := backend.PlanRead(&r.row, &backend.ReadLogRequest{Owner: owner, Start: backend.Start{Kind: backend.FromNow}}, nil)
			if !exists(&r.row) || (owner != alice && owner != trusted) {
				wantReason(t, err, backend.ErrTaskNotFound)
				continue
			}
			version := int64(0)
			if r.row.Kind == backend.RowTask {
				version = 5
			}
			want := backend.LogPage{From: 7, Log: backend.LogInfo{
				Incarnation: r.row.Incarnation, FirstSeq: r.row.FirstSeq, LastSeq: 7, Final: r.row.Final, FinalSeq: r.row.FinalSeq,
				Version: version,
			}}
			if diff := cmp.Diff(want, page); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", r.name, err, diff)
			}
		}
	}
	row := taskRow(working)
	_, err := backend.PlanRead(&row, &backend.ReadLogRequest{
		Owner: alice, Start: backend.Start{Kind: backend.AfterVersion, N: 5},
	}, func(int64) (int64, error) { return 0, errDisk })
	if !errors.Is(err, errDisk) {
		t.Errorf("error %v", err)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		page  backend.Page
		sizes []int
		want  int
	}{
		{backend.Page{Max: 3}, []int{1, 1, 1, 1}, 3},
		{backend.Page{Max: 0}, []int{1}, 0},
		{backend.Page{Max: 9, MaxBytes: 10}, []int{11, 1}, 1},
		{backend.Page{Max: 9, MaxBytes: 10}, []int{5, 5, 1}, 2},
		{backend.Page{Max: 9, MaxBytes: 10}, []int{5, 6}, 1},
		{backend.Page{Max: 9}, []int{1 << 40, 1 << 40}, 2},
	} {
		got := 0
		for _, size := range tc.sizes {
			if !tc.page.Take(size) {
				break
			}
			got++
		}
		if got != tc.want {
			t.Errorf("%+v: took %d of %v, want %d", tc.page, got, tc.sizes, tc.want)
		}
	}
}

// TestHead: any change that a reader may wait for shows.
func TestHead(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		want := backend.Head{}
		if exists(&r.row) {
			want = backend.Head{Incarnation: r.row.Incarnation, LastSeq: 7, Version: r.row.TaskVersion()}
		}
		if got := r.row.Head(); got != want {
			t.Errorf("%s: %+v, want %+v", r.name, got, want)
		}
	}
}
