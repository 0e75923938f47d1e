package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
)

func migrated(t *testing.T) string {
	t.Helper()
	return pgtest.Database(t, func(ctx context.Context, dsn string) error {
		_, err := Migrate(ctx, dsn, slog.New(slog.DiscardHandler))
		return err
	})
}

// TestKeyPlans: batches are read and written by key, also by plans that were made when the tables were new, or as small as
// autovacuum first looks at them, and are kept while they grow.
func TestKeyPlans(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{DSN: migrated(t), PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pooled, err := s.writes.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pooled.Release()
	conn := pooled.Conn()

	const batch = 100
	var changes []*change
	var claims []*claimChange
	l := &loader{batch: &pgx.Batch{}, clock: s.clock}
	var ops, claimOps []*op
	for i := range batch {
		key := backend.Key{Tenant: "t", TaskID: fmt.Sprint(i)}
		claimKey := backend.ClaimKey{Tenant: "t", Key: fmt.Sprint(i)}
		row := artifactRow{digest: digest(""), fields: []byte{}}
		changes = append(changes, &change{
			key: key, was: &record{stamp: int64(i % 2)}, next: record{}.following(backend.Row{}), head: []byte("h"), absentWrite: "w",
			events: []backend.Event{{Seq: 1}, {Seq: 2}}, dropEvents: 1, dropArtifacts: true, dropMessages: true,
			newArtifacts: []artifactRow{row}, setArtifact: &row, setFields: &row, newParts: &partsRow{},
			newMessages: []messageRow{{entry: []byte{}}}, trimMessages: make([]oldMessage, 2),
			claim: &claimChange{key: claimKey, prev: 1, stamp: newStamp()},
		})
		claims = append(claims, &claimChange{key: claimKey, prev: int64(i % 2), stamp: newStamp()})
		ops = append(ops, &op{plan: &appendPlan{req: &backend.AppendRequest{Key: key, WriteID: "w", Seq: 1}}})
		claimOps = append(claimOps, &op{plan: &releasePlan{req: &backend.ReleaseRequest{Key: claimKey}}})
	}
	l.rows(ops)
	l.logs(ops)
	l.claims(claimOps)
	for _, o := range ops {
		o.plan = &savePlan{req: &backend.SaveRequest{Key: o.plan.asks().key}, doc: &docAsk{head: true, artifact: true, keep: 1, added: 1}}
	}
	l.docs(ops)
	query, args := compile(changes, claims)
	l.batch.Queue(query, args...)
	for i := range 2 { // one inserts, one updates
		query, args := compile(changes[i:i+1], nil)
		l.batch.Queue(query, args...)
	}

	for _, rows := range []int{0, 51} {
		for i := range rows {
			key := backend.Key{Tenant: "t", TaskID: fmt.Sprint(i)}
			if _, err := s.AppendEvents(t.Context(), &backend.AppendRequest{Key: key, Events: make([]document.Event, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		if rows > 0 {
			if _, err := conn.Exec(t.Context(), "ANALYZE a2a_taskstore.tasks, a2a_taskstore.events"); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range l.batch.QueuedQueries {
			if bad := explain(t, conn, q.SQL, q.Arguments).scans(); bad != nil {
				t.Errorf("with %d rows, %v in the plan of %s", rows, bad, q.SQL)
			}
		}
	}
}

// TestListPlans: at 100,000 tasks every page of every list is read along an index, in its order, and no table is scanned or
// sorted; with the planner's settings of a Store, and with the server's own, which is what a pooler gives.
func TestListPlans(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, q := range []string{
		`INSERT INTO a2a_taskstore.tasks (tenant, task_id, row_id, stamp, kind, owner, incarnation, version, context_id, state,
				seconds, nanos, start_seq, first_seq, last_seq, dropped_mark, log_events, log_bytes, final, final_seq,
				created, updated, finalized, touched, write_id, write_seq, size, artifact_count, artifact_bytes, message_count,
				artifact_rows, message_rows, head, artifacts, history)
			SELECT 't', convert_to('task-' || md5(i::text), 'UTF8'), i, i, 2, convert_to('owner-' || i % 100, 'UTF8'), 1, 1,
				convert_to('context-' || i % 5000, 'UTF8'), i % 9, 1700000000 + i % 50000, 0, 1, 1, 0, 0, 0, 0, false, 0,
				1, 1, 0, 1, 'w', 0, 100, 0, 0, 0, false, false, repeat('h', 100)::bytea, '', ''
			FROM generate_series(1, 100000) i`,
		`ANALYZE a2a_taskstore.tasks`,
	} {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), Config{DSN: dsn, PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pooled, err := s.reads.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pooled.Release()

	owner := backend.OwnerOf("owner-7")
	since := document.Timestamp{Valid: true, Seconds: 1700030000}
	after := &backend.Position{Time: document.Timestamp{Valid: true, Seconds: 1700020000}, TaskID: "task-5"}
	for _, req := range []backend.ListRequest{
		{}, {Owner: owner}, {ContextID: "context-7"}, {Owner: owner, ContextID: "context-7"},
		{State: 3}, {Owner: owner, State: 3}, {ContextID: "context-7", State: 3}, {Owner: owner, ContextID: "context-7", State: 3},
		{Since: since}, {Owner: owner, Since: since}, {ContextID: "context-7", Since: since}, {Owner: owner, State: 3, Since: since},
	} {
		for _, position := range []*backend.Position{nil, after} {
			req.Tenant, req.Size, req.After = "t", 50, position
			q := &listQuery{req: &req}
			query, args := q.pageQuery()
			for where, c := range map[string]*pgx.Conn{"store": pooled.Conn(), "server": conn} {
				plan := explain(t, c, query, args)
				if bad := plan.scans(); bad != nil {
					t.Errorf("%s: %+v: plan with %v", where, req, bad)
				}
				nodes := plan.nodes()
				if !slices.ContainsFunc(nodes, func(n string) bool { return strings.HasPrefix(n, "Index") }) ||
					slices.Contains(nodes, "Sort") || slices.Contains(nodes, "Incremental Sort") || slices.Contains(nodes, "Seq Scan") {
					t.Errorf("%s: %+v: plan %v", where, req, nodes)
				}
			}
		}
	}
}

// plan is a node of what EXPLAIN shows.
type plan struct {
	NodeType  string `json:"Node Type"`
	IndexCond string `json:"Index Cond"`
	Filter    string `json:"Filter"`
	Parent    string `json:"Parent Relationship"`
	Plans     []plan `json:"Plans"`
}

// scans lists the nodes that read more of a table than they look for.
func (p *plan) scans() (bad []string) {
	switch {
	case p.NodeType == "Seq Scan", strings.HasSuffix(p.NodeType, " Join"):
		bad = append(bad, p.NodeType)
	case strings.HasPrefix(p.NodeType, "Index") && p.IndexCond == "":
		bad = append(bad, p.NodeType+" without a condition")
	case strings.HasPrefix(p.NodeType, "Index") && (strings.Contains(p.Filter, "digest = ") || strings.Contains(p.Filter, "write_id = ")):
		bad = append(bad, p.NodeType+" of all that hangs on a row")
	}
	for i := range p.Plans {
		bad = append(bad, p.Plans[i].scans()...)
	}
	return bad
}

// nodes lists the nodes, but for those of expressions, which look into the rows of one task.
func (p *plan) nodes() []string {
	nodes := []string{p.NodeType}
	for i := range p.Plans {
		if p.Plans[i].Parent == "SubPlan" {
			continue
		}
		nodes = append(nodes, p.Plans[i].nodes()...)
	}
	return nodes
}

func explain(t *testing.T, conn *pgx.Conn, query string, args []any) *plan {
	t.Helper()
	var raw []byte
	if err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+query, args...).Scan(&raw); err != nil {
		t.Fatal(err)
	}
	var out []struct{ Plan plan }
	if err := json.Unmarshal(raw, &out); err != nil || len(out) != 1 {
		t.Fatal(fmt.Errorf("plan %s: %w", raw, err))
	}
	return &out[0].Plan
}
