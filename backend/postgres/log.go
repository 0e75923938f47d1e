package postgres

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
)

// ReadLog implements backend.Store.
func (s *Store) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	q := &logQuery{req: req}
	if err := s.read(ctx, q.run); err != nil {
		return backend.LogPage{}, err
	}
	rec := &q.body.rec
	page, err := backend.PlanRead(&rec.Row, req, func(int64) (int64, error) { return q.found, nil })
	if err != nil {
		return backend.LogPage{}, err
	}
	bound := backend.Page{Max: req.MaxEvents, MaxBytes: req.MaxBytes}
	for i := range q.events {
		if !bound.Take(q.events[i].Size()) {
			break
		}
		page.Events = append(page.Events, q.events[i])
	}
	if req.Task != nil && rec.Kind == backend.RowTask {
		page.Task = &backend.Stored{Task: q.body.task(req.Key.TaskID, *req.Task), Version: rec.Version, Owner: rec.Owner}
	}
	return page, nil
}

// logQuery reads a row and a page of its log, from one snapshot.
type logQuery struct {
	req    *backend.ReadLogRequest
	body   body
	found  int64 // the last position at or before the version that the read starts at
	events []backend.Event
}

// eventBytes is what an event counts for: backend.Event.Size.
const eventBytes = `octet_length(e.event) + octet_length(e.origin) + 64`

func (q *logQuery) run(ctx context.Context, conn *pgx.Conn) error {
	q.body, q.found, q.events = body{}, 0, nil
	req := q.req
	extent := backend.Extent{StateOnly: true}
	if req.Task != nil {
		extent = *req.Task
	}
	b := &pgx.Batch{}
	b.Queue(snapshot)
	row := &statement{}
	columns := bodyColumns(row, extent)
	b.Queue("SELECT "+columns+" FROM "+schemaName+".tasks t "+whereKey(row, req.Key), row.args...).
		Query(scanBodies(func(read *body) { q.body = *read }))

	after := req.Start.N
	if req.Start.Kind == backend.AfterVersion {
		st := &statement{}
		b.Queue(q.search(st), st.args...).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&q.found}, func() error { return nil })
			return err
		})
	}
	if req.MaxEvents > 0 && req.Start.Kind != backend.FromNow {
		st := &statement{}
		from := ""
		if req.Start.Kind == backend.AfterVersion && after > 0 {
			from = "coalesce((" + q.search(st) + "), 0)"
		} else if req.Start.Kind == backend.AfterVersion {
			from = "0"
		} else {
			from = st.arg(after) + "::bigint"
		}
		most := int64(math.MaxInt64)
		if req.MaxBytes > 0 {
			most = int64(req.MaxBytes)
		}
		// What is beyond the bound in bytes is not even read.
		b.Queue(`SELECT e.seq, e.mark, e.origin, e.write_id, e.created, e.event FROM (
				SELECT e.*, sum(`+eventBytes+`) OVER (ORDER BY e.seq ROWS UNBOUNDED PRECEDING) - (`+eventBytes+`) AS before FROM (
					SELECT * FROM `+schemaName+`.events t `+whereTask(st, req.Key)+` AND t.seq > `+from+`
					ORDER BY t.seq LIMIT `+st.arg(int64(req.MaxEvents))+`
				) e
			) e WHERE e.before < `+st.arg(most)+`::bigint ORDER BY e.seq`, st.args...).Query(q.scanEvents)
	}
	b.Queue(commit)
	return conn.SendBatch(ctx, b).Close()
}

// search is a query for the last position whose event belongs to the version that the read starts after, or an earlier one.
// It walks back from the head, over events that are about to be read.
func (q *logQuery) search(s *statement) string {
	return "SELECT t.seq FROM " + schemaName + ".events t " + whereTask(s, q.req.Key) +
		" AND t.mark <= " + s.arg(backend.Mark(q.req.Start.N, false)) + " ORDER BY t.seq DESC LIMIT 1"
}

func (q *logQuery) scanEvents(rows pgx.Rows) error {
	for rows.Next() {
		var e backend.Event
		var mark, created int64
		err := rows.Scan(&e.Seq, &mark, (*stringColumn)(&e.Origin), (*stringColumn)(&e.WriteID), &created, &e.Bytes)
		if err != nil {
			return err
		}
		e.Version, e.Appended = mark/2, mark%2 == 1
		e.CreatedAt = time.Unix(0, created).UTC()
		q.events = append(q.events, e)
	}
	return rows.Err()
}

// Heads implements backend.Store.
func (s *Store) Heads(ctx context.Context, keys []backend.Key) ([]backend.Head, error) {
	n := len(keys)
	if n == 0 {
		return nil, nil
	}
	st := &statement{}
	query := "SELECT s.n, t.kind, t.incarnation, t.version, t.last_seq FROM " + st.source("s",
		int8s(st, "n", n, func(i int) int64 { return int64(i) }),
		texts(st, "tenant", n, func(i int) string { return keys[i].Tenant }),
		texts(st, "task_id", n, func(i int) string { return keys[i].TaskID }),
	) + " JOIN " + schemaName + ".tasks t USING (tenant, task_id)"
	heads := make([]backend.Head, n)
	err := s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, query, st.args...)
		if err != nil {
			return err
		}
		clear(heads)
		var i int64
		var row backend.Row
		_, err = pgx.ForEachRow(rows,
			[]any{&i, (*kindColumn)(&row.Kind), &row.Incarnation, &row.Version, &row.LastSeq},
			func() error {
				heads[i] = row.Head()
				return nil
			})
		return err
	})
	if err != nil {
		return nil, err
	}
	return heads, nil
}
