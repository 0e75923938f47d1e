package postgres

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
)

// ClaimKey implements backend.Store.
func (s *Store) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	p := &claimPlan{req: req}
	if err := s.do(ctx, p, 0, claimName(req.Key)); err != nil {
		return backend.ClaimResult{}, err
	}
	return p.result, nil
}

// claimPlan plans a ClaimKey.
type claimPlan struct {
	req    *backend.ClaimRequest
	result backend.ClaimResult
}

func (p *claimPlan) asks() ask { return ask{claim: &p.req.Key} }

func (p *claimPlan) guess(*memory) *facts { return nil }

func (p *claimPlan) plan(f *facts) (outcome, error) {
	next, res := backend.DecideClaim(f.claim, p.req, f.now)
	p.result = res
	if next == nil {
		return outcome{}, nil
	}
	return outcome{claim: &claimChange{key: p.req.Key, prev: f.claimStamp, stamp: newStamp(), next: *next}}, nil
}

// ReleaseKey implements backend.Store.
func (s *Store) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	return s.do(ctx, &releasePlan{req: req}, 0, claimName(req.Key))
}

// releasePlan plans a ReleaseKey.
type releasePlan struct{ req *backend.ReleaseRequest }

func (p *releasePlan) asks() ask { return ask{claim: &p.req.Key} }

func (p *releasePlan) guess(*memory) *facts { return nil }

func (p *releasePlan) plan(f *facts) (outcome, error) {
	remove, err := backend.DecideRelease(f.claim, p.req.Token, f.now)
	if err != nil || !remove {
		return outcome{}, err
	}
	// An expired record is as good as none, and the sweeper removes it.
	return outcome{claim: &claimChange{key: p.req.Key, prev: f.claimStamp, stamp: newStamp(), next: backend.Claim{}}}, nil
}
