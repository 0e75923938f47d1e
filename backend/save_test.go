package backend_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// TestPlanSavePreconditions decides every condition over every row, for every owner, whole and as a delta.
func TestPlanSavePreconditions(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		for _, owner := range []backend.Owner{alice, bob, nobody, trusted} {
			for _, pre := range []backend.Precondition{
				{Condition: backend.Absent}, {Condition: backend.AtVersion, Version: 4}, {Condition: backend.AtVersion, Version: 5},
				{Condition: backend.AtVersion, Version: 6}, {Condition: backend.Present}, {Condition: backend.NotTerminal},
				{Condition: backend.Any},
			} {
				for _, next := range []int32{working, completed, failed} {
					for _, write := range []*backend.SaveRequest{
						{Task: taskIn(t, "ctx", next)}, {Delta: statusDelta(t, next)},
						{Delta: &document.Delta{Head: taskIn(t, "ctx", next), MaxHistory: -1}},
					} {
						req, delta := write, write.Delta != nil
						req.Key, req.Owner, req.Pre = key, owner, pre
						plan, err := backend.PlanSave(&r.row, req, fakeDocument{}, nil, backend.Limits{}, now)
						want := wantSave(&r.row, owner, pre, next, delta)
						if got := backend.ReasonOf(err); got != want || (want == "") != (err == nil) {
							t.Errorf("%s, owner %v, %v, state %d, delta %v: %v, want %q", r.name, owner, pre, next, delta, err, want)
						}
						if err == nil && plan.Row.Version != r.row.Version+1 {
							t.Errorf("%s: version %d", r.name, plan.Row.Version)
						}
					}
				}
			}
		}
	}
}

// wantSave is contract section 2 said once more, in another way.
func wantSave(row *backend.Row, owner backend.Owner, pre backend.Precondition, next int32, delta bool) backend.Reason {
	mine := row.Owner == "alice" && (owner == alice || owner == trusted)
	inserts := pre.Condition == backend.Absent || pre.Condition == backend.Any
	switch {
	case delta && pre.Condition == backend.Absent:
		return backend.ErrInvalid
	case row.Kind == backend.RowTask && mine:
	case delta || !inserts:
		return backend.ErrTaskNotFound
	case exists(row) && !mine:
		return backend.ErrTaskExists
	default:
		return ""
	}
	terminal := row.State == failed
	switch {
	case pre.Condition == backend.Absent:
		return backend.ErrTaskExists
	case pre.Condition == backend.AtVersion && pre.Version != 5:
		return backend.ErrVersionConflict
	case terminal && (pre.Condition == backend.NotTerminal || next != failed):
		return backend.ErrTerminalState
	}
	return ""
}

