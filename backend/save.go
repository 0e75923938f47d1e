package backend

import (
	"time"

	"github.com/a2a-taskstore/taskstore/backend/document"
)

// Limits are what a write is checked against.
type Limits struct {
	// TaskBytes bounds the encoded task, so that a full Get fits a message; 0 is no bound.
	TaskBytes int64
}

// ArtifactInfo is what the plan of a delta needs to know of a stored artifact.
type ArtifactInfo struct {
	// Holds is how many artifacts have the id; the rest is about the one, if it is one.
	Holds int
	// Index is its place in the list.
	Index int
	// Parts is how many parts it has.
	Parts int
	// FieldBytes and PartBytes are the sizes of its two pieces (see document.Artifact).
	FieldBytes int
	PartBytes  int
}

// Document is the stored task, as far as the plan of a delta asks for it. The engine reads as little as each answer needs.
type Document interface {
	// Head returns the stored head.
	Head() ([]byte, error)
	// Artifact looks an artifact up by its id.
	Artifact(id string) (ArtifactInfo, error)
	// ArtifactBytes returns the size of the list of artifacts.
	ArtifactBytes() (int, error)
	// OldestMessages returns the size, as entries of the list, of the n oldest messages. n is at most the number of messages.
	OldestMessages(n int) (int, error)
}

// Change is what a Save does to the stored task. A whole task replaces everything; else each piece that is set changes.
type Change struct {
	Whole *document.Task

	Head []byte // replaces the head
	// Artifacts replaces the list.
	Artifacts *document.List
	// Put replaces the artifact at PutAt, or is added behind the others if PutAt is negative.
	Put   *document.Artifact
	PutAt int
	// Append appends to the artifact at AppendAt.
	Append   *document.AppendToArtifact
	AppendAt int
	// Trim drops the oldest stored messages; History is appended.
	Trim    int
	History document.List
}

// SavePlan is what a Save does. With Replayed set it does nothing.
type SavePlan struct {
	Row    Row
	Change Change
	// Events go into the log. Those named by Snapshots have no Bytes yet: the engine fills them (FillSnapshots).
	Events    []Event
	Snapshots []int
	// Claim, unless nil, is the new state of the claim's record.
	Claim  *Claim
	Result SaveResult
}

// FillSnapshots sets the bytes of the events that are snapshots of the task as the plan leaves it.
func (p *SavePlan) FillSnapshots(task []byte) {
	for _, i := range p.Snapshots {
		p.Events[i].Bytes = document.AppendSnapshot(make([]byte, 0, document.SnapshotSize(len(task))), task)
	}
}

