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

// tied returns the columns, and those that tie rows to their changes.
func tied[T any](s *statement, rows []pair[T], cols []column) []column {
	if !s.arrays {
		return cols // there is one change, see tie
	}
	n := len(rows)
	return append(cols,
		int8s(s, "row_id", n, func(i int) int64 { return rows[i].c.next.rowID }),
		int8s(s, "change", n, func(i int) int64 { return rows[i].c.next.stamp }))
}

// tie returns a FROM item made of the source of tied columns, the row_id of a row's change, and a condition: that the change was
// carried out.
func (s *statement) tie(source string) (from, rowID, won string) {
	switch {
	case s.arrays:
		return source, "s.row_id", changeWon
	case source == "":
		return "won w", "w.row_id", "true"
	default:
		return "won w, " + source, "w.row_id", "true"
	}
}

// hang adds the insertion of rows with the columns.
func hang[T any](s *statement, name, table string, rows []pair[T], cols ...column) {
	s.with(name, tied(s, rows, cols), func(source string) string {
		from, rowID, won := s.tie(source)
		return "(INSERT INTO " + schemaName + "." + table + " (row_id, " + names("", cols) + ") SELECT " +
			rowID + ", " + names("s.", cols) + " FROM " + from + " WHERE " + won + ")"
	})
}

// set adds a change of rows: assignments and condition are about t, the table, and s, the columns.
func set[T any](s *statement, name, table, assignments, condition string, rows []pair[T], cols ...column) {
	s.with(name, tied(s, rows, cols), func(source string) string {
		from, rowID, won := s.tie(source)
		return "(UPDATE " + schemaName + "." + table + " t SET " + assignments + " FROM " + from +
			" WHERE t.row_id = " + rowID + condition + " AND " + won + ")"
	})
}

// drop adds the removal of rows, by a condition as for set.
func drop[T any](s *statement, name, table, condition string, rows []pair[T], cols ...column) {
	s.with(name, tied(s, rows, cols), func(source string) string {
		from, rowID, won := s.tie(source)
		return "(DELETE FROM " + schemaName + "." + table + " t USING " + from +
			" WHERE t.row_id = " + rowID + condition + " AND " + won + ")"
	})
}

func compileEvents(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []backend.Event { return c.events }); len(rows) > 0 {
		n := len(rows)
		at := func(i int) *backend.Event { return &rows[i].row }
		hang(s, "event_ins", "events", rows,
			int8s(s, "seq", n, func(i int) int64 { return at(i).Seq }),
			int8s(s, "mark", n, func(i int) int64 { return at(i).Mark() }),
			texts(s, "origin", n, func(i int) string { return at(i).Origin }),
			texts(s, "write_id", n, func(i int) string { return at(i).WriteID }),
			int8s(s, "write_idx", n, func(i int) int64 { return at(i).Seq - rows[i].c.events[0].Seq }),
			int8s(s, "created", n, func(i int) int64 { return at(i).CreatedAt.UnixNano() }),
			byteas(s, "event", n, func(i int) []byte { return notNil(at(i).Bytes) }),
		)
	}
	if rows := flagged(changes, func(c *change) bool { return c.dropEvents > 0 }); len(rows) > 0 {
		drop(s, "event_del", "events", " AND t.seq < s.below", rows,
			int8s(s, "below", len(rows), func(i int) int64 { return rows[i].c.dropEvents }))
	}
}

func compileArtifacts(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []artifactRow { return c.newArtifacts }); len(rows) > 0 {
		hang(s, "artifact_ins", "artifacts", rows,
			artifactSource(s, len(rows), func(i int) *artifactRow { return &rows[i].row })...)
	}
	if rows := some(changes, func(c *change) *partsRow { return c.newParts }); len(rows) > 0 {
		n := len(rows)
		hang(s, "parts_ins", "artifact_parts", rows,
			int8s(s, "pos", n, func(i int) int64 { return rows[i].row.pos }),
			int8s(s, "version", n, func(i int) int64 { return rows[i].c.next.Version }),
			byteas(s, "parts", n, func(i int) []byte { return notNil(rows[i].row.parts) }),
			int8s(s, "part_total", n, func(i int) int64 { return rows[i].row.partTotal }),
			int8s(s, "byte_total", n, func(i int) int64 { return rows[i].row.byteTotal }),
		)
	}
	if rows := some(changes, func(c *change) *artifactRow { return c.setFields }); len(rows) > 0 {
		n := len(rows)
		set(s, "artifact_fields", "artifacts", "fields = s.fields", " AND t.pos = s.pos", rows,
			int8s(s, "pos", n, func(i int) int64 { return rows[i].row.pos }),
			byteas(s, "fields", n, func(i int) []byte { return rows[i].row.fields }))
	}
	if rows := some(changes, func(c *change) *artifactRow { return c.setArtifact }); len(rows) > 0 {
		n := len(rows)
		at := func(i int) *artifactRow { return rows[i].row }
		set(s, "artifact_set", "artifacts", "fields = s.fields, parts = s.parts, part_count = s.part_count", " AND t.pos = s.pos",
			rows, artifactSource(s, n, at)...)
		drop(s, "artifact_set_parts", "artifact_parts", " AND t.pos = s.pos", rows,
			int8s(s, "pos", n, func(i int) int64 { return at(i).pos }))
	}
	if rows := flagged(changes, func(c *change) bool { return c.dropArtifacts }); len(rows) > 0 {
		drop(s, "artifact_del", "artifacts", "", rows)
		drop(s, "parts_del", "artifact_parts", "", rows)
	}
}

func artifactSource(s *statement, n int, at func(i int) *artifactRow) []column {
	return []column{
		int8s(s, "pos", n, func(i int) int64 { return at(i).pos }),
		byteas(s, "digest", n, func(i int) []byte { return at(i).digest }),
		byteas(s, "fields", n, func(i int) []byte { return at(i).fields }),
		byteas(s, "parts", n, func(i int) []byte { return notNil(at(i).parts.Bytes) }),
		int8s(s, "part_count", n, func(i int) int64 { return int64(at(i).parts.Count) }),
	}
}

func compileMessages(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []messageRow { return c.newMessages }); len(rows) > 0 {
		n := len(rows)
		hang(s, "message_ins", "messages", rows,
			int8s(s, "version", n, func(i int) int64 { return rows[i].row.version }),
			int8s(s, "idx", n, func(i int) int64 { return rows[i].row.idx }),
			byteas(s, "entry", n, func(i int) []byte { return rows[i].row.entry }),
		)
	}
	if rows := flagged(changes, func(c *change) bool { return len(c.trimMessages) > 0 }); len(rows) > 0 {
		n := len(rows)
		first := func(i int) oldMessage { return rows[i].c.trimMessages[0] }
		last := func(i int) oldMessage { m := rows[i].c.trimMessages; return m[len(m)-1] }
		// From the first one on: in front of it are what earlier trims have left in the index.
		drop(s, "message_trim", "messages",
			" AND (t.version, t.idx) >= (s.first_version, s.first_idx) AND (t.version, t.idx) <= (s.version, s.idx)", rows,
			int8s(s, "first_version", n, func(i int) int64 { return first(i).version }),
			int8s(s, "first_idx", n, func(i int) int64 { return first(i).idx }),
			int8s(s, "version", n, func(i int) int64 { return last(i).version }),
			int8s(s, "idx", n, func(i int) int64 { return last(i).idx }))
	}
	if rows := flagged(changes, func(c *change) bool { return c.dropMessages }); len(rows) > 0 {
		drop(s, "message_del", "messages", "", rows)
	}
}
