package backend

import (
	"bytes"
	"time"
)

// Log is the stored log, as far as the plan of an append asks for it.
type Log interface {
	// ByWriteID returns what the latest append with the write_id wrote to this log: the first and the last position, and the
	// version that the events carry, as they were then, also if retention has dropped the oldest. ok is false if it wrote
	// none that are still there.
	ByWriteID(writeID string) (first, last, version int64, ok bool, err error)
	// At returns the event at a position; ok is false if none is there.
	At(seq int64) (e Event, ok bool, err error)
}

// AppendPlan is what an AppendEvents does. With Result.Replayed set it does nothing.
type AppendPlan struct {
	Row    Row
	Events []Event
	// Claim, unless nil, is the new state of the claim's record.
	Claim  *Claim
	Result AppendResult
}

// PlanAppend decides an append, as PlanSave does a Save. log is asked only where the row has a log that the owner sees.
func PlanAppend(row *Row, req *AppendRequest, log Log, claim *Claim, now time.Time) (*AppendPlan, error) {
	exists := row.LogFor(req.Owner)
	if exists {
		if res, ok, err := appendedBefore(row, req, log); err != nil || ok {
			return &AppendPlan{Row: *row, Result: res}, err
		}
	} else if row.Kind == RowTask || row.Kind == RowLog {
		return nil, errNotFound() // another owner's
	}
	if req.RequireTask && !row.TaskFor(req.Owner) {
		return nil, errNotFound()
	}

	nanos := now.UnixNano()
	plan := &AppendPlan{Row: *row}
	next := &plan.Row
	if !exists {
		*next = row.begin(req.Owner.Name, nanos)
		next.Kind = RowLog
	}
	for i := range req.Events {
		e := &req.Events[i]
		contextID := e.ContextID // nothing to compare with, without a task
		if row.Kind == RowTask {
			contextID = row.ContextID
		}
		if err := checkEventIDs(e, i, req.Key.TaskID, contextID); err != nil {
			return nil, err
		}
	}
	if req.Seq != 0 && req.Seq <= next.LastSeq {
		// appendedBefore has dealt with positions that were written or dropped; what is left are those of the incarnations
		// before, and gaps.
		return nil, &Error{
			Reason: ErrSeqNotWritten, Detail: "the position is behind the head, and was never written",
			Meta: map[string]string{"seq": itoa(req.Seq), "last_seq": itoa(next.LastSeq)},
		}
	}
	if req.Claim != nil {
		bound, err := claim.bind(req.Claim.Token, req.Key.TaskID, now)
		if err != nil {
			return nil, err
		}
		plan.Claim = bound
	}

	next.Touched = nanos
	plan.Events = make([]Event, len(req.Events))
	if req.Seq != 0 {
		next.LastSeq = req.Seq - 1
	}
	for i := range req.Events {
		e := &plan.Events[i]
		*e = Event{
			Version: row.TaskVersion(), Appended: true, Origin: req.Origin, WriteID: req.WriteID,
			CreatedAt: now, Bytes: req.Events[i].Bytes,
		}
		next.take(e, int64(e.Size()))
	}
	plan.Result = AppendResult{
		FirstSeq: plan.Events[0].Seq, LastSeq: next.LastSeq, Version: row.TaskVersion(),
	}
	return plan, nil
}

// appendedBefore finds out whether the events of the request are in the log, or were.
func appendedBefore(row *Row, req *AppendRequest, log Log) (res AppendResult, ok bool, err error) {
	if req.WriteID != "" {
		first, last, version, ok, err := log.ByWriteID(req.WriteID)
		if err != nil {
			return res, false, err
		}
		if ok && first >= row.FirstSeq {
			return AppendResult{FirstSeq: first, LastSeq: last, Version: version, Replayed: true}, true, nil
		}
	}
	if req.Seq == 0 || req.Seq > row.LastSeq || req.Seq < row.StartSeq {
		return res, false, nil
	}
	res = AppendResult{FirstSeq: req.Seq, LastSeq: req.Seq, Version: row.TaskVersion(), Replayed: true}
	if req.Seq < row.FirstSeq {
		return res, true, nil // dropped: what was there can no longer be compared
	}
	e, found, err := log.At(req.Seq)
	if err != nil || !found {
		return res, false, err
	}
	if !bytes.Equal(e.Bytes, req.Events[0].Bytes) {
		return res, false, &Error{
			Reason: ErrSeqConflict, Detail: "the position holds another event",
			Meta: map[string]string{"seq": itoa(req.Seq), "last_seq": itoa(row.LastSeq)},
		}
	}
	res.Version = e.Version
	return res, true, nil
}