// PlanSave decides a Save: what it leaves, or why it is refused. row is what stands under the key, claim what stands under
// the claim's key (nil if nothing does, or none was given), both read in the same step that will write the plan. doc is
// asked only for a delta on a row with a task.
//
// The checks come in the order that the contract names: write_id, owner, precondition, terminal rule, context id, shape of
// the delta, sizes; then the claim.
func PlanSave(row *Row, req *SaveRequest, doc Document, claim *Claim, limits Limits, now time.Time) (*SavePlan, error) {
	if req.Delta != nil && req.Pre.Condition == Absent {
		return nil, Invalid("precondition", "a delta needs version, present, not_terminal or any")
	}
	visible := row.TaskFor(req.Owner)
	if visible && req.WriteID != "" && row.WriteID == req.WriteID {
		return &SavePlan{Row: *row, Result: SaveResult{
			Version: row.Version, Seq: row.WriteSeq, UpdatedAt: At(row.Updated), Replayed: true,
		}}, nil
	}

	if visible {
		if err := checkPrecondition(row, req); err != nil {
			return nil, err
		}
	} else if err := checkInsert(row, req); err != nil {
		return nil, err
	}

	nanos := now.UnixNano()
	plan := &SavePlan{}
	next := &plan.Row
	switch row.Kind {
	case RowTask:
		*next = *row
	case RowLog:
		*next = *row
		next.Created = nanos
	default:
		*next = row.begin(req.Owner.Name, nanos)
	}
	next.Kind = RowTask
	next.Version++
	next.Updated, next.Touched = nanos, nanos
	next.WriteID = req.WriteID

	if req.Task != nil {
		t := req.Task
		if visible && t.ContextID != row.ContextID {
			return nil, errContext()
		}
		next.ContextID, next.State, next.Time = t.ContextID, t.State, t.Time
		next.Size, next.Artifacts, next.Messages = int64(t.Size()), int64(t.Artifacts.Count), int64(t.History.Count)
		plan.Change.Whole = t
	} else {
		if h := req.Delta.Head; h != nil && h.ContextID != row.ContextID {
			return nil, errContext()
		}
	}
	for i := range req.Events {
		if e := &req.Events[i]; !e.Snapshot {
			if err := checkEventIDs(&e.Event, i, req.Key.TaskID, next.ContextID); err != nil {
				return nil, err
			}
		}
	}
	if req.Delta != nil {
		if err := planDelta(plan, req.Delta, doc); err != nil {
			return nil, err
		}
	}
	if limits.TaskBytes > 0 && next.Size > limits.TaskBytes {
		return nil, &Error{
			Reason: ErrTaskTooLarge, Detail: "the task would not fit a message",
			Meta: map[string]string{"size": itoa(next.Size), "limit": itoa(limits.TaskBytes)},
		}
	}
	if req.Claim != nil {
		bound, err := claim.bind(req.Claim.Token, req.Key.TaskID, now)
		if err != nil {
			return nil, err
		}
		plan.Claim = bound
	}

	plan.Events = make([]Event, len(req.Events))
	for i := range req.Events {
		e := &plan.Events[i]
		*e = Event{Version: next.Version, Origin: req.Origin, CreatedAt: now, Bytes: req.Events[i].Event.Bytes}
		size := int64(e.Size())
		if req.Events[i].Snapshot {
			plan.Snapshots = append(plan.Snapshots, i)
			size += int64(document.SnapshotSize(int(next.Size)))
		}
		next.take(e, size)
	}
	next.WriteSeq = 0
	if len(plan.Events) > 0 {
		next.WriteSeq = next.LastSeq
	}
	if !next.Final && document.Terminal(next.State) {
		next.Final, next.FinalSeq, next.Finalized = true, next.LastSeq, nanos
	}
	plan.Result = SaveResult{Version: next.Version, Seq: next.WriteSeq, UpdatedAt: At(nanos)}
	return plan, nil
}

// take gives the event the next position.
func (r *Row) take(e *Event, size int64) {
	r.LastSeq++
	e.Seq = r.LastSeq
	r.LogEvents++
	r.LogBytes += size
}

// checkInsert decides a Save that finds no task that its owner sees.
func checkInsert(row *Row, req *SaveRequest) error {
	if req.Delta != nil || (req.Pre.Condition != Absent && req.Pre.Condition != Any) {
		return errNotFound()
	}
	if row.Kind == RowTask || (row.Kind == RowLog && !req.Owner.Sees(row.Owner)) {
		return errExists() // another owner's: an id belongs to one owner
	}
	return nil
}

// checkPrecondition decides a Save that finds a task.
func checkPrecondition(row *Row, req *SaveRequest) error {
	switch req.Pre.Condition {
	case Absent:
		return errExists()
	case AtVersion:
		if req.Pre.Version != row.Version {
			return errVersion(row)
		}
	}
	attempted := row.State
	switch {
	case req.Task != nil:
		attempted = req.Task.State
	case req.Delta.Head != nil:
		attempted = req.Delta.Head.State
	case req.Delta.Status != nil:
		attempted = req.Delta.Status.State
	}
	if document.Terminal(row.State) && (attempted != row.State || req.Pre.Condition == NotTerminal) {
		return &Error{
			Reason: ErrTerminalState, Detail: "the task is in a terminal state",
			Meta: map[string]string{
				"stored_state":    document.StateName(row.State),
				"attempted_state": document.StateName(attempted),
				"current_version": itoa(row.Version),
			},
		}
	}
	return nil
}

func errVersion(row *Row) error {
	return &Error{
		Reason: ErrVersionConflict, Detail: "the task has another version",
		Meta: map[string]string{"current_version": itoa(row.Version)},
	}
}

