package postgres

import (
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// writing returns a connection as a committer has, to a database of the test's own.
func writing(t *testing.T) *pgx.Conn {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: migrated(t), PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	conn, err := s.writes.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	return conn.Conn()
}

// TestEachColumnIsStored: whatever a plan changes of a row, alone or in a batch, is what is read of it afterwards.
func TestEachColumnIsStored(t *testing.T) {
	t.Parallel()
	conn := writing(t)
	alterations := map[string]func(*record){
		"artifactBytes": func(r *record) { r.artifactBytes = 7 },
		"artifactRows":  func(r *record) { r.artifactRows = true },
		"messageRows":   func(r *record) { r.messageRows = true },
	}
	if n := reflect.TypeFor[record]().NumField(); n != len(alterations)+3 { // Row, stamp and rowID
		t.Errorf("a record has %d fields, some of which are not tested", n)
	}
	for i := range reflect.TypeFor[backend.Row]().NumField() {
		alterations[reflect.TypeFor[backend.Row]().Field(i).Name] = func(r *record) {
			alter(t, reflect.ValueOf(&r.Row).Elem().Field(i))
		}
	}
	for name, alter := range alterations {
		for _, batch := range []int{1, 2} {
			var inserts, updates []*change
			for i := range batch {
				key := backend.Key{Tenant: "t", TaskID: fmt.Sprint(name, batch, i)}
				was := record{}.following(backend.Row{})
				next, other := was.following(backend.Row{}), record{}.following(backend.Row{})
				alter(&next)
				alter(&other)
				inserts = append(inserts, &change{key: key, was: &record{}, next: was})
				updates = append(updates, &change{key: key, was: &was, next: next})
				key.TaskID += "new"
				inserts = append(inserts, &change{key: key, was: &record{}, next: other})
			}
			for _, changes := range [][]*change{inserts, updates} {
				want := maps.Collect(func(yield func(backend.Key, record) bool) {
					for _, c := range changes {
						yield(c.key, c.next)
					}
				})
				won, err := write(t.Context(), conn, changes, nil)
				if err != nil || len(won) != len(changes) {
					t.Fatalf("%s: %d of %d changes were carried out, %v", name, len(won), len(changes), err)
				}
				for key, rec := range want {
					s := &statement{}
					got := record{}
					query := "SELECT " + recordColumns + " FROM " + schemaName + ".tasks t " + whereKey(s, key)
					if err := conn.QueryRow(t.Context(), query, s.args...).Scan(got.dest()...); err != nil || got != rec {
						t.Errorf("%s in a batch of %d: stored %+v, %v, want %+v", name, len(changes), got, err, rec)
					}
				}
			}
		}
	}
}

// alter gives a field another value than its zero value.
func alter(t *testing.T, field reflect.Value) {
	t.Helper()
	switch v := field.Addr().Interface().(type) {
	case *backend.RowKind:
		*v = backend.RowTask
	case *string:
		*v = "nul\x00 and ü"
	case *int32:
		*v = -3
	case *int64:
		*v = 1 << 60
	case *bool:
		*v = true
	case *document.Timestamp:
		*v = document.Timestamp{Valid: true, Seconds: -5, Nanos: 7}
	default:
		t.Fatalf("no other value of a %T", v)
	}
}

// TestRowIDsAreUnique: what hangs on one row is never found under another. Who draws a number that is taken draws again.
func TestRowIDsAreUnique(t *testing.T) {
	t.Parallel()
	conn := writing(t)
	next := record{}.following(backend.Row{})
	for i := range 2 {
		c := &change{key: backend.Key{TaskID: fmt.Sprint(i)}, was: &record{}, next: next, events: []backend.Event{{Seq: int64(i)}}}
		c.next.stamp = newStamp()
		won, err := write(t.Context(), conn, []*change{c}, nil)
		if want := 1 - i; err != nil || len(won) != want {
			t.Errorf("%d of %d changes were carried out, %v", len(won), want, err)
		}
	}
	var rows, events int
	err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM a2a_taskstore.tasks), (SELECT count(*) FROM a2a_taskstore.events)`).Scan(&rows, &events)
	if err != nil || rows != 1 || events != 1 {
		t.Errorf("%d rows and %d events, %v", rows, events, err)
	}
}

// TestBatchesAreLikeLoneWrites carries random changes out in batches under one tenant, and one by one under another: the
// same ones are carried out, those whose condition holds, and leave the same; the others leave nothing. And a text that is
// looked up is what would be put together.
func TestBatchesAreLikeLoneWrites(t *testing.T) {
	t.Parallel()
	conn := writing(t)
	var runs int
	rapid.Check(t, func(t *rapid.T) {
		runs++
		batched, alone := fmt.Sprint("batched-", runs), fmt.Sprint("alone-", runs)
		g := &changeGen{T: t, rows: map[string]record{}, claims: map[string]int64{}, writes: map[string]bool{}}
		before := dump(t, conn, batched)
		made := g.everyClaim()
		for range rapid.IntRange(4, 8).Draw(t, "rounds") {
			changes, claims := made.of(batched)
			sameText(t, changes, claims)
			won, err := write(t.Context(), conn, changes, claims)
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(won, made.winners) {
				t.Fatalf("%d of %d changes were carried out, want %d", len(won), len(changes)+len(claims), len(made.winners))
			}
			wonAlone := map[int64]struct{}{}
			changes, claims = made.of(alone)
			for _, c := range changes {
				sameText(t, []*change{c}, nil)
				won, err := write(t.Context(), conn, []*change{c}, nil)
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(wonAlone, won)
			}
			for _, c := range claims {
				won, err := write(t.Context(), conn, nil, []*claimChange{c})
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(wonAlone, won)
			}
			if !maps.Equal(wonAlone, won) {
				t.Fatalf("%d changes were carried out alone, %d together", len(wonAlone), len(won))
			}
			after := dump(t, conn, batched)
			if diff := cmp.Diff(dump(t, conn, alone), after); diff != "" {
				t.Fatalf("what is left (-alone +batch):\n%s", diff)
			}
			for _, c := range made.changes {
				if _, ok := won[c.next.stamp]; ok {
					continue
				}
				touched := []string{c.key.TaskID}
				if c.claim != nil {
					touched = append(touched, c.claim.key.Key)
				}
				for _, id := range touched {
					if diff := cmp.Diff(before[id], after[id]); diff != "" {
						t.Fatalf("a change that was not carried out left (-before +after):\n%s", diff)
					}
				}
			}
			before = after
			made = g.round()
		}
	})
}

func sameText(t *rapid.T, changes []*change, claims []*claimChange) {
	t.Helper()
	s, results := assemble(changes, claims)
	if got, want := s.sql(results...), s.render(results); got != want {
		t.Fatalf("the statement is\n%s\nwant\n%s", got, want)
	}
}

// dump returns what all tables hold under a tenant, by task; claims by their key.
func dump(t *rapid.T, conn *pgx.Conn, tenant string) map[string][]string {
	t.Helper()
	query := "SELECT c.key, 'claims ' || (to_jsonb(c) - 'tenant')::text FROM " + schemaName + ".claims c WHERE c.tenant = $1"
	for _, table := range []string{"tasks", "artifacts", "artifact_parts", "messages", "events"} {
		query += " UNION ALL SELECT k.task_id, '" + table + " ' || (to_jsonb(t) - 'tenant' - 'row_id')::text FROM " +
			schemaName + "." + table + " t JOIN " + schemaName + ".tasks k USING (row_id) WHERE k.tenant = $1"
	}
	rows, err := conn.Query(t.Context(), query, asBytes(tenant))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	var id, row string
	_, err = pgx.ForEachRow(rows, []any{(*stringColumn)(&id), &row}, func() error {
		out[id] = append(out[id], row)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, held := range out {
		slices.Sort(held)
	}
	return out
}

// changeGen draws changes, and knows what those before have left.
type changeGen struct {
	*rapid.T
	rows   map[string]record
	claims map[string]int64 // their stamps
	writes map[string]bool  // id and write_id of the events that are there
	next   int64            // for what must differ
}

// round is what one batch may hold.
type round struct {
	changes []change
	claims  []claimChange
	winners map[int64]struct{}
}

// of returns copies under a tenant.
func (r *round) of(tenant string) (changes []*change, claims []*claimChange) {
	for _, c := range r.changes {
		c.key.Tenant = tenant
		c.next.rowID = rowID(c.key)
		if c.claim != nil {
			claim := *c.claim
			claim.key.Tenant = tenant
			c.claim = &claim
		}
		changes = append(changes, &c)
	}
	for _, c := range r.claims {
		c.key.Tenant = tenant
		claims = append(claims, &c)
	}
	return changes, claims
}

// rowID is that of a row that is not removed.
func rowID(key backend.Key) int64 { return int64(maphash.Comparable(rowIDSeed, key)) }

var rowIDSeed = maphash.MakeSeed()

func (g *changeGen) flag(what string) bool { return rapid.Bool().Draw(g.T, what) }

func (g *changeGen) number() int64 {
	g.next++
	return g.next
}

func (g *changeGen) bytes(what string) []byte {
	return rapid.SampledFrom([][]byte{nil, {}, []byte("x"), []byte("a longer one")}).Draw(g.T, what)
}

// everyClaim makes all claims, so that the rounds find them.
func (g *changeGen) everyClaim() *round {
	r := &round{winners: map[int64]struct{}{}}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		c := claimChange{key: backend.ClaimKey{Key: "claim-" + key}, stamp: newStamp()}
		g.claims[c.key.Key] = c.stamp
		r.claims, r.winners[c.stamp] = append(r.claims, c), struct{}{}
	}
	return r
}

func (g *changeGen) round() *round {
	r := &round{winners: map[int64]struct{}{}}
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID[string]).Draw(g.T, "ids")
	for _, id := range ids {
		c := g.change(id)
		wins := c.was.stamp == g.rows[id].stamp && (c.absentWrite == "" || !g.writes[id+c.absentWrite]) &&
			(c.claim == nil || (c.claim.prev != 0 && c.claim.prev == g.claims[c.claim.key.Key]))
		r.changes = append(r.changes, c)
		if !wins {
			continue
		}
		r.winners[c.next.stamp] = struct{}{}
		g.rows[id] = c.next
		if c.claim != nil {
			g.claims[c.claim.key.Key] = c.claim.stamp
		}
		if c.dropEvents > 0 {
			maps.DeleteFunc(g.writes, func(k string, _ bool) bool { return k[:1] == id })
		}
		for i := range c.events {
			g.writes[id+c.events[i].WriteID] = true
		}
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 3, rapid.ID[string]).Draw(g.T, "claims") {
		taken := false
		for i := range r.changes {
			taken = taken || (r.changes[i].claim != nil && r.changes[i].key.TaskID == key)
		}
		if taken {
			continue // in one batch, each claim is touched once
		}
		c := g.claim("claim-" + key)
		r.claims = append(r.claims, c)
		if c.prev == g.claims[c.key.Key] {
			r.winners[c.stamp] = struct{}{}
			g.claims[c.key.Key] = c.stamp
		}
	}
	return r
}

func (g *changeGen) claim(key string) claimChange {
	c := claimChange{key: backend.ClaimKey{Key: key}, prev: g.claims[key], stamp: newStamp(), next: backend.Claim{
		MessageID: "m", TaskID: "id", Token: "x", Bound: g.flag("bound"), Expires: g.number(), TTL: 1,
	}}
	if rapid.IntRange(0, 4).Draw(g.T, "stale claim") == 0 {
		c.prev = newStamp()
	}
	return c
}

func (g *changeGen) change(id string) change {
	was := g.rows[id]
	if rapid.IntRange(0, 4).Draw(g.T, "stale") == 0 {
		was.stamp = rapid.SampledFrom([]int64{0, newStamp()}).Draw(g.T, "stale stamp")
	}
	c := change{key: backend.Key{TaskID: id}, was: &was, next: was}
	c.next.stamp, c.next.Version, c.next.Kind = newStamp(), g.number(), backend.RowTask
	if g.flag("settled") {
		c.next.Final, c.next.FirstSeq, c.next.ContextID = g.flag("final"), g.number(), "context"
	}
	c.head, c.artifacts, c.history = g.bytes("head"), g.bytes("artifacts"), g.bytes("history")
	for range rapid.IntRange(0, 2).Draw(g.T, "events") {
		c.events = append(c.events, backend.Event{
			Seq: g.number(), WriteID: rapid.SampledFrom([]string{"", "v", "w"}).Draw(g.T, "write id"), Bytes: g.bytes("event"),
		})
	}
	if was.stamp != 0 {
		c.absentWrite = rapid.SampledFrom([]string{"", "", "v", "w"}).Draw(g.T, "absent write")
	}
	if g.flag("drop events") {
		c.dropEvents = everything
	}
	g.artifacts(&c)
	g.messages(&c)
	if rapid.IntRange(0, 2).Draw(g.T, "with claim") == 0 {
		claim := g.claim("claim-" + id)
		c.claim = &claim
	}
	return c
}

func (g *changeGen) artifacts(c *change) {
	row := func(pos int64) artifactRow {
		return artifactRow{
			pos: pos, digest: digest("a"), fields: notNil(g.bytes("fields")), parts: document.List{Bytes: g.bytes("parts"), Count: 1},
		}
	}
	for range rapid.IntRange(0, 2).Draw(g.T, "new artifacts") {
		c.newArtifacts = append(c.newArtifacts, row(g.number()))
	}
	pos := rapid.Int64Range(1, 20).Draw(g.T, "pos")
	switch rapid.IntRange(0, 3).Draw(g.T, "other artifacts") {
	case 1:
		c.dropArtifacts = true
	case 2:
		replaced := row(pos)
		c.setArtifact = &replaced
	case 3:
		c.newParts = &partsRow{pos: pos, parts: g.bytes("more parts"), partTotal: 2, byteTotal: 3}
		if g.flag("fields too") {
			replaced := row(pos)
			c.setFields = &replaced
		}
	}
}

func (g *changeGen) messages(c *change) {
	for i := range rapid.IntRange(0, 2).Draw(g.T, "new messages") {
		c.newMessages = append(c.newMessages, messageRow{version: c.next.Version, idx: int64(i), entry: notNil(g.bytes("entry"))})
	}
	switch rapid.IntRange(0, 2).Draw(g.T, "other messages") {
	case 1:
		c.dropMessages = true
	case 2:
		from := rapid.Int64Range(0, 10).Draw(g.T, "first version")
		c.trimMessages = []oldMessage{{version: from, idx: rapid.Int64Range(0, 1).Draw(g.T, "first idx")}}
		if g.flag("several") {
			c.trimMessages = append(c.trimMessages, oldMessage{version: from + rapid.Int64Range(1, 10).Draw(g.T, "more"), idx: 0})
		}
	}
}
