package postgres

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
)

// listTimeout is attemptTimeout for a List, whose total may count millions of rows. It is as long as a server lets any call
// take; a caller has a deadline.
const listTimeout = 2 * time.Minute

// List implements backend.Store.
func (s *Store) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	q := &listQuery{req: req}
	if err := s.readWithin(ctx, listTimeout, q.run); err != nil {
		return backend.ListResult{}, err
	}
	return q.result, nil
}

// listQuery reads a page of a list, from one snapshot and mostly in one round trip: the rows, along an index, and the documents
// of those that might fit the page by what the rows say of their size.
type listQuery struct {
	req    *backend.ListRequest
	result backend.ListResult
	rows   []listRow
}

type listRow struct {
	id  string
	rec record // as far as listColumns say
	// task is nil if it was not read.
	task []byte
}

func (q *listQuery) run(ctx context.Context, conn *pgx.Conn) error {
	q.result, q.rows = backend.ListResult{}, nil
	b := &pgx.Batch{}
	b.Queue(snapshot)
	page, args := q.pageQuery()
	b.Queue(page, args...).Query(q.scanRows)
	if !q.req.SkipTotal {
		total, args := q.totalQuery()
		b.Queue(total, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&q.result.Total) })
	}
	if q.exact() {
		b.Queue(commit)
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if err := q.collect(ctx, conn); err != nil || q.exact() {
		return err
	}
	_, err := conn.Exec(ctx, commit)
	return err
}

// exact reports whether the sizes by which documents are read are those that they have on the page. Else more may fit than
// was read at first.
func (q *listQuery) exact() bool { return q.req.Extent.StateOnly || q.req.Extent.History <= 0 }

// size is an expression for how large a document of t may be on the page.
func (q *listQuery) size() string {
	extent := &q.req.Extent
	switch {
	case extent.StateOnly:
		return "0"
	case extent.History == 0 && extent.OmitArtifacts:
		return "octet_length(t.head)"
	case extent.History == 0:
		return "octet_length(t.head) + t.artifact_bytes"
	case extent.OmitArtifacts:
		return "t.size - t.artifact_bytes"
	default:
		return "t.size"
	}
}

// filter is the condition on t that the request's filters make.
func (q *listQuery) filter(s *statement) string {
	req := q.req
	where := " FROM " + schemaName + ".tasks t WHERE t.kind = 2 AND t.tenant = " + s.arg(asBytes(req.Tenant))
	if req.Owner.Set {
		where += " AND t.owner = " + s.arg(asBytes(req.Owner.Name))
	}
	if req.ContextID != "" {
		where += " AND t.context_id = " + s.arg(asBytes(req.ContextID))
	}
	if req.State != 0 {
		where += " AND t.state = " + s.arg(int64(req.State)) + "::bigint"
	}
	if t := req.Since; t.Valid {
		where += " AND (t.seconds, t.nanos) >= (" + s.arg(t.Seconds) + "::bigint, " + s.arg(int64(t.Nanos)) + "::bigint)"
	}
	return where
}

func (q *listQuery) pageQuery() (string, []any) {
	s := &statement{}
	where := q.filter(s)
	if p := q.req.After; p != nil {
		where += " AND (t.seconds, t.nanos, t.task_id) < (" + s.arg(seconds(p.Time)) + "::bigint, " +
			s.arg(int64(p.Time.Nanos)) + "::bigint, " + s.arg(asBytes(p.TaskID)) + "::bytea)"
	}
	const order = " ORDER BY t.seconds DESC, t.nanos DESC, t.task_id DESC"
	most := int64(math.MaxInt64)
	if q.req.MaxBytes > 0 {
		most = int64(q.req.MaxBytes)
	}
	rows := "SELECT t.*" + where + order + " LIMIT " + s.arg(int64(q.req.Size)+1)
	sized := `SELECT t.*, row_number() OVER w AS place, sum(` + q.size() + `) OVER w AS so_far FROM (` + rows + `) t
		WINDOW w AS (` + order + ` ROWS UNBOUNDED PRECEDING)`
	fits := "t.place <= " + s.arg(int64(q.req.Size)) + "::bigint AND (t.place = 1 OR t.so_far <= " + s.arg(most) + "::bigint)"
	return "SELECT " + fits + ", " + listColumns + ", " + documentColumns(s, q.req.Extent, fits) +
		" FROM (" + sized + ") t" + order, s.args
}