func errContext() error {
	return &Error{Reason: ErrContextMismatch, Detail: "a task's context id never changes"}
}

// checkEventIDs checks the ids that an event names against its task's; contextID is "" where no task says.
func checkEventIDs(e *document.Event, i int, taskID, contextID string) error {
	if e.TaskID != "" && e.TaskID != taskID {
		return Invalid("events["+itoa(int64(i))+"]", "names another task")
	}
	if e.ContextID != "" && e.ContextID != contextID {
		return Invalid("events["+itoa(int64(i))+"]", "names another context")
	}
	return nil
}

// planDelta fills the plan's Change from a delta, and the row's fields that follow from it.
func planDelta(plan *SavePlan, d *document.Delta, doc Document) error {
	row, change := &plan.Row, &plan.Change
	if d.Head != nil || d.Status != nil {
		old, err := doc.Head()
		if err != nil {
			return err
		}
		if d.Head != nil {
			change.Head, row.State, row.Time = d.Head.Head, d.Head.State, d.Head.Time
		} else {
			change.Head, row.State, row.Time = document.ReplaceStatus(old, d.Status.Bytes), d.Status.State, d.Status.Time
		}
		row.Size += int64(len(change.Head) - len(old))
	}
	if err := planArtifacts(plan, d, doc); err != nil {
		return err
	}
	return planHistory(plan, d, doc)
}

func planArtifacts(plan *SavePlan, d *document.Delta, doc Document) error {
	row, change := &plan.Row, &plan.Change
	switch {
	case d.Artifacts != nil:
		old, err := doc.ArtifactBytes()
		if err != nil {
			return err
		}
		change.Artifacts = d.Artifacts
		row.Size += int64(len(d.Artifacts.Bytes) - old)
		row.Artifacts = int64(d.Artifacts.Count)
	case d.Put != nil:
		info, err := doc.Artifact(d.Put.ID)
		if err != nil {
			return err
		}
		if info.Holds > 1 {
			return errAmbiguous()
		}
		change.Put, change.PutAt = d.Put, -1
		row.Size += int64(d.Put.Size())
		if info.Holds == 1 {
			change.PutAt = info.Index
			row.Size -= int64(document.ArtifactSize(info.FieldBytes, info.PartBytes))
		} else {
			row.Artifacts++
		}
	case d.Append != nil:
		info, err := doc.Artifact(d.Append.ID)
		if err != nil {
			return err
		}
		switch {
		case info.Holds == 0:
			return &Error{Reason: ErrArtifactUnknown, Detail: "the task has no artifact with this id"}
		case info.Holds > 1:
			return errAmbiguous()
		case d.Append.Base >= 0 && d.Append.Base != info.Parts:
			return &Error{
				Reason: ErrBasePartsConflict, Detail: "the artifact has another number of parts",
				Meta: map[string]string{"current_parts": itoa(int64(info.Parts)), "current_version": itoa(row.Version - 1)},
			}
		}
		change.Append, change.AppendAt = d.Append, info.Index
		fields := info.FieldBytes
		if d.Append.Replace {
			fields = len(d.Append.Fields)
		}
		row.Size += int64(document.ArtifactSize(fields, info.PartBytes+len(d.Append.Parts.Bytes)) -
			document.ArtifactSize(info.FieldBytes, info.PartBytes))
	}
	return nil
}

func errAmbiguous() error {
	return &Error{Reason: ErrArtifactAmbiguous, Detail: "the task has several artifacts with this id"}
}

func planHistory(plan *SavePlan, d *document.Delta, doc Document) error {
	row, change := &plan.Row, &plan.Change
	change.History = d.History
	if d.MaxHistory >= 0 {
		change.History = document.LastEntries(d.History, d.MaxHistory)
		if over := row.Messages + int64(change.History.Count) - int64(d.MaxHistory); over > 0 {
			change.Trim = int(over)
		}
	}
	if change.Trim > 0 {
		gone, err := doc.OldestMessages(change.Trim)
		if err != nil {
			return err
		}
		row.Size -= int64(gone)
	}
	row.Size += int64(len(change.History.Bytes))
	row.Messages += int64(change.History.Count - change.Trim)
	return nil
}
