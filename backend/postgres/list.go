package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
)

// List implements backend.Store.
func (s *Store) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	q := &listQuery{req: req}
	if err := s.read(ctx, q.run); err != nil {
		return backend.ListResult{}, err
	}
	return q.result, nil
}

// listQuery reads a page of a list, from one snapshot: first the rows, along an index, then as many of their documents at a
// time as might fit the page.
type listQuery struct {
	req    *backend.ListRequest
	result backend.ListResult
	rows   []listRow
}

type listRow struct {
	id  string
	rec record
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
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if err := q.collect(ctx, conn); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, commit)
	return err
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
	return "SELECT t.task_id, " + recordColumns + where +
		" ORDER BY t.seconds DESC, t.nanos DESC, t.task_id DESC LIMIT " + s.arg(int64(q.req.Size)+1), s.args
}

func (q *listQuery) totalQuery() (string, []any) {
	s := &statement{}
	return "SELECT count(*)" + q.filter(s), s.args
}

func (q *listQuery) scanRows(rows pgx.Rows) error {
	for rows.Next() {
		var r listRow
		if err := rows.Scan(append([]any{(*stringColumn)(&r.id)}, r.rec.dest()...)...); err != nil {
			return err
		}
		q.rows = append(q.rows, r)
	}
	return rows.Err()
}

// collect reads documents until the page is full.
func (q *listQuery) collect(ctx context.Context, conn *pgx.Conn) error {
	rows := q.rows[:min(len(q.rows), q.req.Size)]
	page := backend.Page{Max: len(rows), MaxBytes: q.req.MaxBytes}
	taken := 0
	for full := false; taken < len(rows) && !full; {
		chunk := rows[taken:]
		chunk = chunk[:q.mightFit(chunk)]
		tasks, err := q.documents(ctx, conn, chunk)
		if err != nil {
			return err
		}
		for i := range chunk {
			if full = !page.Take(len(tasks[i])); full {
				break
			}
			q.result.Rows = append(q.result.Rows, backend.Stored{
				Task: tasks[i], Version: chunk[i].rec.Version, Owner: chunk[i].rec.Owner,
			})
			taken++
		}
	}
	if taken < len(q.rows) {
		last := q.rows[taken-1] // there is one: a page takes at least one row
		q.result.Next = &backend.Position{Time: last.rec.Time, TaskID: last.id}
	}
	return nil
}

// mightFit returns how many of the rows may be on one page, as far as their sizes tell: at least one.
func (q *listQuery) mightFit(rows []listRow) int {
	if q.req.MaxBytes == 0 || q.req.Extent.StateOnly {
		return len(rows)
	}
	total := int64(0)
	for i := range rows {
		total += rows[i].rec.Size
		if q.req.Extent.OmitArtifacts {
			total -= rows[i].rec.artifactBytes
		}
		if total > int64(q.req.MaxBytes) {
			return max(i, 1)
		}
	}
	return len(rows)
}

// documents returns the encoded tasks of the rows, in their order.
func (q *listQuery) documents(ctx context.Context, conn *pgx.Conn, rows []listRow) ([][]byte, error) {
	n := len(rows)
	out := make([][]byte, n)
	if q.req.Extent.StateOnly {
		for i := range rows {
			b := body{rec: rows[i].rec}
			out[i] = b.task(rows[i].id, q.req.Extent)
		}
		return out, nil
	}
	s := &statement{}
	columns := bodyColumns(s, q.req.Extent)
	query := "SELECT s.n, " + columns + " FROM " + s.source("s",
		int8s(s, "n", n, func(i int) int64 { return int64(i) }),
		texts(s, "task_id", n, func(i int) string { return rows[i].id }),
	) + " JOIN " + schemaName + ".tasks t ON t.tenant = " + s.arg(asBytes(q.req.Tenant)) + " AND t.task_id = s.task_id"
	found, err := conn.Query(ctx, query, s.args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var i int64
		b := body{}
		if err := found.Scan(append([]any{&i}, b.dest()...)...); err != nil {
			return nil, err
		}
		out[i] = b.task(rows[i].id, q.req.Extent)
	}
	return out, found.Err()
}
