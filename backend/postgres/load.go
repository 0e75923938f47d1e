package postgres

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// logFacts are what a log holds of an append that is asked for again. It is what the plan of the append sees.
type logFacts struct {
	first, last, mark *int64
	atMark            *int64
	at                []byte
}

var _ backend.Log = (*logFacts)(nil)

// ByWriteID returns the events of the append that was asked for; of the latest, if what is left of an earlier one, whose first
// events are gone, has the same write_id.
func (l *logFacts) ByWriteID(string) (first, last, version int64, ok bool, err error) {
	if l.first == nil {
		return 0, 0, 0, false, nil
	}
	return *l.first, *l.last, *l.mark / 2, true, nil
}

// At returns the event at the position that was asked for.
func (l *logFacts) At(seq int64) (backend.Event, bool, error) {
	if l.atMark == nil {
		return backend.Event{}, false, nil
	}
	return backend.Event{Seq: seq, Version: *l.atMark / 2, Appended: *l.atMark%2 == 1, Bytes: l.at}, true, nil
}

// load reads what the ops' plans ask for, in one round trip, and sets their facts. What one op asks for of its row is of one
// instant.
func load(ctx context.Context, conn *pgx.Conn, ops []*op, clock *clock) error {
	var rows, logs, docs, claims []*op
	l := &loader{batch: &pgx.Batch{}, clock: clock}
	// Where an op needs more than one query, they must see the same: one that saw an older row would have the write decide
	// on pieces that the row's stamp says nothing of.
	several := slices.ContainsFunc(ops, func(o *op) bool { a := o.plan.asks(); return a.body || a.oldest > 0 })
	if several {
		l.batch.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	for _, o := range ops {
		o.in = &facts{now: clock.now(), retried: o.tried != 0}
		a := o.plan.asks()
		switch {
		case a.row:
			rows = append(rows, o)
		case a.log != nil:
			logs = append(logs, o)
		case a.doc != nil:
			docs = append(docs, o)
		}
		if a.body {
			l.body(o)
		}
		if a.oldest > 0 {
			l.oldest(o, a.key, a.oldest)
		}
		if a.claim != nil {
			claims = append(claims, o)
		}
	}
	l.rows(rows)
	l.logs(logs)
	l.docs(docs)
	l.claims(claims)
	if several {
		l.batch.Queue("COMMIT")
	}
	l.sent = time.Now()
	return conn.SendBatch(ctx, l.batch).Close()
}

type loader struct {
	batch *pgx.Batch
	clock *clock
	sent  time.Time
}

// queue adds a query whose rows start with the index of their op and the time, and has scan called for each of them.
func (l *loader) queue(s *statement, query string, ops []*op, dest func(f *facts) []any, then func(o *op)) {
	l.batch.Queue(query, s.args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			// The index comes first and says where the rest goes, so the row is scanned once the index is known.
			var i, nanos int64
			f := &facts{}
			if err := rows.Scan(append([]any{&i, &nanos}, dest(f)...)...); err != nil {
				return err
			}
			o := ops[i]
			l.merge(o, f)
			o.in.now = l.clock.sample(l.sent, nanos)
			if then != nil {
				then(o)
			}
		}
		return rows.Err()
	})
}

// merge adds what a query found to the facts of an op, which several queries may contribute to.
func (l *loader) merge(o *op, f *facts) {
	if f.rec.stamp != 0 {
		o.in.rec, o.in.log, o.in.stored = f.rec, f.log, f.stored
	}
	if f.claim != nil {
		o.in.claim, o.in.claimStamp = f.claim, f.claimStamp
	}
}

// opKeys are the columns that say which op a row is for, and its key.
func opKeys(s *statement, ops []*op) []column {
	n := len(ops)
	keys := make([]backend.Key, n)
	for i, o := range ops {
		keys[i] = o.plan.asks().key
	}
	return []column{
		int8s(s, "n", n, func(i int) int64 { return int64(i) }),
		texts(s, "tenant", n, func(i int) string { return keys[i].Tenant }),
		texts(s, "task_id", n, func(i int) string { return keys[i].TaskID }),
	}
}