// listColumns are the columns of a listRow, in the order of dest.
const listColumns = "t.task_id, t.version, t.owner, t.context_id, t.state, t.seconds, t.nanos, t.size, t.artifact_bytes"

func (r *listRow) dest() []any {
	return []any{
		(*stringColumn)(&r.id), &r.rec.Version, (*stringColumn)(&r.rec.Owner), (*stringColumn)(&r.rec.ContextID), &r.rec.State,
		(*secondsColumn)(&r.rec.Time), &r.rec.Time.Nanos, &r.rec.Size, &r.rec.artifactBytes,
	}
}

func (q *listQuery) totalQuery() (string, []any) {
	s := &statement{}
	return "SELECT count(*)" + q.filter(s), s.args
}

func (q *listQuery) scanRows(rows pgx.Rows) error {
	for rows.Next() {
		var fits bool
		var r listRow
		b := body{}
		if err := rows.Scan(append(append([]any{&fits}, r.dest()...), b.documentDest()...)...); err != nil {
			return err
		}
		if fits {
			b.rec = r.rec
			r.task = b.task(r.id, q.req.Extent)
		}
		q.rows = append(q.rows, r)
	}
	return rows.Err()
}

// collect fills the page, and reads what fits and was not read.
func (q *listQuery) collect(ctx context.Context, conn *pgx.Conn) error {
	rows := q.rows[:min(len(q.rows), q.req.Size)]
	page := backend.Page{Max: len(rows), MaxBytes: q.req.MaxBytes}
	taken := 0
	for ; taken < len(rows); taken++ {
		r := &rows[taken]
		if r.task == nil {
			if q.exact() {
				break
			}
			if err := q.documents(ctx, conn, rows[taken:taken+q.mightFit(rows[taken:])]); err != nil {
				return err
			}
		}
		if !page.Take(len(r.task)) {
			break
		}
		q.result.Rows = append(q.result.Rows, backend.Stored{Task: r.task, Version: r.rec.Version, Owner: r.rec.Owner})
	}
	if taken < len(q.rows) {
		last := q.rows[taken-1] // there is one: a page takes at least one row
		q.result.Next = &backend.Position{Time: last.rec.Time, TaskID: last.id}
	}
	return nil
}

// mightFit returns how many of the rows might fit a whole page, as far as their sizes tell: at least one.
func (q *listQuery) mightFit(rows []listRow) int {
	total := int64(0)
	for i := range rows {
		total += rows[i].rec.Size
		if q.req.Extent.OmitArtifacts {
			total -= rows[i].rec.artifactBytes
		}
		if q.req.MaxBytes > 0 && total > int64(q.req.MaxBytes) {
			return max(i, 1)
		}
	}
	return len(rows)
}

// documents reads the tasks of the rows.
func (q *listQuery) documents(ctx context.Context, conn *pgx.Conn, rows []listRow) error {
	n := len(rows)
	s := &statement{}
	columns := documentColumns(s, q.req.Extent, "true")
	query := "SELECT s.n, " + columns + " FROM " + s.source("s",
		int8s(s, "n", n, func(i int) int64 { return int64(i) }),
		texts(s, "task_id", n, func(i int) string { return rows[i].id }),
	) + " JOIN " + schemaName + ".tasks t ON t.tenant = " + s.arg(asBytes(q.req.Tenant)) + " AND t.task_id = s.task_id"
	found, err := conn.Query(ctx, query, s.args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var i int64
		b := body{}
		if err := found.Scan(append([]any{&i}, b.documentDest()...)...); err != nil {
			return err
		}
		rows[i].task = b.task(rows[i].id, q.req.Extent)
	}
	return found.Err()
}