// TestPlanSaveRow: what each kind of row becomes.
func TestPlanSaveRow(t *testing.T) {
	t.Parallel()
	task := taskIn(t, "ctx", completed)
	nanos := now.UnixNano()
	fresh := backend.Row{
		Kind: backend.RowTask, ContextID: "ctx", State: completed, Final: true, Created: nanos, Updated: nanos, Finalized: nanos,
		Touched: nanos, WriteID: "w", Size: int64(task.Size()),
	}
	events := []backend.EventInput{{Event: textEvent(t, "x")}, {Snapshot: true}}
	size := int64(len(events[0].Event.Bytes) + len("replica") + document.SnapshotSize(task.Size()) + len("replica") + 2*64)
	for _, tc := range []struct {
		row  string
		want func(backend.Row) backend.Row
	}{
		{"nothing", func(backend.Row) backend.Row {
			w := fresh
			w.Owner, w.Incarnation, w.Version, w.StartSeq, w.FirstSeq = "alice", 1, 1, 1, 1
			w.LastSeq, w.FinalSeq, w.WriteSeq, w.LogEvents, w.LogBytes = 2, 2, 2, 2, size
			return w
		}},
		{"tombstone", func(backend.Row) backend.Row {
			w := fresh
			w.Owner, w.Incarnation, w.Version, w.StartSeq, w.FirstSeq = "alice", 3, 6, 8, 8
			w.LastSeq, w.FinalSeq, w.WriteSeq, w.LogEvents, w.LogBytes, w.DroppedMark = 9, 9, 9, 2, size, 11
			return w
		}},
		{"log", func(r backend.Row) backend.Row {
			w := fresh
			w.Owner, w.Incarnation, w.Version, w.StartSeq, w.FirstSeq = "alice", 1, 1, 1, 1
			w.LastSeq, w.FinalSeq, w.WriteSeq, w.LogEvents, w.LogBytes = 9, 9, 9, 9, r.LogBytes+size
			return w
		}},
		{"log after a task", func(r backend.Row) backend.Row {
			w := fresh
			w.Owner, w.Incarnation, w.Version, w.StartSeq, w.FirstSeq, w.DroppedMark = "alice", 3, 6, 6, 6, 11
			w.LastSeq, w.FinalSeq, w.WriteSeq, w.LogEvents, w.LogBytes = 9, 9, 9, 4, r.LogBytes+size
			return w
		}},
		{"open task", func(r backend.Row) backend.Row {
			w := fresh
			w.Owner, w.Incarnation, w.Version, w.StartSeq, w.FirstSeq, w.DroppedMark = "alice", 1, 6, 1, 3, 3
			w.LastSeq, w.FinalSeq, w.WriteSeq, w.LogEvents, w.LogBytes, w.Created = 9, 9, 9, 7, r.LogBytes+size, r.Created
			return w
		}},
	} {
		t.Run(tc.row, func(t *testing.T) {
			t.Parallel()
			row := rowNamed(t, tc.row)
			before := row
			plan, err := backend.PlanSave(&row, &backend.SaveRequest{
				Key: key, Owner: alice, Task: task, Pre: backend.Precondition{Condition: backend.Any}, Events: events,
				WriteID: "w", Origin: "replica",
			}, nil, nil, backend.Limits{}, now)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want(row)
			if diff := cmp.Diff(want, plan.Row); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if row != before {
				t.Error("the plan changed the row that it was given")
			}
			if plan.Change.Whole != task {
				t.Errorf("the change is %+v", plan.Change)
			}
			wantResult := backend.SaveResult{Version: want.Version, Seq: want.LastSeq, UpdatedAt: now}
			if plan.Result != wantResult {
				t.Errorf("result %+v, want %+v", plan.Result, wantResult)
			}
			plan.FillSnapshots(task.AppendTask(nil))
			var total int64
			for i, e := range plan.Events {
				total += int64(e.Size())
				if e.Seq != want.LastSeq-1+int64(i) || e.Version != want.Version || e.Appended || e.Origin != "replica" ||
					e.WriteID != "" || !e.CreatedAt.Equal(now) {
					t.Errorf("event %d: %+v", i, e)
				}
			}
			if total != size || string(plan.Events[1].Bytes) != string(document.AppendSnapshot(nil, task.AppendTask(nil))) {
				t.Errorf("events of %d bytes, counted as %d", total, size)
			}
		})
	}
}

// TestPlanSaveFinal: what the first write in a terminal state sets, no other write sets.
func TestPlanSaveFinal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		row    backend.Row
		next   int32
		events int
		want   backend.Row // only the fields compared here
	}{
		{"insert", backend.Row{}, working, 1, backend.Row{LastSeq: 1, WriteSeq: 1}},
		{"insert without events", backend.Row{}, working, 0, backend.Row{}},
		{"born terminal", backend.Row{}, completed, 1, backend.Row{LastSeq: 1, WriteSeq: 1, Final: true, FinalSeq: 1, Finalized: now.UnixNano()}},
		{"open stays open", taskRow(working), working, 0, backend.Row{LastSeq: 7}},
		{"open ends", taskRow(working), failed, 2, backend.Row{LastSeq: 9, WriteSeq: 9, Final: true, FinalSeq: 9, Finalized: now.UnixNano()}},
		{"open ends without events", taskRow(working), failed, 0, backend.Row{LastSeq: 7, Final: true, FinalSeq: 7, Finalized: now.UnixNano()}},
		{"terminal again", taskRow(failed), failed, 1, backend.Row{LastSeq: 8, WriteSeq: 8, Final: true, FinalSeq: 4, Finalized: 20}},
	} {
		req := &backend.SaveRequest{
			Key: key, Owner: alice, Task: taskIn(t, "ctx", tc.next), Pre: backend.Precondition{Condition: backend.Any},
			Events: make([]backend.EventInput, tc.events),
		}
		plan, err := backend.PlanSave(&tc.row, req, nil, nil, backend.Limits{}, now)
		if err != nil {
			t.Fatal(err)
		}
		r := plan.Row
		got := backend.Row{LastSeq: r.LastSeq, WriteSeq: r.WriteSeq, Final: r.Final, FinalSeq: r.FinalSeq, Finalized: r.Finalized}
		if got != tc.want || plan.Result.Seq != tc.want.WriteSeq {
			t.Errorf("%s: %+v, reply %+v, want %+v", tc.name, got, plan.Result, tc.want)
		}
	}
}