func (l *loader) rows(ops []*op) {
	if len(ops) == 0 {
		return
	}
	s := &statement{}
	query := "SELECT s.n, " + databaseNow + ", " + recordColumns + " FROM " + s.source("s", opKeys(s, ops)...) +
		" JOIN " + schemaName + ".tasks t USING (tenant, task_id)"
	l.queue(s, query, ops, func(f *facts) []any { return f.rec.dest() }, nil)
}

func (l *loader) logs(ops []*op) {
	if len(ops) == 0 {
		return
	}
	s := &statement{}
	n := len(ops)
	at := func(i int) *backend.AppendRequest { return ops[i].plan.asks().log }
	cols := append(opKeys(s, ops),
		texts(s, "write_id", n, func(i int) string { return at(i).WriteID }),
		int8s(s, "seq", n, func(i int) int64 { return at(i).Seq }),
	)
	query := "SELECT s.n, " + databaseNow + ", " + recordColumns + `, w.first, w.last, w.mark, e.mark, e.event
		FROM ` + s.source("s", cols...) + `
		JOIN ` + schemaName + `.tasks t USING (tenant, task_id)
		LEFT JOIN LATERAL (
			SELECT max(e.seq - e.write_idx) AS first, max(e.seq) AS last, max(e.mark) AS mark FROM ` + schemaName + `.events e
			WHERE e.row_id = t.row_id AND e.write_id = s.write_id AND e.write_id <> ''
		) w ON true
		LEFT JOIN ` + schemaName + `.events e ON e.row_id = t.row_id AND e.seq = s.seq`
	l.queue(s, query, ops, func(f *facts) []any {
		return append(f.rec.dest(), &f.log.first, &f.log.last, &f.log.mark, &f.log.atMark, &f.log.at)
	}, nil)
}

func (l *loader) docs(ops []*op) {
	if len(ops) == 0 {
		return
	}
	s := &statement{}
	n := len(ops)
	asks := make([]*docAsk, n)
	for i, o := range ops {
		asks[i] = o.plan.asks().doc
	}
	cols := append(opKeys(s, ops),
		bools(s, "head", n, func(i int) bool { return asks[i].head }),
		byteas(s, "digest", n, func(i int) []byte {
			if !asks[i].artifact {
				return nil
			}
			return digest(asks[i].artifactID)
		}),
		int8s(s, "keep", n, func(i int) int64 { return int64(asks[i].keep) }),
		int8s(s, "added", n, func(i int) int64 { return int64(asks[i].added) }),
	)
	query := "SELECT s.n, " + databaseNow + ", " + recordColumns + `,
			CASE WHEN s.head THEN t.head END,
			CASE WHEN s.digest IS NOT NULL AND NOT t.artifact_rows THEN t.artifacts END,
			coalesce(a.holds, 0), coalesce(a.pos, 0), coalesce(a.field_bytes, 0), coalesce(a.part_count, 0), coalesce(a.part_bytes, 0),
			CASE WHEN s.keep >= 0 AND t.message_count + s.added > s.keep THEN t.history END,
			m.versions, m.idxs, m.sizes
		FROM ` + s.source("s", cols...) + `
		JOIN ` + schemaName + `.tasks t USING (tenant, task_id)
		LEFT JOIN LATERAL (
			SELECT count(*) OVER () AS holds, a.pos, octet_length(a.fields) AS field_bytes,
				coalesce(p.part_total, a.part_count) AS part_count, coalesce(p.byte_total, octet_length(a.parts)) AS part_bytes
			FROM ` + schemaName + `.artifacts a
			LEFT JOIN LATERAL (
				SELECT p.part_total, p.byte_total FROM ` + schemaName + `.artifact_parts p
				WHERE p.row_id = a.row_id AND p.pos = a.pos ORDER BY p.version DESC LIMIT 1
			) p ON true
			WHERE t.artifact_rows AND a.row_id = t.row_id AND a.digest = s.digest
			ORDER BY a.pos LIMIT 1
		) a ON true
		LEFT JOIN LATERAL (
			SELECT array_agg(m.version) AS versions, array_agg(m.idx) AS idxs, array_agg(octet_length(m.entry)) AS sizes FROM (
				SELECT m.version, m.idx, m.entry FROM ` + schemaName + `.messages m
				WHERE s.keep >= 0 AND t.message_rows AND m.row_id = t.row_id
				ORDER BY m.version, m.idx LIMIT CASE WHEN t.message_count + s.added > s.keep
					THEN t.message_count + s.added - s.keep + ` + strconv.Itoa(nextOldest) + ` ELSE 0 END
			) m
		) m ON true`
	found := map[*stored]*docRow{}
	l.queue(s, query, ops, func(f *facts) []any {
		st, row := &stored{}, &docRow{}
		found[st] = row
		f.stored = st
		return append(f.rec.dest(), &st.head, &row.artifacts,
			&st.artifact.Holds, &st.artifact.Index, &st.artifact.FieldBytes, &st.artifact.Parts, &st.artifact.PartBytes,
			&row.history, &row.versions, &row.idxs, &row.sizes)
	}, func(o *op) {
		o.in.stored.finish(o.plan.asks().doc, &o.in.rec, found[o.in.stored])
	})
}

