package postgres

import (
	"math"
	"math/rand/v2"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// record is a row of tasks, without the long columns.
type record struct {
	backend.Row
	// stamp is 0 if there is no row.
	stamp int64
	// rowID is what the rows of other tables, which hang on this one, are found by: a random number that the row keeps.
	rowID         int64
	artifactBytes int64 // size of the list of artifacts
	artifactRows  bool
	messageRows   bool
}

// following returns the record that replaces this one, or that is the first, for the row.
func (r record) following(row backend.Row) record {
	r.Row, r.stamp = row, newStamp()
	if r.rowID == 0 {
		r.rowID = newStamp()
	}
	return r
}

// newStamp returns a stamp that nothing had before. Being random, it also differs from those of rows that were removed and
// made again.
func newStamp() int64 {
	for {
		if n := rand.Int64(); n != 0 {
			return n
		}
	}
}

// recordColumns are the columns of a record, in the order of dest.
const recordColumns = `t.stamp, t.row_id, t.kind, t.owner, t.incarnation, t.version, t.context_id, t.state, t.seconds, t.nanos,
	t.start_seq, t.first_seq, t.last_seq, t.dropped_mark, t.log_events, t.log_bytes, t.final, t.final_seq,
	t.created, t.updated, t.finalized, t.touched, t.write_id, t.write_seq,
	t.size, t.artifact_count, t.artifact_bytes, t.message_count, t.artifact_rows, t.message_rows`

// dest returns where to scan the recordColumns to.
func (r *record) dest() []any {
	return []any{
		&r.stamp, &r.rowID, (*kindColumn)(&r.Kind), (*stringColumn)(&r.Owner), &r.Incarnation, &r.Version,
		(*stringColumn)(&r.ContextID), &r.State, (*secondsColumn)(&r.Time), &r.Time.Nanos,
		&r.StartSeq, &r.FirstSeq, &r.LastSeq, &r.DroppedMark, &r.LogEvents, &r.LogBytes, &r.Final, &r.FinalSeq,
		&r.Created, &r.Updated, &r.Finalized, &r.Touched, (*stringColumn)(&r.WriteID), &r.WriteSeq,
		&r.Size, &r.Artifacts, &r.artifactBytes, &r.Messages, &r.artifactRows, &r.messageRows,
	}
}

// movingColumns are the columns of a record that most changes change; settledColumns are the others. Together they are a
// source of n records.
func movingColumns(s *statement, n int, at func(i int) *record) []column {
	return []column{
		int8s(s, "stamp", n, func(i int) int64 { return at(i).stamp }),
		int8s(s, "version", n, func(i int) int64 { return at(i).Version }),
		int8s(s, "state", n, func(i int) int64 { return int64(at(i).State) }),
		int8s(s, "seconds", n, func(i int) int64 { return seconds(at(i).Time) }),
		int8s(s, "nanos", n, func(i int) int64 { return int64(at(i).Time.Nanos) }),
		int8s(s, "last_seq", n, func(i int) int64 { return at(i).LastSeq }),
		int8s(s, "log_events", n, func(i int) int64 { return at(i).LogEvents }),
		int8s(s, "log_bytes", n, func(i int) int64 { return at(i).LogBytes }),
		int8s(s, "updated", n, func(i int) int64 { return at(i).Updated }),
		int8s(s, "touched", n, func(i int) int64 { return at(i).Touched }),
		texts(s, "write_id", n, func(i int) string { return at(i).WriteID }),
		int8s(s, "write_seq", n, func(i int) int64 { return at(i).WriteSeq }),
		int8s(s, "size", n, func(i int) int64 { return at(i).Size }),
		int8s(s, "artifact_count", n, func(i int) int64 { return at(i).Artifacts }),
		int8s(s, "artifact_bytes", n, func(i int) int64 { return at(i).artifactBytes }),
		int8s(s, "message_count", n, func(i int) int64 { return at(i).Messages }),
	}
}

func settledColumns(s *statement, n int, at func(i int) *record) []column {
	return []column{
		int8s(s, "row_id", n, func(i int) int64 { return at(i).rowID }),
		int8s(s, "kind", n, func(i int) int64 { return int64(at(i).Kind) }),
		texts(s, "owner", n, func(i int) string { return at(i).Owner }),
		int8s(s, "incarnation", n, func(i int) int64 { return at(i).Incarnation }),
		texts(s, "context_id", n, func(i int) string { return at(i).ContextID }),
		int8s(s, "start_seq", n, func(i int) int64 { return at(i).StartSeq }),
		int8s(s, "first_seq", n, func(i int) int64 { return at(i).FirstSeq }),
		int8s(s, "dropped_mark", n, func(i int) int64 { return at(i).DroppedMark }),
		bools(s, "final", n, func(i int) bool { return at(i).Final }),
		int8s(s, "final_seq", n, func(i int) int64 { return at(i).FinalSeq }),
		int8s(s, "created", n, func(i int) int64 { return at(i).Created }),
		int8s(s, "finalized", n, func(i int) int64 { return at(i).Finalized }),
		bools(s, "artifact_rows", n, func(i int) bool { return at(i).artifactRows }),
		bools(s, "message_rows", n, func(i int) bool { return at(i).messageRows }),
	}
}

// settled is the record without what is in the movingColumns.
func (r record) settled() record {
	r.stamp, r.artifactBytes = 0, 0
	r.Version, r.State, r.Time, r.LastSeq, r.LogEvents, r.LogBytes = 0, 0, document.Timestamp{}, 0, 0, 0
	r.Updated, r.Touched, r.WriteID, r.WriteSeq = 0, 0, "", 0
	r.Size, r.Artifacts, r.Messages = 0, 0, 0
	return r
}

// noSeconds stands for no timestamp, and orders behind all that protobuf allows.
const noSeconds = math.MinInt64

func seconds(t document.Timestamp) int64 {
	if !t.Valid {
		return noSeconds
	}
	return t.Seconds
}

// secondsColumn scans the seconds of a timestamp, which also say whether there is one.
type secondsColumn document.Timestamp

// ScanInt64 implements pgtype.Int64Scanner.
func (c *secondsColumn) ScanInt64(v pgInt8) error {
	*c = secondsColumn{Nanos: c.Nanos}
	if v.Int64 != noSeconds {
		c.Valid, c.Seconds = true, v.Int64
	}
	return nil
}

// kindColumn scans a RowKind.
type kindColumn backend.RowKind

// ScanInt64 implements pgtype.Int64Scanner.
func (c *kindColumn) ScanInt64(v pgInt8) error {
	*c = kindColumn(v.Int64)
	return nil
}

// stringColumn scans a bytea into a string.
type stringColumn string

// ScanBytes implements pgtype.BytesScanner.
func (c *stringColumn) ScanBytes(v []byte) error {
	*c = stringColumn(v)
	return nil
}
