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
	query, args := compile(changes, claims)
	rows, err := conn.Query(ctx, query, args...)
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

// compile returns the statement for the changes.
func compile(changes []*change, claims []*claimChange) (query string, args []any) {
	s, results := assemble(changes, claims)
	return s.sql(results...), s.args
}

// assemble puts the statement together. Its parts run on one snapshot and touch different rows, so their order does not
// matter; the rows of tasks are asked for in the order of their keys, so that statements seldom wait for each other in a
// circle (when they do, one is repeated).
func assemble(changes []*change, claims []*claimChange) (s *statement, results []string) {
	s = &statement{arrays: len(changes)+len(claims) > 1, ctes: make([]cte, 0, 8), args: make([]any, 0, 64)}
	if len(changes) > 0 {
		slices.SortFunc(changes, func(a, b *change) int { return compareKeys(a.key, b.key) })
		compileRows(s, changes)
		compileEvents(s, changes)
		compileArtifacts(s, changes)
		compileMessages(s, changes)
		results = append(results, "won")
	}
	return s, append(results, compileClaims(s, claims)...)
}

func compareKeys(a, b backend.Key) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.TaskID, b.TaskID))
}

// compileRows makes "won": the changes whose row, and whose claim, was as they had seen it.
func compileRows(s *statement, changes []*change) {
	var inserts, updates, claimed []*change
	for _, c := range changes {
		if c.was.stamp == 0 {
			inserts = append(inserts, c)
		} else {
			updates = append(updates, c)
		}
		if c.claim != nil {
			claimed = append(claimed, c)
		}
	}
	ifHeld := compileHeld(s, claimed)
	if s.arrays {
		won := compileInserts(s, "ins", inserts, ifHeld)
		won = append(won, compileUpdates(s, "upd", updates, ifHeld)...)
		s.with("won", nil, func(string) string { return "MATERIALIZED (" + strings.Join(won, " UNION ALL ") + ")" })
	} else {
		compileInserts(s, "won", inserts, ifHeld)
		compileUpdates(s, "won", updates, ifHeld)
	}
	compileBound(s, claimed)
}

// compileInserts makes an expression of the row ids and stamps of the new rows, and returns the query for it, if there are any.
func compileInserts(s *statement, name string, inserts []*change, ifHeld string) []string {
	n := len(inserts)
	if n == 0 {
		return nil
	}
	next := func(i int) *record { return &inserts[i].next }
	cols := slices.Concat(keySource(s, n, func(i int) *change { return inserts[i] }),
		movingColumns(s, n, next), settledColumns(s, n, next), []column{
			byteas(s, "head", n, func(i int) []byte { return notNil(inserts[i].head) }),
			byteas(s, "artifacts", n, func(i int) []byte { return notNil(inserts[i].artifacts) }),
			byteas(s, "history", n, func(i int) []byte { return notNil(inserts[i].history) }),
		})
	stored := len(cols)
	if ifHeld != "" {
		cols = append(cols, bools(s, "claimed", n, func(i int) bool { return inserts[i].claim != nil }))
	}
	s.with(name, cols, func(source string) string {
		return "(INSERT INTO " + schemaName + ".tasks (" + names("", cols[:stored]) + ") SELECT " + names("s.", cols[:stored]) +
			" FROM " + source + " WHERE true" + ifHeld + " ON CONFLICT DO NOTHING RETURNING row_id, stamp)"
	})
	return []string{"SELECT stamp FROM " + name}
}

// longColumns are those of tasks that a change may leave as they are.
var longColumns = []struct {
	name string
	of   func(*change) []byte
}{
	{"head", func(c *change) []byte { return c.head }},
	{"artifacts", func(c *change) []byte { return c.artifacts }},
	{"history", func(c *change) []byte { return c.history }},
}

