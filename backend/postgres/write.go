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
	s := &statement{arrays: len(changes)+len(claims) > 1, args: make([]any, 0, 64)}
	s.with.Grow(4 << 10)
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
	var inserts, updates, claimed []*change
	for _, c := range changes {
		if c.prev == 0 {
			inserts = append(inserts, c)
		} else {
			updates = append(updates, c)
		}
		if c.claim != nil {
			claimed = append(claimed, c)
		}
	}
	ifHeld := compileHeld(s, claimed)
	var won []string
	if len(inserts) > 0 {
		compileInserts(s, inserts, ifHeld)
		won = append(won, "SELECT stamp FROM ins")
	}
	if len(updates) > 0 {
		compileUpdates(s, updates, ifHeld)
		won = append(won, "SELECT stamp FROM upd")
	}
	s.cte("won", " AS MATERIALIZED ("+strings.Join(won, " UNION ALL ")+")")
	compileBound(s, claimed)
}

// compileInserts makes "ins", the stamps of the new rows.
func compileInserts(s *statement, inserts []*change, ifHeld string) {
	n := len(inserts)
	cols := append(keySource(n, func(i int) *change { return inserts[i] }),
		recordSource(n, func(i int) *record { return &inserts[i].next })...)
	cols = append(cols,
		byteas("head", n, func(i int) []byte { return notNil(inserts[i].head) }),
		byteas("artifacts", n, func(i int) []byte { return notNil(inserts[i].artifacts) }),
		byteas("history", n, func(i int) []byte { return notNil(inserts[i].history) }),
	)
	all := append(slices.Clip(cols), bools("claimed", n, func(i int) bool { return inserts[i].claim != nil }))
	s.cte("ins", " AS (INSERT INTO "+schemaName+".tasks ("+names("", cols)+") SELECT "+names("s.", cols)+" FROM ",
		s.source("s", n, all...), " WHERE true"+ifHeld, " ON CONFLICT DO NOTHING RETURNING stamp)")
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

// compileUpdates makes "upd", the stamps of the rows that were changed.
func compileUpdates(s *statement, updates []*change, ifHeld string) {
	n := len(updates)
	cols := recordSource(n, func(i int) *record { return &updates[i].next })
	var set strings.Builder
	set.Grow(1 << 10)
	for i, c := range cols {
		if i > 0 {
			set.WriteString(", ")
		}
		set.WriteString(c.name)
		set.WriteString(" = s.")
		set.WriteString(c.name)
	}
	all := append(keySource(n, func(i int) *change { return updates[i] }), cols...)
	for _, long := range longColumns {
		if s.arrays || long.of(updates[0]) != nil {
			all = append(all, byteas(long.name, n, func(i int) []byte { return long.of(updates[i]) }))
			set.WriteString(", " + long.name + " = coalesce(s." + long.name + ", t." + long.name + ")")
		}
	}
	all = append(all,
		int8s("prev", n, func(i int) int64 { return updates[i].prev }),
		bools("claimed", n, func(i int) bool { return updates[i].claim != nil }),
	)
	ifAbsent := ""
	if slices.ContainsFunc(updates, func(c *change) bool { return c.absentWrite != "" }) {
		all = append(all, texts("absent_write", n, func(i int) string { return updates[i].absentWrite }))
		// Not as NOT EXISTS, of which the planner may make a hash table of the whole index.
		ifAbsent = ` AND (s.absent_write = '' OR (SELECT e.seq FROM ` + schemaName + `.events e
			WHERE e.tenant = s.tenant AND e.task_id = s.task_id AND e.write_id = s.absent_write AND e.write_id <> '' LIMIT 1) IS NULL)`
	}
	s.cte("upd", " AS (UPDATE "+schemaName+".tasks t SET "+set.String()+" FROM ", s.source("s", n, all...),
		" WHERE t.tenant = s.tenant AND t.task_id = s.task_id AND t.stamp = s.prev"+ifHeld+ifAbsent, " RETURNING t.stamp)")
}

// compileHeld makes "held", the stamps of the changes whose claims are as they had seen them, and locks the claims until
// "bound" has changed them. It returns the condition for the rows s.
func compileHeld(s *statement, claimed []*change) (ifHeld string) {
	n := len(claimed)
	if n == 0 {
		return ""
	}
	at := func(i int) *claimChange { return claimed[i].claim }
	s.cte("held", " AS MATERIALIZED (SELECT s.stamp FROM ",
		s.source("s", n, append(claimKeySource(n, at),
			int8s("stamp", n, func(i int) int64 { return claimed[i].next.stamp }),
			int8s("prev", n, func(i int) int64 { return at(i).prev }),
		)...),
		" JOIN "+schemaName+".claims c USING (tenant, owned, owner, key) WHERE c.stamp = s.prev FOR UPDATE OF c)")
	return " AND (NOT s.claimed OR s.stamp IN (SELECT stamp FROM held))"
}

func compileBound(s *statement, claimed []*change) {
	n := len(claimed)
	if n == 0 {
		return
	}
	cols := append(claimSource(n, func(i int) *claimChange { return claimed[i].claim }),
		int8s("change", n, func(i int) int64 { return claimed[i].next.stamp }))
	s.cte("bound", " AS (UPDATE "+schemaName+".claims c SET "+setClaim+" FROM ", s.source("s", n, cols...),
		" WHERE "+sameClaim+ifWon("s.change")+")")
}

// ifWon is the condition that a change was carried out. As it stands, the planner cannot make a join of it, only a hash
// table: it would expect few rows, and compare each with each.
func ifWon(stamp string) string { return " AND (" + stamp + " IN (SELECT stamp FROM won)) IS TRUE" }

// keySource names the changes' rows.
func keySource(n int, at func(i int) *change) []column {
	return []column{
		texts("tenant", n, func(i int) string { return at(i).key.Tenant }),
		texts("task_id", n, func(i int) string { return at(i).key.TaskID }),
	}
}
