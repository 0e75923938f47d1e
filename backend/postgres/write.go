package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
)

// write carries out the changes, each if its condition holds and without regard to the others, in one statement: one
// round trip, and one commit. It returns the stamps of those that were carried out.
//
// No outcome that is to be expected raises an error. After an error nothing was written, unless the connection broke before
// the answer came.
func write(ctx context.Context, conn *pgx.Conn, changes []*change, claims []*claimChange) (map[int64]struct{}, error) {
	s := &statement{arrays: len(changes)+len(claims) > 1}
	compile(s, changes, claims)
	rows, err := conn.Query(ctx, s.with.String(), s.args...)
	if err != nil {
		return nil, err
	}
	won := make(map[int64]struct{}, len(changes)+len(claims))
	var stamp int64
	_, err = pgx.ForEachRow(rows, []any{&stamp}, func() error {
		won[stamp] = struct{}{}
		return nil
	})
	return won, err
}

// compile puts the statement together. Its parts run on one snapshot and touch different rows, so their order does not
// matter; the rows of tasks are asked for in the order of their keys, so that statements seldom wait for each other in a
// circle (when they do, one is repeated).
func compile(s *statement, changes []*change, claims []*claimChange) {
	var results []string
	if len(changes) > 0 {
		slices.SortFunc(changes, func(a, b *change) int { return compareKeys(a.key, b.key) })
		compileRows(s, changes)
		compileEvents(s, changes)
		compileArtifacts(s, changes)
		compileMessages(s, changes)
		results = append(results, "SELECT stamp FROM won")
	}
	results = append(results, compileClaims(s, claims)...)
	s.with.WriteString("\n" + strings.Join(results, " UNION ALL "))
}

func compareKeys(a, b backend.Key) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.TaskID, b.TaskID))
}