// compileUpdates makes an expression of the row ids and stamps of the rows that were changed, and returns the query for it, if
// there are any.
func compileUpdates(s *statement, name string, updates []*change, ifHeld string) []string {
	n := len(updates)
	if n == 0 {
		return nil
	}
	next := func(i int) *record { return &updates[i].next }
	cols := movingColumns(s, n, next)
	if c := updates[0]; s.arrays || c.was.settled() != c.next.settled() {
		cols = append(cols, settledColumns(s, n, next)...)
	}
	short := len(cols)
	for _, long := range longColumns {
		if s.arrays || long.of(updates[0]) != nil {
			cols = append(cols, byteas(s, long.name, n, func(i int) []byte { return long.of(updates[i]) }))
		}
	}
	stored := len(cols)
	cols = append(append(cols, keySource(s, n, func(i int) *change { return updates[i] })...),
		int8s(s, "prev", n, func(i int) int64 { return updates[i].was.stamp }))
	if ifHeld != "" {
		cols = append(cols, bools(s, "claimed", n, func(i int) bool { return updates[i].claim != nil }))
	}
	ifAbsent := ""
	if slices.ContainsFunc(updates, func(c *change) bool { return c.absentWrite != "" }) {
		cols = append(cols, texts(s, "absent_write", n, func(i int) string { return updates[i].absentWrite }))
		// Not as NOT EXISTS, of which the planner may make a hash table of the whole index.
		ifAbsent = ` AND (s.absent_write = '' OR (SELECT e.seq FROM ` + schemaName + `.events e
			WHERE e.row_id = t.row_id AND e.write_id = s.absent_write AND e.write_id <> '' LIMIT 1) IS NULL)`
	}
	s.with(name, cols, func(source string) string {
		var set []string
		for _, c := range cols[:short] {
			set = append(set, c.name+" = s."+c.name)
		}
		for _, c := range cols[short:stored] {
			set = append(set, c.name+" = coalesce(s."+c.name+", t."+c.name+")")
		}
		return "(UPDATE " + schemaName + ".tasks t SET " + strings.Join(set, ", ") + " FROM " + source +
			" WHERE t.tenant = s.tenant AND t.task_id = s.task_id AND t.stamp = s.prev" + ifHeld + ifAbsent +
			" RETURNING t.row_id, t.stamp)"
	})
	return []string{"SELECT stamp FROM " + name}
}

// compileHeld makes "held", the stamps of the changes whose claims are as they had seen them, and locks the claims until
// "bound" has changed them. It returns the condition for the rows s.
func compileHeld(s *statement, claimed []*change) (ifHeld string) {
	n := len(claimed)
	if n == 0 {
		return ""
	}
	at := func(i int) *claimChange { return claimed[i].claim }
	cols := append(claimKeySource(s, n, at),
		int8s(s, "stamp", n, func(i int) int64 { return claimed[i].next.stamp }),
		int8s(s, "prev", n, func(i int) int64 { return at(i).prev }),
	)
	s.with("held", cols, func(source string) string {
		return "MATERIALIZED (SELECT s.stamp FROM " + source + " JOIN " + schemaName +
			".claims c USING (tenant, owned, owner, key) WHERE c.stamp = s.prev FOR UPDATE OF c)"
	})
	return " AND (NOT s.claimed OR s.stamp IN (SELECT stamp FROM held))"
}

func compileBound(s *statement, claimed []*change) {
	n := len(claimed)
	if n == 0 {
		return
	}
	cols := append(claimSource(s, n, func(i int) *claimChange { return claimed[i].claim }),
		int8s(s, "change", n, func(i int) int64 { return claimed[i].next.stamp }))
	s.with("bound", cols, func(source string) string {
		return "(UPDATE " + schemaName + ".claims c SET " + setClaim + " FROM " + source + " WHERE " + sameClaim + " AND " + changeWon + ")"
	})
}

// changeWon is the condition that the change of a row s was carried out. As it stands, the planner cannot make a join of it,
// only a hash table: it would expect few rows, and compare each with each.
const changeWon = "(s.change IN (SELECT stamp FROM won)) IS TRUE"

// keySource names the changes' rows.
func keySource(s *statement, n int, at func(i int) *change) []column {
	return []column{
		texts(s, "tenant", n, func(i int) string { return at(i).key.Tenant }),
		texts(s, "task_id", n, func(i int) string { return at(i).key.TaskID }),
	}
}
