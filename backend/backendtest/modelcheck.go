package backendtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var modelScenarios = []scenario{
	{name: "Model/Histories", needs: []Capability{Clock, Sweeping, TaskLimit, Internals}, limit: 700, run: testHistories},
}

// testHistories plays random histories against the store and the model, and wants every reply and all that can be seen to
// be the same.
func testHistories(t *testing.T, e *env) {
	for range 4 { // as many checks again, for what is rare
		rapid.Check(t, func(t *rapid.T) {
			s := e.space(t)
			m := *s
			m.env = &env{Harness: e.Harness, clock: e.clock}
			m.store = newModel(Options{Now: e.clock.Now, Limits: backend.Limits{TaskBytes: 700}})
			p := &pair{T: t, store: s, model: &m}
			for range rapid.IntRange(1, 25).Draw(t, "steps") {
				p.step()
				p.compare()
			}
		})
	}
}

// pair is the store under test and the model, which get the same calls.
type pair struct {
	*rapid.T
	store, model *space
}

var (
	histIDs    = rapid.SampledFrom([]string{"a", "b", "b\x01"})
	histOwners = rapid.SampledFrom([]backend.Owner{
		{}, backend.OwnerOf(""), backend.OwnerOf("alice"), backend.OwnerOf("alice"), backend.OwnerOf("bob"),
	})
	histWriteIDs = rapid.SampledFrom([]string{"", "", "w1", "w2"})
	histTokens   = rapid.SampledFrom([]string{"one", "two"})
	histPre      = rapid.Custom(func(t *rapid.T) backend.Precondition {
		pre := backend.Precondition{Condition: backend.Condition(rapid.IntRange(0, 4).Draw(t, "condition"))}
		if pre.Condition == backend.AtVersion {
			pre.Version = rapid.Int64Range(1, 6).Draw(t, "version")
		}
		return pre
	})
	histRetention = backend.Retention{
		Terminal: time.Hour, Idle: 2 * time.Hour, LogEvents: 3, LogBytes: 500, TasklessLog: time.Hour, Tombstone: 3 * time.Hour,
	}
)

// both makes a call of both, and wants the same reply.
func both[R any](p *pair, what string, call func(s *space) (R, error)) {
	p.Helper()
	got, err := call(p.store)
	want, wantErr := call(p.model)
	if diff := cmp.Diff(want, got); diff != "" {
		p.Fatalf("%s (-model +store):\n%s", what, diff)
	}
	p.sameError(what, err, wantErr)
}

func (p *pair) sameError(what string, got, want error) {
	p.Helper()
	if (got == nil) != (want == nil) {
		p.Fatalf("%s: %v, want %v", what, got, want)
	}
	if want != nil {
		reason := backend.ReasonOf(want)
		p.model.alike(p.store.reason(got, reason), p.model.reason(want, reason))
	}
}

func (p *pair) step() {
	t := p.T
	id, owner := histIDs.Draw(t, "id"), histOwners.Draw(t, "owner")
	p.store.clock.advance(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
	key := p.store.key(id)
	var claim *backend.ClaimRef
	if rapid.IntRange(0, 4).Draw(t, "claim") == 0 {
		claim = &backend.ClaimRef{Key: "key", Token: histTokens.Draw(t, "token")}
	}
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0, 1, 2, 3, 4:
		p.save(key, owner, claim)
	case 5, 6, 7:
		p.append(key, owner, claim)
	case 8:
		req := &backend.DeleteRequest{Key: key, Owner: owner, Version: rapid.Int64Range(0, 3).Draw(t, "version")}
		both(p, "delete", func(s *space) (bool, error) { return s.store.Delete(t.Context(), req) })
	case 9:
		req := p.store.as(owner).claimRequest("key", rapid.SampledFrom([]string{"m", "n"}).Draw(t, "message"), id, histTokens.Draw(t, "token"))
		both(p, "claim", func(s *space) (backend.ClaimResult, error) { return s.store.ClaimKey(t.Context(), req) })
	case 10:
		token := histTokens.Draw(t, "token")
		both(p, "release", func(s *space) (struct{}, error) { return struct{}{}, s.as(owner).release("key", token) })
	case 11:
		p.store.sweep(t, histRetention, rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "batch"))
		p.model.sweep(t, histRetention)
	}
}

