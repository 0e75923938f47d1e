package backend

import (
	"time"

	"github.com/a2a-taskstore/taskstore/backend/document"
)

// Expiry is what retention does to a row.
type Expiry uint8

// The kinds of Expiry.
const (
	// Keep leaves the row as it is.
	Keep Expiry = iota
	// Expire acts like a Delete.
	Expire
	// Forget removes a tombstone.
	Forget
	// TrimLog drops the oldest events of the log (see Trim).
	TrimLog
)

// Expired decides what retention does to a row at the time.
func Expired(row *Row, r *Retention, now time.Time) Expiry {
	age := func(limit time.Duration) bool { return limit > 0 && now.UnixNano()-row.Touched >= int64(limit) }
	switch row.Kind {
	case RowTombstone:
		if age(r.Tombstone) {
			return Forget
		}
		return Keep
	case RowLog:
		if age(r.TasklessLog) {
			return Expire
		}
	case RowTask:
		limit := r.Idle
		if document.Terminal(row.State) {
			limit = r.Terminal
		}
		if age(limit) {
			return Expire
		}
	default:
		return Keep
	}
	if over(row, r) {
		return TrimLog
	}
	return Keep
}

func over(row *Row, r *Retention) bool {
	return row.LogEvents > 0 &&
		((r.LogEvents > 0 && row.LogEvents > r.LogEvents) || (r.LogBytes > 0 && row.LogBytes > r.LogBytes))
}

// Bury returns the tombstone of a row that Expire removes.
func Bury(row *Row, now time.Time) Row { return row.bury(now.UnixNano()) }

// Trim takes the oldest event of the log out of the row's books, if the log is over its limits, and reports whether it did:
// the engine then drops the event, in the same step that writes the row.
func Trim(row *Row, r *Retention, oldest *Event) bool {
	if !over(row, r) {
		return false
	}
	row.FirstSeq = oldest.Seq + 1
	row.DroppedMark = max(row.DroppedMark, oldest.Mark())
	row.LogEvents--
	row.LogBytes -= int64(oldest.Size())
	return true
}
