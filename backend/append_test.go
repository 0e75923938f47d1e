package backend_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// fakeLog holds positions 3 to 7, but 5: a gap. The append "w" wrote 3 and 4 at version 4.
type fakeLog struct{ err error }

func (l fakeLog) ByWriteID(id string) (first, last, version int64, ok bool, err error) {
	if id != "w" {
		return 0, 0, 0, false, l.err
	}
	return 3, 4, 4, true, l.err
}

func (l fakeLog) At(seq int64) (backend.Event, bool, error) {
	if seq < 3 || seq > 7 || seq == 5 {
		return backend.Event{}, false, l.err
	}
	return backend.Event{Seq: seq, Version: 4, Bytes: []byte{byte(seq)}}, true, l.err
}

func TestPlanAppend(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		for _, owner := range []backend.Owner{alice, bob, nobody, trusted} {
			for _, require := range []bool{false, true} {
				req := &backend.AppendRequest{
					Key: key, Owner: owner, RequireTask: require, Origin: "replica", WriteID: "new",
					Events: []document.Event{textEvent(t, "x"), textEvent(t, "yy")},
				}
				plan, err := backend.PlanAppend(&r.row, req, fakeLog{}, nil, now)
				want := backend.Reason("")
				if exists(&r.row) && owner != alice && owner != trusted || require && r.row.Kind != backend.RowTask {
					want = backend.ErrTaskNotFound
				}
				wantReason(t, err, want)
				if want != "" {
					continue
				}
				next := r.row
				if !exists(&r.row) {
					next = backend.Row{
						Kind: backend.RowLog, Owner: owner.Name, Incarnation: r.row.Incarnation + 1, Version: r.row.Version,
						StartSeq: r.row.LastSeq + 1, FirstSeq: r.row.LastSeq + 1, LastSeq: r.row.LastSeq,
						Created: now.UnixNano(),
					}
					if r.row.Kind == backend.RowTombstone {
						next.DroppedMark = backend.Mark(r.row.Version, true)
					}
				}
				next.Touched = now.UnixNano()
				next.LastSeq += 2
				next.LogEvents += 2
				next.LogBytes += int64(len(req.Events[0].Bytes) + len(req.Events[1].Bytes) + 2*(64+len("replica")))
				if diff := cmp.Diff(next, plan.Row); diff != "" {
					t.Errorf("%s (-want +got):\n%s", r.name, diff)
				}
				version := int64(0)
				if r.row.Kind == backend.RowTask {
					version = 5
				}
				wantRes := backend.AppendResult{FirstSeq: r.row.LastSeq + 1, LastSeq: r.row.LastSeq + 2, Version: version}
				if plan.Result != wantRes {
					t.Errorf("%s: %+v, want %+v", r.name, plan.Result, wantRes)
				}
				for i, e := range plan.Events {
					want := backend.Event{
						Seq: wantRes.FirstSeq + int64(i), Version: version, Appended: true, Origin: "replica", WriteID: "new",
						CreatedAt: now, Bytes: req.Events[i].Bytes,
					}
					if diff := cmp.Diff(want, e); diff != "" {
						t.Errorf("%s, event %d (-want +got):\n%s", r.name, i, diff)
					}
				}
			}
		}
	}
}