func (p *pair) save(key backend.Key, owner backend.Owner, claim *backend.ClaimRef) {
	t := p.T
	req := &backend.SaveRequest{
		Key: key, Owner: owner, Pre: histPre.Draw(t, "precondition"), Claim: claim,
		WriteID: histWriteIDs.Draw(t, "write id"), Origin: rapid.SampledFrom([]string{"", "replica"}).Draw(t, "origin"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		if rapid.Bool().Draw(t, "snapshot") {
			req.Events = append(req.Events, snapshot)
		} else {
			req.Events = append(req.Events, backend.EventInput{Event: p.event(key.TaskID)})
		}
	}
	// Most random tasks would not agree with the one before: states are few here.
	states := rapid.SampledFrom([]pb.TaskState{working, working, working, submitted, completed, failed})
	if rapid.Bool().Draw(t, "delta") {
		req.Delta, _ = genDelta(t, &pb.Task{Id: key.TaskID})
		if st := req.Delta.Status; st != nil {
			req.Delta.Status = parseStatus(t, &pb.TaskStatus{State: states.Draw(t, "delta state"), Timestamp: genTime.Draw(t, "delta time")})
		}
	} else {
		m := genTask(t, key.TaskID)
		m.Status = &pb.TaskStatus{State: states.Draw(t, "task state"), Timestamp: genTime.Draw(t, "task time")}
		if rapid.IntRange(0, 9).Draw(t, "other context") == 0 {
			m.ContextId = "other"
		}
		req.Task = parseTask(t, m)
	}
	both(p, "save", func(s *space) (backend.SaveResult, error) { return s.store.Save(t.Context(), req) })
}

func (p *pair) event(id string) document.Event {
	return parseEvent(p.T, rapid.SampledFrom([]*pb.StreamResponse{
		textEvent("x"), textEvent("y"), statusEvent(id, working), statusEvent("foreign", working),
	}).Draw(p.T, "event"))
}

func (p *pair) append(key backend.Key, owner backend.Owner, claim *backend.ClaimRef) {
	t := p.T
	req := &backend.AppendRequest{
		Key: key, Owner: owner, Claim: claim, WriteID: histWriteIDs.Draw(t, "write id"),
		RequireTask: rapid.IntRange(0, 3).Draw(t, "require task") == 0,
	}
	req.Events = append(req.Events, p.event(key.TaskID))
	if rapid.IntRange(0, 2).Draw(t, "explicit") == 0 {
		req.Seq = rapid.Int64Range(1, 12).Draw(t, "seq")
	} else if rapid.Bool().Draw(t, "two") {
		req.Events = append(req.Events, p.event(key.TaskID))
	}
	both(p, "append", func(s *space) (backend.AppendResult, error) { return s.store.AppendEvents(t.Context(), req) })
}

// compare wants the two to show the same, to any owner.
func (p *pair) compare() {
	t := p.T
	owner := histOwners.Draw(t, "reader")
	id := histIDs.Draw(t, "read id")
	extent := rapid.SampledFrom([]backend.Extent{
		backend.All, {StateOnly: true}, {OmitArtifacts: true, History: -1}, {History: 2}, {OmitArtifacts: true},
	}).Draw(t, "extent")
	store, model := p.store.as(owner), p.model.as(owner)

	got, err := store.read(id, extent)
	want, wantErr := model.read(id, extent)
	p.sameError("get", err, wantErr)
	p.sameTask(&got.Stored, &want.Stored)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("get (-model +store):\n%s", diff)
	}

	req := backend.ReadLogRequest{
		Key: store.key(id), Owner: owner, MaxEvents: rapid.IntRange(0, 5).Draw(t, "max events"),
		MaxBytes: rapid.SampledFrom([]int{1, 300, 1 << 20}).Draw(t, "max bytes"),
		Start: backend.Start{
			Kind: backend.StartKind(rapid.IntRange(0, 2).Draw(t, "start")), N: rapid.Int64Range(0, 12).Draw(t, "n"),
		},
	}
	if rapid.Bool().Draw(t, "with task") {
		req.Task = &extent
	}
	page, err := store.store.ReadLog(t.Context(), &req)
	wantPage, wantErr := model.store.ReadLog(t.Context(), &req)
	p.sameError("log", err, wantErr)
	if len(page.Events) != len(wantPage.Events) || (page.Task == nil) != (wantPage.Task == nil) {
		t.Fatalf("log: %+v, want %+v", page, wantPage)
	}
	for i := range page.Events {
		store.equal(store.event(page.Events[i]), store.event(wantPage.Events[i]))
		page.Events[i].Bytes = wantPage.Events[i].Bytes // the fields of a snapshot may come in another order
	}
	if page.Task != nil {
		p.sameTask(page.Task, wantPage.Task)
	}
	if len(page.Events) == 0 {
		page.Events = wantPage.Events // nil or empty
	}
	if diff := cmp.Diff(wantPage, page); diff != "" {
		t.Fatalf("log %+v (-model +store):\n%s", req, diff)
	}

	list := backend.ListRequest{
		Tenant: store.tenant, Owner: owner, Size: rapid.IntRange(1, 4).Draw(t, "size"), MaxBytes: 1 << 20, Extent: extent,
		ContextID: rapid.SampledFrom([]string{"", "", "ctx", "other"}).Draw(t, "context"),
		State:     rapid.SampledFrom([]int32{0, 0, int32(working), int32(completed)}).Draw(t, "state"),
	}
	rows, err := store.store.List(t.Context(), &list)
	wantRows, wantErr := model.store.List(t.Context(), &list)
	p.sameError("list", err, wantErr)
	if len(rows.Rows) != len(wantRows.Rows) || rows.Total != wantRows.Total || (rows.Next == nil) != (wantRows.Next == nil) {
		t.Fatalf("list %+v: %d rows of %d, want %d of %d", list, len(rows.Rows), rows.Total, len(wantRows.Rows), wantRows.Total)
	}
	for i := range rows.Rows {
		p.sameTask(&rows.Rows[i], &wantRows.Rows[i])
	}
}

// sameTask compares tasks, and makes their bytes the same, whose fields may come in another order.
func (p *pair) sameTask(got, want *backend.Stored) {
	p.Helper()
	p.store.equal(decodeTask(p.T, got.Task), decodeTask(p.T, want.Task))
	got.Task = want.Task
	if diff := cmp.Diff(*want, *got); diff != "" {
		p.Fatalf("task (-model +store):\n%s", diff)
	}
}