func rowNamed(t testing.TB, name string) backend.Row {
	t.Helper()
	for _, r := range rows {
		if r.name == name {
			return r.row
		}
	}
	t.Fatalf("no row %q", name)
	return backend.Row{}
}

func TestPlanSaveReplay(t *testing.T) {
	t.Parallel()
	row := taskRow(failed)
	for _, tc := range []struct {
		name     string
		owner    backend.Owner
		writeID  string
		replayed bool
		want     backend.Reason
	}{
		{"same", alice, "w5", true, ""},
		{"trusted", trusted, "w5", true, ""},
		{"another owner", bob, "w5", false, backend.ErrTaskNotFound},
		{"another id", alice, "w4", false, backend.ErrVersionConflict},
		{"none", alice, "", false, backend.ErrVersionConflict},
	} {
		req := &backend.SaveRequest{
			Key: key, Owner: tc.owner, Task: taskIn(t, "other", working), WriteID: tc.writeID,
			Pre: backend.Precondition{Condition: backend.AtVersion, Version: 4}, Claim: &backend.ClaimRef{Key: "k", Token: "t"},
		}
		plan, err := backend.PlanSave(&row, req, nil, nil, backend.Limits{TaskBytes: 1}, now)
		wantReason(t, err, tc.want)
		if !tc.replayed {
			continue
		}
		want := &backend.SavePlan{Row: row, Result: backend.SaveResult{
			Version: 5, Seq: 6, UpdatedAt: time.Unix(0, 30).UTC(), Replayed: true,
		}}
		if diff := cmp.Diff(want, plan); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	row.WriteID = ""
	_, err := backend.PlanSave(&row, &backend.SaveRequest{Key: key, Owner: alice, Task: taskIn(t, "ctx", failed)}, nil, nil, backend.Limits{}, now)
	wantReason(t, err, backend.ErrTaskExists) // no id is not an id
}

func TestPlanSaveTerminalMetadata(t *testing.T) {
	t.Parallel()
	row := taskRow(failed)
	for _, next := range []int32{0, working, completed, 77} {
		_, err := backend.PlanSave(&row, &backend.SaveRequest{
			Key: key, Owner: alice, Task: taskIn(t, "ctx", next), Pre: backend.Precondition{Condition: backend.Present},
		}, nil, nil, backend.Limits{}, now)
		wantReason(t, err, backend.ErrTerminalState)
		wantMeta(t, err, "stored_state", "TASK_STATE_FAILED")
		wantMeta(t, err, "attempted_state", document.StateName(next))
		wantMeta(t, err, "current_version", 5)
	}
}

func TestPlanSaveContextAndEventIDs(t *testing.T) {
	t.Parallel()
	row := taskRow(working)
	present := backend.Precondition{Condition: backend.Present}
	for _, contextID := range []string{"", "other", "ctx\x01"} {
		req := &backend.SaveRequest{Key: key, Owner: alice, Task: taskIn(t, contextID, working), Pre: present}
		_, err := backend.PlanSave(&row, req, nil, nil, backend.Limits{}, now)
		wantReason(t, err, backend.ErrContextMismatch)
		req.Task, req.Delta = nil, &document.Delta{Head: taskIn(t, contextID, working), MaxHistory: -1}
		_, err = backend.PlanSave(&row, req, fakeDocument{}, nil, backend.Limits{}, now)
		wantReason(t, err, backend.ErrContextMismatch)
	}
	for i, e := range []document.Event{
		{TaskID: "t", ContextID: "ctx"}, {TaskID: "t"}, {ContextID: "ctx"}, {}, {TaskID: "u"}, {ContextID: "c"}, {TaskID: "t", ContextID: "c"},
	} {
		want := backend.Reason("")
		if i > 3 {
			want = backend.ErrInvalid
		}
		for _, r := range []backend.Row{{}, row} {
			req := &backend.SaveRequest{
				Key: key, Owner: alice, Task: taskIn(t, "ctx", working), Pre: backend.Precondition{Condition: backend.Any},
				Events: []backend.EventInput{{}, {Event: e}},
			}
			_, err := backend.PlanSave(&r, req, nil, nil, backend.Limits{}, now)
			wantReason(t, err, want)
			if e, ok := errors.AsType[*backend.Error](err); ok && e.Field != "events["+strconv.Itoa(1)+"]" {
				t.Errorf("field %q", e.Field)
			}
		}
	}
}