// compileRows makes "won": the changes whose row, and whose claim, was as they had seen it.
func compileRows(s *statement, changes []*change) {
	claimed := slices.DeleteFunc(slices.Clone(changes), func(c *change) bool { return c.claim == nil })
	ifClaim := ""
	if n := len(claimed); n > 0 {
		// The locks keep what is true of the claims true until "bound" has changed them.
		at := func(i int) *claimChange { return claimed[i].claim }
		s.cte("held", " AS MATERIALIZED (SELECT s.stamp FROM ",
			s.source("s", n, append(claimKeySource(n, at),
				int8s("stamp", n, func(i int) int64 { return claimed[i].next.stamp }),
				int8s("prev", n, func(i int) int64 { return at(i).prev }),
			)...),
			" JOIN "+schemaName+".claims c USING (tenant, owned, owner, key) WHERE c.stamp = s.prev FOR UPDATE OF c)")
		ifClaim = " AND (NOT s.claimed OR s.stamp IN (SELECT stamp FROM held))"
	}

	var inserts, updates []*change
	for _, c := range changes {
		if c.prev == 0 {
			inserts = append(inserts, c)
		} else {
			updates = append(updates, c)
		}
	}
	var won []string
	if n := len(inserts); n > 0 {
		cols := append(keySource(inserts), recordSource(n, func(i int) *record { return &inserts[i].next })...)
		cols = append(cols,
			byteas("head", n, func(i int) []byte { return notNil(inserts[i].head) }),
			byteas("artifacts", n, func(i int) []byte { return notNil(inserts[i].artifacts) }),
			byteas("history", n, func(i int) []byte { return notNil(inserts[i].history) }),
		)
		all := append(cols, bools("claimed", n, func(i int) bool { return inserts[i].claim != nil }))
		s.cte("ins", " AS (INSERT INTO "+schemaName+".tasks ("+names("", cols)+") SELECT "+names("s.", cols)+" FROM ",
			s.source("s", n, all...), " WHERE true"+ifClaim,
			" ON CONFLICT DO NOTHING RETURNING tenant, task_id, stamp)")
		won = append(won, "SELECT * FROM ins")
	}
	if n := len(updates); n > 0 {
		cols := recordSource(n, func(i int) *record { return &updates[i].next })
		set := make([]string, len(cols))
		for i, c := range cols {
			set[i] = c.name + " = s." + c.name
		}
		all := append(keySource(updates), cols...)
		for _, long := range []struct {
			name string
			of   func(*change) []byte
		}{
			{"head", func(c *change) []byte { return c.head }},
			{"artifacts", func(c *change) []byte { return c.artifacts }},
			{"history", func(c *change) []byte { return c.history }},
		} {
			if s.arrays || slices.ContainsFunc(updates, func(c *change) bool { return long.of(c) != nil }) {
				all = append(all, byteas(long.name, n, func(i int) []byte { return long.of(updates[i]) }))
				set = append(set, long.name+" = coalesce(s."+long.name+", t."+long.name+")")
			}
		}
		all = append(all,
			int8s("prev", n, func(i int) int64 { return updates[i].prev }),
			bools("claimed", n, func(i int) bool { return updates[i].claim != nil }),
		)
		ifAbsent := ""
		if slices.ContainsFunc(updates, func(c *change) bool { return c.absentWrite != "" }) {
			all = append(all, texts("absent_write", n, func(i int) string { return updates[i].absentWrite }))
			ifAbsent = ` AND (s.absent_write = '' OR NOT EXISTS (SELECT FROM ` + schemaName + `.events e
				WHERE e.tenant = s.tenant AND e.task_id = s.task_id AND e.write_id = s.absent_write AND e.write_id <> ''))`
		}
		s.cte("upd", " AS (UPDATE "+schemaName+".tasks t SET "+strings.Join(set, ", ")+" FROM ", s.source("s", n, all...),
			" WHERE t.tenant = s.tenant AND t.task_id = s.task_id AND t.stamp = s.prev"+ifClaim+ifAbsent,
			" RETURNING t.tenant, t.task_id, t.stamp)")
		won = append(won, "SELECT * FROM upd")
	}
	s.cte("won", " AS MATERIALIZED ("+strings.Join(won, " UNION ALL ")+")")

	if n := len(claimed); n > 0 {
		at := func(i int) *claimChange { return claimed[i].claim }
		cols := append(claimSource(n, at), int8s("task", n, func(i int) int64 { return claimed[i].next.stamp }))
		s.cte("bound", " AS (UPDATE "+schemaName+".claims c SET "+setClaim+" FROM ", s.source("s", n, cols...),
			" JOIN won w ON w.stamp = s.task WHERE "+sameClaim+")")
	}
}

// keySource names the changes' rows.
func keySource(changes []*change) []column {
	n := len(changes)
	return []column{
		texts("tenant", n, func(i int) string { return changes[i].key.Tenant }),
		texts("task_id", n, func(i int) string { return changes[i].key.TaskID }),
	}
}

// hang adds rows that hang on a change: name is that of the expression, cols the columns, of which the first one must be
// the stamp of the change, by which the row gets its key.
func hang(s *statement, name, table string, n int, cols ...column) {
	if n == 0 {
		return
	}
	s.cte(name, " AS (INSERT INTO "+schemaName+"."+table+" (tenant, task_id, "+names("", cols[1:])+
		") SELECT w.tenant, w.task_id, "+names("s.", cols[1:])+" FROM ", s.source("s", n, cols...),
		" JOIN won w USING (stamp))")
}

// drop adds the removal of rows that hang on a change. condition is about t, the table, and s, the columns, of which one
// must be the stamp.
func drop(s *statement, name, table, condition string, n int, cols ...column) {
	if n == 0 {
		return
	}
	s.cte(name, " AS (DELETE FROM "+schemaName+"."+table+" t USING ", s.source("s", n, cols...),
		" JOIN won w USING (stamp) WHERE t.tenant = w.tenant AND t.task_id = w.task_id"+condition+")")
}

// some returns the changes for which the predicate holds, and the column of their stamps.
func some(changes []*change, ok func(*change) bool) ([]*change, column) {
	out := slices.DeleteFunc(slices.Clone(changes), func(c *change) bool { return !ok(c) })
	if len(out) == 0 {
		return nil, column{}
	}
	return out, int8s("stamp", len(out), func(i int) int64 { return out[i].next.stamp })
}

