package postgres

import "github.com/a2a-taskstore/taskstore/backend"

// What hangs on the rows of tasks is written in the same statement, on the condition that the change of the row was carried
// out.

// pair is something that a change carries.
type pair[T any] struct {
	c   *change
	row T
}

// pairs lists what the changes carry.
func pairs[T any](changes []*change, of func(*change) []T) []pair[T] {
	var out []pair[T]
	for _, c := range changes {
		for _, row := range of(c) {
			out = append(out, pair[T]{c, row})
		}
	}
	return out
}

// some lists the changes that carry something that there is one of at most.
func some[T any](changes []*change, of func(*change) *T) []pair[*T] {
	return pairs(changes, func(c *change) []*T {
		if row := of(c); row != nil {
			return []*T{row}
		}
		return nil
	})
}

// flagged lists the changes that a flag is set for.
func flagged(changes []*change, flag func(*change) bool) []pair[bool] {
	return pairs(changes, func(c *change) []bool {
		if flag(c) {
			return []bool{true}
		}
		return nil
	})
}

// owners are the columns that tie rows to their changes.
func owners[T any](rows []pair[T]) []column {
	n := len(rows)
	return append(keySource(n, func(i int) *change { return rows[i].c }),
		int8s("change", n, func(i int) int64 { return rows[i].c.next.stamp }))
}

// hang adds the insertion of rows with the columns.
func hang[T any](s *statement, name, table string, rows []pair[T], cols ...column) {
	s.cte(name, " AS (INSERT INTO "+schemaName+"."+table+" (tenant, task_id, "+names("", cols)+
		") SELECT s.tenant, s.task_id, "+names("s.", cols)+" FROM ", s.source("s", len(rows), append(owners(rows), cols...)...),
		" WHERE true"+ifWon("s.change")+")")
}

// sameTask ties the rows t of a table to the rows s of a source.
const sameTask = " WHERE t.tenant = s.tenant AND t.task_id = s.task_id"

// set adds a change of rows: assignments and condition are about t, the table, and s, the columns.
func set[T any](s *statement, name, table, assignments, condition string, rows []pair[T], cols ...column) {
	s.cte(name, " AS (UPDATE "+schemaName+"."+table+" t SET "+assignments+" FROM ",
		s.source("s", len(rows), append(owners(rows), cols...)...), sameTask+condition+ifWon("s.change")+")")
}

// drop adds the removal of rows, by a condition as for set.
func drop[T any](s *statement, name, table, condition string, rows []pair[T], cols ...column) {
	s.cte(name, " AS (DELETE FROM "+schemaName+"."+table+" t USING ",
		s.source("s", len(rows), append(owners(rows), cols...)...), sameTask+condition+ifWon("s.change")+")")
}

func compileEvents(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []backend.Event { return c.events }); len(rows) > 0 {
		n := len(rows)
		at := func(i int) *backend.Event { return &rows[i].row }
		hang(s, "event_ins", "events", rows,
			int8s("seq", n, func(i int) int64 { return at(i).Seq }),
			int8s("mark", n, func(i int) int64 { return at(i).Mark() }),
			texts("origin", n, func(i int) string { return at(i).Origin }),
			texts("write_id", n, func(i int) string { return at(i).WriteID }),
			int8s("write_idx", n, func(i int) int64 { return at(i).Seq - rows[i].c.events[0].Seq }),
			int8s("created", n, func(i int) int64 { return at(i).CreatedAt.UnixNano() }),
			byteas("event", n, func(i int) []byte { return notNil(at(i).Bytes) }),
		)
	}
	if rows := flagged(changes, func(c *change) bool { return c.dropEvents > 0 }); len(rows) > 0 {
		drop(s, "event_del", "events", " AND t.seq < s.below", rows,
			int8s("below", len(rows), func(i int) int64 { return rows[i].c.dropEvents }))
	}
}

func compileArtifacts(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []artifactRow { return c.newArtifacts }); len(rows) > 0 {
		hang(s, "artifact_ins", "artifacts", rows,
			artifactSource(len(rows), func(i int) *artifactRow { return &rows[i].row })...)
	}
	if rows := some(changes, func(c *change) *partsRow { return c.newParts }); len(rows) > 0 {
		n := len(rows)
		hang(s, "parts_ins", "artifact_parts", rows,
			int8s("pos", n, func(i int) int64 { return rows[i].row.pos }),
			int8s("version", n, func(i int) int64 { return rows[i].c.next.Version }),
			byteas("parts", n, func(i int) []byte { return notNil(rows[i].row.parts) }),
			int8s("part_total", n, func(i int) int64 { return rows[i].row.partTotal }),
			int8s("byte_total", n, func(i int) int64 { return rows[i].row.byteTotal }),
		)
	}
	if rows := some(changes, func(c *change) *artifactRow { return c.setFields }); len(rows) > 0 {
		n := len(rows)
		set(s, "artifact_fields", "artifacts", "fields = s.fields", " AND t.pos = s.pos", rows,
			int8s("pos", n, func(i int) int64 { return rows[i].row.pos }),
			byteas("fields", n, func(i int) []byte { return rows[i].row.fields }))
	}
	if rows := some(changes, func(c *change) *artifactRow { return c.setArtifact }); len(rows) > 0 {
		n := len(rows)
		at := func(i int) *artifactRow { return rows[i].row }
		set(s, "artifact_set", "artifacts", "fields = s.fields, parts = s.parts, part_count = s.part_count", " AND t.pos = s.pos",
			rows, artifactSource(n, at)...)
		drop(s, "artifact_set_parts", "artifact_parts", " AND t.pos = s.pos", rows,
			int8s("pos", n, func(i int) int64 { return at(i).pos }))
	}
	if rows := flagged(changes, func(c *change) bool { return c.dropArtifacts }); len(rows) > 0 {
		drop(s, "artifact_del", "artifacts", "", rows)
		drop(s, "parts_del", "artifact_parts", "", rows)
	}
}

func artifactSource(n int, at func(i int) *artifactRow) []column {
	return []column{
		int8s("pos", n, func(i int) int64 { return at(i).pos }),
		byteas("digest", n, func(i int) []byte { return at(i).digest }),
		byteas("fields", n, func(i int) []byte { return at(i).fields }),
		byteas("parts", n, func(i int) []byte { return notNil(at(i).parts.Bytes) }),
		int8s("part_count", n, func(i int) int64 { return int64(at(i).parts.Count) }),
	}
}

func compileMessages(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []messageRow { return c.newMessages }); len(rows) > 0 {
		n := len(rows)
		hang(s, "message_ins", "messages", rows,
			int8s("version", n, func(i int) int64 { return rows[i].row.version }),
			int8s("idx", n, func(i int) int64 { return rows[i].row.idx }),
			byteas("entry", n, func(i int) []byte { return rows[i].row.entry }),
		)
	}
	if rows := some(changes, func(c *change) *messageRow { return c.trimMessages }); len(rows) > 0 {
		n := len(rows)
		drop(s, "message_trim", "messages", " AND (t.version, t.idx) <= (s.version, s.idx)", rows,
			int8s("version", n, func(i int) int64 { return rows[i].row.version }),
			int8s("idx", n, func(i int) int64 { return rows[i].row.idx }))
	}
	if rows := flagged(changes, func(c *change) bool { return c.dropMessages }); len(rows) > 0 {
		drop(s, "message_del", "messages", "", rows)
	}
}
