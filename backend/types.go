package backend

import (
	"time"

	"github.com/a2a-taskstore/taskstore/backend/document"
)

// Key names a task, and the log that goes with it.
type Key struct {
	Tenant string
	TaskID string
}

// Owner is the owner of a scope. The zero value is unset: the caller is trusted with the whole tenant.
type Owner struct {
	Set  bool
	Name string
}

// OwnerOf returns a set Owner.
func OwnerOf(name string) Owner { return Owner{Set: true, Name: name} }

// Sees reports whether a caller with this owner sees what belongs to owner.
func (o Owner) Sees(owner string) bool { return !o.Set || o.Name == owner }

// Condition is the kind of a Precondition.
type Condition uint8

// The conditions. The zero value is Absent, as an unset precondition is.
const (
	Absent Condition = iota
	AtVersion
	Present
	NotTerminal
	Any
)

// Precondition is what must hold for the stored task when a Save takes effect.
type Precondition struct {
	Condition Condition
	// Version is for AtVersion, ≥ 1.
	Version int64
}

// ClaimRef proves that the caller holds a key.
type ClaimRef struct {
	Key   string
	Token string
}

// EventInput is an event that a Save appends: Event, or the task as the Save leaves it.
type EventInput struct {
	Event    document.Event
	Snapshot bool
}

// SaveRequest is a Save: exactly one of Task and Delta is set.
type SaveRequest struct {
	Key     Key
	Owner   Owner
	Task    *document.Task
	Delta   *document.Delta
	Pre     Precondition
	Events  []EventInput
	WriteID string
	Origin  string
	Claim   *ClaimRef
}

// SaveResult is what a Save produced.
type SaveResult struct {
	Version   int64
	Seq       int64
	UpdatedAt time.Time
	Replayed  bool
}

// Extent is how much of a task is read.
type Extent struct {
	// StateOnly reads no body: id, context id, state and status timestamp.
	StateOnly bool
	// OmitArtifacts leaves the artifacts unread.
	OmitArtifacts bool
	// History is how many messages are read, the most recent ones; negative: all.
	History int
}

// All is the whole task.
var All = Extent{History: -1}

// Stored is a task as it is stored.
type Stored struct {
	// Task is the encoded task, the caller's to keep.
	Task    []byte
	Version int64
	Owner   string
}

// GetResult is a task and what the store knows about it.
type GetResult struct {
	Stored
	// Pieces, unless nil, are the encoded task, one behind the other, in the place of Task. They are the store's: nobody may
	// change them, and they never change.
	Pieces      [][]byte
	LastSeq     int64
	Final       bool
	FinalSeq    int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
	FinalizedAt time.Time // zero: not terminal yet
	Now         time.Time
}

// GetRequest is a Get.
type GetRequest struct {
	Key    Key
	Owner  Owner
	Extent Extent
	// InPieces allows the store to answer with GetResult.Pieces, where that spares it a copy.
	InPieces bool
}

// Position is a place in the order of a list: behind this row.
type Position struct {
	Time   document.Timestamp
	TaskID string
}

// ListRequest is a page of a list.
type ListRequest struct {
	Tenant string
	Owner  Owner
	// ContextID filters; "": no filter.
	ContextID string
	// State filters; 0: no filter.
	State int32
	// Since filters, inclusive, when it is valid; tasks without a timestamp then never match.
	Since document.Timestamp
	// After is where the page starts; nil: at the first row.
	After *Position
	// Size is the number of rows, ≥ 1.
	Size int
	// MaxBytes ends a page early: a row that would pass it starts the next page, unless it is the first.
	MaxBytes  int
	Extent    Extent
	SkipTotal bool
}

// ListResult is a page.
type ListResult struct {
	Rows []Stored
	// Next is where the next page starts; nil on the last one.
	Next *Position
	// Total is the number of rows that match the filters, on all pages; 0 with SkipTotal.
	Total int
}

// DeleteRequest is a Delete.
type DeleteRequest struct {
	Key   Key
	Owner Owner
	// Version, unless 0, must be the stored one.
	Version int64
}

// ClaimOutcome is how a ClaimKey ended.
type ClaimOutcome uint8

// The outcomes.
const (
	Claimed ClaimOutcome = iota + 1
	Replay
	Conflict
)

// ClaimKey names a key. Owner's presence is part of the name.
type ClaimKey struct {
	Tenant string
	Owner  Owner
	Key    string
}