// pair is a row that hangs on a change.
type pair[T any] struct {
	c   *change
	row T
}

func pairs[T any](changes []*change, of func(*change) []T) []pair[T] {
	var out []pair[T]
	for _, c := range changes {
		for _, row := range of(c) {
			out = append(out, pair[T]{c, row})
		}
	}
	return out
}

func stamps[T any](rows []pair[T]) column {
	return int8s("stamp", len(rows), func(i int) int64 { return rows[i].c.next.stamp })
}

func compileEvents(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []backend.Event { return c.events }); len(rows) > 0 {
		n := len(rows)
		at := func(i int) *backend.Event { return &rows[i].row }
		hang(s, "ev", "events", n, stamps(rows),
			int8s("seq", n, func(i int) int64 { return at(i).Seq }),
			int8s("mark", n, func(i int) int64 { return at(i).Mark() }),
			texts("origin", n, func(i int) string { return at(i).Origin }),
			texts("write_id", n, func(i int) string { return at(i).WriteID }),
			int8s("write_idx", n, func(i int) int64 { return at(i).Seq - rows[i].c.events[0].Seq }),
			int8s("created", n, func(i int) int64 { return at(i).CreatedAt.UnixNano() }),
			byteas("event", n, func(i int) []byte { return notNil(at(i).Bytes) }),
		)
	}
	cut, stamp := some(changes, func(c *change) bool { return c.dropEvents > 0 })
	if n := len(cut); n > 0 {
		drop(s, "evd", "events", " AND t.seq < s.below", n, stamp,
			int8s("below", n, func(i int) int64 { return cut[i].dropEvents }))
	}
}

func compileArtifacts(s *statement, changes []*change) {
	if rows := pairs(changes, func(c *change) []artifactRow { return c.newArtifacts }); len(rows) > 0 {
		n := len(rows)
		at := func(i int) *artifactRow { return &rows[i].row }
		hang(s, "art", "artifacts", n, append([]column{stamps(rows)}, artifactSource(n, at)...)...)
	}
	if rows := pairs(changes, func(c *change) []partsRow { return list(c.newParts) }); len(rows) > 0 {
		n := len(rows)
		at := func(i int) *partsRow { return &rows[i].row }
		hang(s, "prt", "artifact_parts", n, stamps(rows),
			int8s("pos", n, func(i int) int64 { return at(i).pos }),
			int8s("version", n, func(i int) int64 { return rows[i].c.next.Version }),
			byteas("parts", n, func(i int) []byte { return notNil(at(i).parts) }),
			int8s("part_total", n, func(i int) int64 { return at(i).partTotal }),
			int8s("byte_total", n, func(i int) int64 { return at(i).byteTotal }),
		)
	}
	fields, stamp := some(changes, func(c *change) bool { return c.setArtifact != nil && c.setFields })
	if n := len(fields); n > 0 {
		at := func(i int) *artifactRow { return fields[i].setArtifact }
		s.cte("arf", " AS (UPDATE "+schemaName+".artifacts t SET fields = s.fields FROM ", s.source("s", n, stamp,
			int8s("pos", n, func(i int) int64 { return at(i).pos }),
			byteas("fields", n, func(i int) []byte { return at(i).fields }),
		), " JOIN won w USING (stamp) WHERE t.tenant = w.tenant AND t.task_id = w.task_id AND t.pos = s.pos)")
	}
	put, stamp := some(changes, func(c *change) bool { return c.setArtifact != nil && !c.setFields })
	if n := len(put); n > 0 {
		at := func(i int) *artifactRow { return put[i].setArtifact }
		s.cte("arp", " AS (UPDATE "+schemaName+".artifacts t SET fields = s.fields, parts = s.parts, part_count = s.part_count FROM ",
			s.source("s", n, append([]column{stamp}, artifactSource(n, at)...)...),
			" JOIN won w USING (stamp) WHERE t.tenant = w.tenant AND t.task_id = w.task_id AND t.pos = s.pos)")
		drop(s, "prd", "artifact_parts", " AND t.pos = s.pos", n, stamp,
			int8s("pos", n, func(i int) int64 { return at(i).pos }))
	}
	gone, stamp := some(changes, func(c *change) bool { return c.dropArtifacts })
	drop(s, "ard", "artifacts", "", len(gone), stamp)
	drop(s, "prx", "artifact_parts", "", len(gone), stamp)
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
		at := func(i int) *messageRow { return &rows[i].row }
		hang(s, "msg", "messages", n, stamps(rows),
			int8s("version", n, func(i int) int64 { return at(i).version }),
			int8s("idx", n, func(i int) int64 { return at(i).idx }),
			byteas("entry", n, func(i int) []byte { return at(i).entry }),
		)
	}
	trim, stamp := some(changes, func(c *change) bool { return c.trimMessages != nil })
	if n := len(trim); n > 0 {
		drop(s, "mst", "messages", " AND (t.version, t.idx) <= (s.version, s.idx)", n, stamp,
			int8s("version", n, func(i int) int64 { return trim[i].trimMessages.version }),
			int8s("idx", n, func(i int) int64 { return trim[i].trimMessages.idx }))
	}
	gone, stamp := some(changes, func(c *change) bool { return c.dropMessages })
	drop(s, "msd", "messages", "", len(gone), stamp)
}

