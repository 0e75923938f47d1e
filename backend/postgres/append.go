package postgres

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// AppendEvents implements backend.Store.
func (s *Store) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	p := &appendPlan{req: req}
	names := []name{taskName(req.Key)}
	if req.Claim != nil {
		p.claim = &backend.ClaimKey{Tenant: req.Key.Tenant, Owner: req.Owner, Key: req.Claim.Key}
		names = append(names, claimName(*p.claim))
	}
	size := 0
	for i := range req.Events {
		size += len(req.Events[i].Bytes)
	}
	if err := s.do(ctx, p, size, names...); err != nil {
		return backend.AppendResult{}, err
	}
	return p.result, nil
}

// appendPlan plans an AppendEvents.
type appendPlan struct {
	req    *backend.AppendRequest
	claim  *backend.ClaimKey
	result backend.AppendResult
}

func (p *appendPlan) asks() ask { return ask{key: p.req.Key, log: p.req, claim: p.claim} }

func (p *appendPlan) guess(m *memory) *facts {
	if m == nil || p.claim != nil || (p.req.Seq != 0 && p.req.Seq <= m.rec.LastSeq) {
		return nil
	}
	return &facts{rec: m.rec, from: m, absentWrite: p.req.WriteID}
}

func (p *appendPlan) plan(f *facts) (outcome, error) {
	plan, err := backend.PlanAppend(&f.rec.Row, p.req, &f.log, f.claim, f.now)
	if err != nil {
		return outcome{}, err
	}
	p.result = plan.Result
	if plan.Result.Replayed {
		p.result.Replayed = !f.retried // as in a Save
		return outcome{}, nil
	}
	c := &change{
		key: p.req.Key, was: &f.rec, next: f.rec.following(plan.Row), events: plan.Events, absentWrite: f.absentWrite,
	}
	if plan.Claim != nil {
		c.claim = &claimChange{key: *p.claim, prev: f.claimStamp, stamp: newStamp(), next: *plan.Claim}
	}
	return outcome{change: c}, nil
}
