package backend

import (
	"time"

	"github.com/a2a-taskstore/taskstore/backend/document"
)

// RowKind is what stands under a Key.
type RowKind uint8

// The kinds. The zero value is nothing.
const (
	RowNone RowKind = iota
	// RowLog is a log without a task.
	RowLog
	// RowTask is a task and its log.
	RowTask
	// RowTombstone keeps the last version and seq of what was deleted.
	RowTombstone
)

// Row is the record under a Key that orders everything that happens there: each write reads it, decides, and replaces it,
// all in one step. Engines keep it next to the task's head, artifacts, history and events. The zero Row is RowNone.
type Row struct {
	Kind  RowKind
	Owner string
	// Incarnation grows by one each time something is created under the key. A tombstone keeps it.
	Incarnation int64
	// Version is the last version issued under the key, also by an incarnation before.
	Version int64

	// The index fields of the task.
	ContextID string
	State     int32
	Time      document.Timestamp

	// The log holds positions FirstSeq to LastSeq, with gaps where callers chose the positions. StartSeq is where this
	// incarnation's log began: FirstSeq is larger if retention has dropped events.
	StartSeq int64
	FirstSeq int64
	LastSeq  int64
	// DroppedMark is the largest Mark of the events that are no longer there.
	DroppedMark int64
	LogEvents   int64
	LogBytes    int64
	Final       bool
	FinalSeq    int64

	// Times by the store's clock, in nanoseconds since 1970; 0 is none. Touched is the last write or append, or the deletion.
	Created   int64
	Updated   int64
	Finalized int64
	Touched   int64

	// WriteID and WriteSeq are the write_id and the reply's seq of the latest Save.
	WriteID  string
	WriteSeq int64

	// Size is the size of the encoded task; Artifacts and Messages are the lengths of its lists.
	Size      int64
	Artifacts int64
	Messages  int64
}

// Mark orders the events of a log by the version that they belong to: those that came with the Save of a version before
// those appended at that version. It never falls along a log.
func Mark(version int64, appended bool) int64 {
	m := 2 * version
	if appended {
		m++
	}
	return m
}

// Mark returns the event's Mark.
func (e *Event) Mark() int64 { return Mark(e.Version, e.Appended) }

// TaskVersion is the version of the task, 0 without one.
func (r *Row) TaskVersion() int64 {
	if r.Kind != RowTask {
		return 0
	}
	return r.Version
}

// TaskFor reports whether there is a task that the owner sees.
func (r *Row) TaskFor(o Owner) bool { return r.Kind == RowTask && o.Sees(r.Owner) }

// LogFor reports whether there is a log, with or without a task, that the owner sees.
func (r *Row) LogFor(o Owner) bool {
	return (r.Kind == RowTask || r.Kind == RowLog) && o.Sees(r.Owner)
}

// Log describes the row's log.
func (r *Row) Log() LogInfo {
	return LogInfo{
		Incarnation: r.Incarnation,
		FirstSeq:    r.FirstSeq,
		LastSeq:     r.LastSeq,
		Final:       r.Final,
		FinalSeq:    r.FinalSeq,
		Version:     r.TaskVersion(),
	}
}

// Head returns what pollers compare.
func (r *Row) Head() Head {
	if r.Kind != RowTask && r.Kind != RowLog {
		return Head{}
	}
	return Head{Incarnation: r.Incarnation, LastSeq: r.LastSeq, Version: r.TaskVersion()}
}

// Result makes the result of a Get, or ErrTaskNotFound if the owner sees no task. body, which may be nil, is the task's
// encoding.
func (r *Row) Result(o Owner, task []byte, now time.Time) (GetResult, error) {
	if !r.TaskFor(o) {
		return GetResult{}, errNotFound()
	}
	return GetResult{
		Stored:      Stored{Task: task, Version: r.Version, Owner: r.Owner},
		LastSeq:     r.LastSeq,
		Final:       r.Final,
		FinalSeq:    r.FinalSeq,
		CreatedAt:   At(r.Created),
		UpdatedAt:   At(r.Updated),
		FinalizedAt: At(r.Finalized),
		Now:         now,
	}, nil
}

// At returns the time of a Row's field; the zero time for 0.
func At(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// begin makes the row that follows r when something is created where r is RowNone or RowTombstone.
func (r *Row) begin(owner string, now int64) Row {
	next := Row{
		Owner:       owner,
		Incarnation: r.Incarnation + 1,
		Version:     r.Version,
		StartSeq:    r.LastSeq + 1,
		FirstSeq:    r.LastSeq + 1,
		LastSeq:     r.LastSeq,
		Created:     now,
	}
	if r.Kind == RowTombstone {
		next.DroppedMark = Mark(r.Version, true) // what was appended at the last version is gone, too
	}
	return next
}

// bury makes the tombstone that follows r.
func (r *Row) bury(now int64) Row {
	return Row{Kind: RowTombstone, Incarnation: r.Incarnation, Version: r.Version, LastSeq: r.LastSeq, Touched: now}
}