// list returns a list of what there is.
func list[T any](v *T) []T {
	if v == nil {
		return nil
	}
	return []T{*v}
}

// The parts of statements about claims: c is the table, s the source.
const (
	sameClaim = `c.tenant = s.tenant AND c.owned = s.owned AND c.owner = s.owner AND c.key = s.key AND c.stamp = s.prev`
	setClaim  = `stamp = s.stamp, message_id = s.message_id, task_id = s.task_id, token = s.token, bound = s.bound,
	expires = s.expires, ttl = s.ttl`
)

func claimKeySource(n int, at func(i int) *claimChange) []column {
	return []column{
		texts("tenant", n, func(i int) string { return at(i).key.Tenant }),
		bools("owned", n, func(i int) bool { return at(i).key.Owner.Set }),
		texts("owner", n, func(i int) string { return at(i).key.Owner.Name }),
		texts("key", n, func(i int) string { return at(i).key.Key }),
	}
}

// claimSource is the claims' columns, the last of which is the condition.
func claimSource(n int, at func(i int) *claimChange) []column {
	return append(claimKeySource(n, at),
		int8s("stamp", n, func(i int) int64 { return at(i).stamp }),
		texts("message_id", n, func(i int) string { return at(i).next.MessageID }),
		texts("task_id", n, func(i int) string { return at(i).next.TaskID }),
		texts("token", n, func(i int) string { return at(i).next.Token }),
		bools("bound", n, func(i int) bool { return at(i).next.Bound }),
		int8s("expires", n, func(i int) int64 { return at(i).next.Expires }),
		int8s("ttl", n, func(i int) int64 { return int64(at(i).next.TTL) }),
		int8s("prev", n, func(i int) int64 { return at(i).prev }),
	)
}

// compileClaims adds changes of claims that hang on no task, and returns the queries for the stamps of those that were
// carried out.
func compileClaims(s *statement, claims []*claimChange) (results []string) {
	var inserts, updates []*claimChange
	for _, c := range claims {
		if c.prev == 0 {
			inserts = append(inserts, c)
		} else {
			updates = append(updates, c)
		}
	}
	if n := len(inserts); n > 0 {
		cols := claimSource(n, func(i int) *claimChange { return inserts[i] })
		stored := cols[:len(cols)-1]
		s.cte("cin", " AS (INSERT INTO "+schemaName+".claims ("+names("", stored)+") SELECT "+names("s.", stored)+" FROM ",
			s.source("s", n, cols...), " ON CONFLICT DO NOTHING RETURNING stamp)")
		results = append(results, "SELECT stamp FROM cin")
	}
	if n := len(updates); n > 0 {
		s.cte("cup", " AS (UPDATE "+schemaName+".claims c SET "+setClaim+" FROM ",
			s.source("s", n, claimSource(n, func(i int) *claimChange { return updates[i] })...),
			" WHERE "+sameClaim+" RETURNING c.stamp)")
		results = append(results, "SELECT stamp FROM cup")
	}
	return results
}