// TestPlanAppendPositions: positions 1 and 2 have been dropped, 3 to 7 are there, but 5.
func TestPlanAppendPositions(t *testing.T) {
	t.Parallel()
	later := taskRow(working)
	later.StartSeq = 2 // 1 was of an incarnation before
	for _, tc := range []struct {
		name     string
		row      backend.Row
		seq      int64
		bytes    byte
		replayed bool
		version  int64
		want     backend.Reason
	}{
		{name: "next", row: taskRow(working), seq: 8, version: 5},
		{name: "beyond", row: taskRow(working), seq: 100, version: 5},
		{name: "taken, same bytes", row: taskRow(working), seq: 7, bytes: 7, replayed: true, version: 4},
		{name: "first, same bytes", row: taskRow(working), seq: 3, bytes: 3, replayed: true, version: 4},
		{name: "taken, other bytes", row: taskRow(working), seq: 7, bytes: 1, want: backend.ErrSeqConflict},
		{name: "gap", row: taskRow(working), seq: 5, bytes: 5, want: backend.ErrSeqNotWritten},
		{name: "dropped", row: taskRow(working), seq: 2, bytes: 9, replayed: true, version: 5},
		{name: "dropped, the oldest", row: taskRow(working), seq: 1, bytes: 9, replayed: true, version: 5},
		{name: "of an incarnation before", row: later, seq: 1, want: backend.ErrSeqNotWritten},
		{name: "first in a new log", seq: 1},
		{name: "far in a new log", seq: 1 << 62},
		{name: "behind a tombstone", row: rowNamed(t, "tombstone"), seq: 8},
		{name: "within a tombstone", row: rowNamed(t, "tombstone"), seq: 7, want: backend.ErrSeqNotWritten},
	} {
		req := &backend.AppendRequest{Key: key, Owner: alice, Events: []document.Event{{Bytes: []byte{tc.bytes}}}, Seq: tc.seq}
		plan, err := backend.PlanAppend(&tc.row, req, fakeLog{}, nil, now)
		if got := backend.ReasonOf(err); got != tc.want {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
			continue
		}
		if err != nil {
			wantMeta(t, err, "seq", tc.seq)
			wantMeta(t, err, "last_seq", tc.row.LastSeq)
			continue
		}
		want := backend.AppendResult{FirstSeq: tc.seq, LastSeq: tc.seq, Version: tc.version, Replayed: tc.replayed}
		if plan.Result != want {
			t.Errorf("%s: %+v, want %+v", tc.name, plan.Result, want)
		}
		if tc.replayed && (plan.Row != tc.row || len(plan.Events) != 0) {
			t.Errorf("%s: a replay plans %+v", tc.name, plan)
		}
		if !tc.replayed && (plan.Row.LastSeq != tc.seq || plan.Row.LogEvents != tc.row.LogEvents+1) {
			t.Errorf("%s: %+v", tc.name, plan.Row)
		}
	}
}

func TestPlanAppendReplay(t *testing.T) {
	t.Parallel()
	row := taskRow(working)
	req := &backend.AppendRequest{Key: key, Owner: alice, Events: []document.Event{{}, {TaskID: "another"}}, WriteID: "w"}
	plan, err := backend.PlanAppend(&row, req, fakeLog{}, nil, now)
	want := &backend.AppendPlan{Row: row, Result: backend.AppendResult{FirstSeq: 3, LastSeq: 4, Version: 4, Replayed: true}}
	if err != nil || !cmp.Equal(plan, want) {
		t.Errorf("%+v, %v", plan, err)
	}
	row.FirstSeq = 4 // its first event has been dropped
	_, err = backend.PlanAppend(&row, req, fakeLog{}, nil, now)
	wantReason(t, err, backend.ErrInvalid)
	_, err = backend.PlanAppend(&row, &backend.AppendRequest{Key: key, Owner: bob, WriteID: "w", Events: req.Events}, fakeLog{}, nil, now)
	wantReason(t, err, backend.ErrTaskNotFound)

	for _, failing := range []*backend.AppendRequest{
		{Key: key, Owner: alice, WriteID: "w", Events: make([]document.Event, 1)},
		{Key: key, Owner: alice, Seq: 4, Events: make([]document.Event, 1)},
	} {
		if _, err := backend.PlanAppend(&row, failing, fakeLog{err: errDisk}, nil, now); !errors.Is(err, errDisk) {
			t.Errorf("%+v: %v", failing, err)
		}
	}
}

func TestPlanAppendEventIDs(t *testing.T) {
	t.Parallel()
	task, log := rowNamed(t, "open task"), rowNamed(t, "log")
	for _, tc := range []struct {
		row   backend.Row
		event document.Event
		want  backend.Reason
	}{
		{task, document.Event{TaskID: "t", ContextID: "ctx"}, ""},
		{task, document.Event{}, ""},
		{task, document.Event{ContextID: "other"}, backend.ErrInvalid},
		{task, document.Event{TaskID: "other"}, backend.ErrInvalid},
		{log, document.Event{TaskID: "t", ContextID: "any"}, ""},
		{log, document.Event{TaskID: "other"}, backend.ErrInvalid},
		{backend.Row{}, document.Event{ContextID: "any"}, ""},
		{backend.Row{}, document.Event{TaskID: "other"}, backend.ErrInvalid},
	} {
		req := &backend.AppendRequest{Key: key, Owner: alice, Events: []document.Event{tc.event}}
		_, err := backend.PlanAppend(&tc.row, req, fakeLog{}, nil, now)
		wantReason(t, err, tc.want)
	}
}
