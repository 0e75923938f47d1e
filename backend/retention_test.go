package backend_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-taskstore/taskstore/backend"
)

func TestExpired(t *testing.T) {
	t.Parallel()
	all := backend.Retention{Terminal: 1 * time.Second, Idle: 2 * time.Second, TasklessLog: 3 * time.Second, Tombstone: 4 * time.Second}
	for _, tc := range []struct {
		row  string
		age  time.Duration // 0: never
		want backend.Expiry
	}{
		{"nothing", 0, backend.Keep},
		{"tombstone", 4 * time.Second, backend.Forget},
		{"log", 3 * time.Second, backend.Expire},
		{"log after a task", 3 * time.Second, backend.Expire},
		{"open task", 2 * time.Second, backend.Expire},
		{"terminal task", time.Second, backend.Expire},
	} {
		row := rowNamed(t, tc.row)
		row.Touched = now.UnixNano()
		for _, age := range []time.Duration{0, tc.age - 1, tc.age, time.Hour} {
			want := backend.Keep
			if tc.age > 0 && age >= tc.age {
				want = tc.want
			}
			if got := backend.Expired(&row, &all, now.Add(age)); got != want {
				t.Errorf("%s at %v: %d, want %d", tc.row, age, got, want)
			}
		}
		if got := backend.Expired(&row, &backend.Retention{}, now.Add(200*365*24*time.Hour)); got != backend.Keep {
			t.Errorf("%s, kept for ever: %d", tc.row, got)
		}
		// A clock that goes back makes nothing older.
		if got := backend.Expired(&row, &all, now.Add(-time.Hour)); got != backend.Keep {
			t.Errorf("%s, before its time: %d", tc.row, got)
		}
	}
}

// TestTrim: 5 events and 500 bytes stand in the log.
func TestTrim(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		events int64
		bytes  int64
		want   backend.Expiry
	}{
		{"unbounded", 0, 0, backend.Keep},
		{"at both bounds", 5, 500, backend.Keep},
		{"one event over", 4, 0, backend.TrimLog},
		{"one byte over", 0, 499, backend.TrimLog},
		{"events over", 4, 1000, backend.TrimLog},
		{"bytes over", 10, 499, backend.TrimLog},
	} {
		r := backend.Retention{LogEvents: tc.events, LogBytes: tc.bytes}
		for _, name := range []string{"open task", "terminal task", "log"} {
			row := rowNamed(t, name)
			row.LogEvents, row.LogBytes = 5, 500
			if got := backend.Expired(&row, &r, now); got != tc.want {
				t.Errorf("%s, %s: %d, want %d", name, tc.name, got, tc.want)
			}
			oldest := backend.Event{Seq: 6, Version: 4, Appended: true, Bytes: make([]byte, 30), Origin: "origin"}
			want := row
			if tc.want == backend.TrimLog {
				want.FirstSeq, want.DroppedMark, want.LogEvents, want.LogBytes = 7, backend.Mark(4, true), 4, 400
			}
			if got := backend.Trim(&row, &r, &oldest); got != (tc.want == backend.TrimLog) {
				t.Errorf("%s, %s: trimmed %v", name, tc.name, got)
			}
			if diff := cmp.Diff(want, row); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, tc.name, diff)
			}
		}
	}
	empty := backend.Row{Kind: backend.RowTask, LogBytes: 7}
	if got := backend.Expired(&empty, &backend.Retention{LogBytes: 1}, now); got != backend.Keep {
		t.Errorf("an empty log: %d", got)
	}
	// Expiry comes before trimming, and a mark never falls.
	old := rowNamed(t, "open task")
	if got := backend.Expired(&old, &backend.Retention{Idle: 1, LogEvents: 1}, now); got != backend.Expire {
		t.Errorf("old and over: %d", got)
	}
	old.DroppedMark = 100
	if backend.Trim(&old, &backend.Retention{LogEvents: 1}, &backend.Event{Seq: 3}); old.DroppedMark != 100 {
		t.Errorf("mark %d", old.DroppedMark)
	}
}

func TestPlanDelete(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		for _, owner := range []backend.Owner{alice, bob, nobody, trusted} {
			for _, version := range []int64{0, 4, 5} {
				next, deleted, err := backend.PlanDelete(&r.row, &backend.DeleteRequest{Owner: owner, Version: version}, now)
				mine := exists(&r.row) && (owner == alice || owner == trusted)
				isTask := r.row.Kind == backend.RowTask
				if mine && isTask && version == 4 {
					wantReason(t, err, backend.ErrVersionConflict)
					wantMeta(t, err, "current_version", 5)
				} else if err != nil {
					t.Errorf("%s: %v", r.name, err)
				}
				want := r.row
				if gone := mine && (version == 0 || (isTask && version == 5)); gone != deleted {
					t.Errorf("%s, owner %v, version %d: deleted %v", r.name, owner, version, deleted)
				} else if gone {
					want = backend.Row{
						Kind: backend.RowTombstone, Incarnation: r.row.Incarnation, Version: r.row.Version, LastSeq: 7, Touched: now.UnixNano(),
					}
					if got := backend.Bury(&r.row, now); got != want {
						t.Errorf("%s: expiry leaves %+v, deletion %+v", r.name, got, want)
					}
				}
				if diff := cmp.Diff(want, next); diff != "" {
					t.Errorf("%s (-want +got):\n%s", r.name, diff)
				}
			}
		}
	}
}

func TestRowResult(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		for _, owner := range []backend.Owner{alice, bob, nobody, trusted} {
			got, err := r.row.Result(owner, []byte("task"), now)
			if r.row.Kind != backend.RowTask || (owner != alice && owner != trusted) {
				wantReason(t, err, backend.ErrTaskNotFound)
				continue
			}
			want := backend.GetResult{
				Stored:  backend.Stored{Task: []byte("task"), Version: 5, Owner: "alice"},
				LastSeq: 7, Final: r.row.Final, FinalSeq: r.row.FinalSeq, CreatedAt: time.Unix(0, 10).UTC(),
				UpdatedAt: time.Unix(0, 30).UTC(), Now: now,
			}
			if r.row.Final {
				want.FinalizedAt = time.Unix(0, 20).UTC()
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", r.name, err, diff)
			}
		}
	}
}