// ClaimRequest is a ClaimKey.
type ClaimRequest struct {
	Key       ClaimKey
	MessageID string
	TaskID    string
	Token     string
	Lease     time.Duration
	TTL       time.Duration
}

// ClaimResult is what became of a ClaimRequest.
type ClaimResult struct {
	Outcome ClaimOutcome
	// TaskID is the holder's, "" on Conflict.
	TaskID string
	// Expires is when the claim ends, on Claimed.
	Expires time.Time
}

// ReleaseRequest is a ReleaseKey.
type ReleaseRequest struct {
	Key   ClaimKey
	Token string
}

// AppendRequest is an AppendEvent.
type AppendRequest struct {
	Key    Key
	Owner  Owner
	Events []document.Event
	// Seq, unless 0, is the position of the one event given.
	Seq         int64
	WriteID     string
	Origin      string
	Claim       *ClaimRef
	RequireTask bool
}

// AppendResult is where the events are.
type AppendResult struct {
	FirstSeq int64
	LastSeq  int64
	Version  int64
	Replayed bool
}

// Event is an event in a log.
type Event struct {
	Seq     int64
	Version int64
	// Appended tells an appended event from one that came with a Save.
	Appended bool
	Origin   string
	// WriteID is that of the append, on each of its events; "" for events of a Save.
	WriteID   string
	CreatedAt time.Time
	// Bytes is the encoded StreamResponse.
	Bytes []byte
}

// Size is what an event counts for in the limits of logs and pages.
func (e *Event) Size() int { return len(e.Bytes) + len(e.Origin) + eventOverhead }

// eventOverhead bounds the framing of one event in a reply: tags, lengths, seq, version and time.
const eventOverhead = 64

// StartKind is how a Start is meant.
type StartKind uint8

// The kinds.
const (
	AfterSeq StartKind = iota
	AfterVersion
	FromNow
)

// Start is where a read of a log starts.
type Start struct {
	Kind StartKind
	// N is the seq or the version.
	N int64
}

// ReadLogRequest is one page of a log.
type ReadLogRequest struct {
	Key   Key
	Owner Owner
	Start Start
	// MaxEvents bounds the page; 0 reads no events.
	MaxEvents int
	// MaxBytes bounds the sum of the sizes; the first event is returned whatever its size.
	MaxBytes int
	// Task, unless nil, also reads the task, of the same instant.
	Task *Extent
}

// LogInfo describes a log.
type LogInfo struct {
	// Incarnation tells a log from another one under the same id, created after this one was deleted.
	Incarnation int64
	// FirstSeq is the earliest position that can be read; LastSeq + 1 if the log is empty.
	FirstSeq int64
	LastSeq  int64
	Final    bool
	FinalSeq int64
	// Version is the task's; 0 without a task.
	Version int64
}

// LogPage is a page of a log, of one instant.
type LogPage struct {
	Log LogInfo
	// From is the position that the page starts behind: the request's Start, resolved.
	From   int64
	Events []Event
	// Task is set if it was asked for and exists.
	Task *Stored
}

// Head is what the poller of waiting readers compares: any difference is news.
type Head struct {
	Incarnation int64 // 0: nothing there
	LastSeq     int64
	Version     int64
}

// Retention says how long things are kept. A zero duration or bound is for ever, or unbounded.
type Retention struct {
	// Terminal is the age at which a terminal task goes; it counts from the last write or append, by the store's clock.
	Terminal time.Duration
	// Idle is the same for tasks that are not terminal.
	Idle time.Duration
	// LogEvents and LogBytes bound one log; the oldest events go first.
	LogEvents int64
	LogBytes  int64
	// TasklessLog is the age at which a log without a task goes.
	TasklessLog time.Duration
	// Tombstone is the age at which a tombstone goes.
	Tombstone time.Duration
}

// DefaultRetention is what the contract names.
var DefaultRetention = Retention{
	LogEvents:   10_000,
	LogBytes:    64 << 20,
	TasklessLog: time.Hour,
	Tombstone:   30 * 24 * time.Hour,
}

// SweepRequest is one small batch of the sweeper's work.
type SweepRequest struct {
	Retention Retention
	// Cursor is the SweepResult's of the batch before; nil starts a round.
	Cursor []byte
	// Batch bounds the rows that are looked at.
	Batch int
}

// SweepResult is what a batch did.
type SweepResult struct {
	// Cursor is where the next batch starts; nil ends the round.
	Cursor     []byte
	Tasks      int // tasks and task-less logs removed
	Events     int // events dropped
	Keys       int // expired claims removed
	Tombstones int
}
