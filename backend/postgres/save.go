package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// Save implements backend.Store.
func (s *Store) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	if req.WriteID == "" {
		named := *req
		named.WriteID = ownWriteID() // so that an attempt whose answer is lost is recognized
		req = &named
	}
	p := &savePlan{req: req, limits: s.cfg.Limits}
	names := []name{taskName(req.Key)}
	if req.Claim != nil {
		p.claim = &backend.ClaimKey{Tenant: req.Key.Tenant, Owner: req.Owner, Key: req.Claim.Key}
		names = append(names, claimName(*p.claim))
	}
	size := 0
	for i := range req.Events {
		size += len(req.Events[i].Event.Bytes)
		p.snapshot = p.snapshot || req.Events[i].Snapshot
	}
	switch {
	case req.Task != nil:
		size += req.Task.Size()
		if p.snapshot {
			size += req.Task.Size()
		}
	default:
		p.doc = askFor(req.Delta)
		size += deltaSize(req.Delta)
	}
	if err := s.do(ctx, p, size, names...); err != nil {
		return backend.SaveResult{}, err
	}
	return p.result, nil
}

// savePlan plans a Save.
type savePlan struct {
	req      *backend.SaveRequest
	limits   backend.Limits
	claim    *backend.ClaimKey
	doc      *docAsk
	snapshot bool
	result   backend.SaveResult
}

func (p *savePlan) asks() ask {
	return ask{key: p.req.Key, row: p.doc == nil, doc: p.doc, body: p.doc != nil && p.snapshot, claim: p.claim}
}

func (p *savePlan) guess(m *memory) *facts {
	switch {
	case p.claim != nil:
		return nil // the database's clock decides
	case m == nil:
		if p.req.Pre.Condition != backend.Absent {
			return nil
		}
		return &facts{} // that the id is free
	case p.doc == nil:
		return &facts{rec: m.rec, from: m}
	case p.snapshot, p.doc.head && m.head == nil:
		return nil
	case p.doc.keep >= 0 && m.rec.Messages+int64(p.doc.added)-int64(p.doc.keep) > int64(len(m.oldest)):
		return nil
	case p.doc.artifact && (!m.hasArtifact || m.artifactID != p.doc.artifactID):
		return nil
	}
	return &facts{rec: m.rec, from: m, stored: &stored{
		head: m.head, artifactBytes: m.rec.artifactBytes,
		artifactID: m.artifactID, artifact: m.artifact, oldest: m.oldest,
	}}
}

func (p *savePlan) plan(f *facts) (outcome, error) {
	st := f.stored
	if st == nil {
		st = &stored{}
	}
	plan, err := backend.PlanSave(&f.rec.Row, p.req, st, f.claim, p.limits, f.now)
	if err != nil {
		return outcome{}, err
	}
	p.result = plan.Result
	if plan.Result.Replayed {
		// A replay of this very call, an attempt of which has succeeded after all, is news to the caller.
		p.result.Replayed = !f.retried
		return outcome{}, nil
	}
	c := &change{key: p.req.Key, was: &f.rec, next: f.rec.following(plan.Row), events: plan.Events}
	c.document(&plan.Change, st)
	if len(plan.Snapshots) > 0 {
		if w := plan.Change.Whole; w != nil {
			plan.FillSnapshots(w.AppendTask(make([]byte, 0, w.Size())))
		} else {
			plan.FillSnapshots(f.body.after(&plan.Change))
		}
	}
	if plan.Claim != nil {
		c.claim = &claimChange{key: *p.claim, prev: f.claimStamp, stamp: newStamp(), next: *plan.Claim}
	}
	return outcome{change: c}, nil
}

// ownWriteID makes a write_id that no caller has.
func ownWriteID() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

func deltaSize(d *document.Delta) int {
	size := len(d.History.Bytes)
	if d.Head != nil {
		size += len(d.Head.Head)
	}
	if d.Status != nil {
		size += len(d.Status.Bytes)
	}
	if d.Artifacts != nil {
		size += len(d.Artifacts.Bytes)
	}
	if d.Put != nil {
		size += d.Put.Size()
	}
	if d.Append != nil {
		size += len(d.Append.Fields) + len(d.Append.Parts.Bytes)
	}
	return size
}