// nextOldest is how many messages more are read than go, to be remembered: in a history that is full, each append trims.
const nextOldest = 32

// docRow holds the columns of a document that need to be taken apart.
type docRow struct {
	artifacts, history    []byte
	versions, idxs, sizes []int64
}

func (s *stored) finish(a *docAsk, rec *record, row *docRow) {
	s.artifactID, s.artifactBytes = a.artifactID, rec.artifactBytes
	if a.artifact && !rec.artifactRows {
		s.take(row.artifacts)
	}
	if len(row.history) > 0 {
		s.history = document.List{Bytes: row.history, Count: document.CountEntries(row.history)}
	}
	for i := range row.versions {
		s.oldest = append(s.oldest, oldMessage{row.versions[i], row.idxs[i], row.sizes[i]})
	}
}

func (l *loader) claims(ops []*op) {
	if len(ops) == 0 {
		return
	}
	s := &statement{}
	n := len(ops)
	at := func(i int) *claimChange { return &claimChange{key: *ops[i].plan.asks().claim} }
	cols := append(claimKeySource(s, n, at), int8s(s, "n", n, func(i int) int64 { return int64(i) }))
	query := "SELECT s.n, " + databaseNow + `, coalesce(c.stamp, 0), coalesce(c.message_id, ''), coalesce(c.task_id, ''),
			coalesce(c.token, ''), coalesce(c.bound, false), coalesce(c.expires, 0), coalesce(c.ttl, 0)
		FROM ` + s.source("s", cols...) + ` LEFT JOIN ` + schemaName + `.claims c USING (tenant, owned, owner, key)`
	l.queue(s, query, ops, func(f *facts) []any {
		c := &backend.Claim{}
		f.claim = c
		return []any{&f.claimStamp, (*stringColumn)(&c.MessageID), (*stringColumn)(&c.TaskID), (*stringColumn)(&c.Token),
			&c.Bound, &c.Expires, &c.TTL}
	}, func(o *op) {
		if o.in.claimStamp == 0 {
			o.in.claim = nil
		}
	})
}

// oldest reads the oldest events of a log. Their bytes are zeros: only their size counts.
func (l *loader) oldest(o *op, key backend.Key, n int) {
	s := &statement{}
	query := "SELECT t.seq, t.mark, t.origin, octet_length(t.event) FROM " + schemaName + ".events t " + whereTask(s, key) +
		" ORDER BY t.seq LIMIT " + s.arg(int64(n))
	l.batch.Queue(query, s.args...).Query(func(rows pgx.Rows) error {
		var zeros []byte
		for rows.Next() {
			var e backend.Event
			var mark int64
			var size int
			if err := rows.Scan(&e.Seq, &mark, (*stringColumn)(&e.Origin), &size); err != nil {
				return err
			}
			if size > len(zeros) {
				zeros = make([]byte, size)
			}
			e.Version, e.Appended, e.Bytes = mark/2, mark%2 == 1, zeros[:size]
			o.in.oldest = append(o.in.oldest, e)
		}
		return rows.Err()
	})
}
