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

// The parts of statements about claims: c is the table, s the source.
const (
	sameClaim = `c.tenant = s.tenant AND c.owned = s.owned AND c.owner = s.owner AND c.key = s.key AND c.stamp = s.prev`
	setClaim  = `stamp = s.stamp, message_id = s.message_id, task_id = s.task_id, token = s.token, bound = s.bound,
	expires = s.expires, ttl = s.ttl`
)

func claimKeySource(s *statement, n int, at func(i int) *claimChange) []column {
	return []column{
		texts(s, "tenant", n, func(i int) string { return at(i).key.Tenant }),
		bools(s, "owned", n, func(i int) bool { return at(i).key.Owner.Set }),
		texts(s, "owner", n, func(i int) string { return at(i).key.Owner.Name }),
		texts(s, "key", n, func(i int) string { return at(i).key.Key }),
	}
}

// claimSource is the claims' columns, the last of which is the condition.
func claimSource(s *statement, n int, at func(i int) *claimChange) []column {
	return append(claimKeySource(s, n, at),
		int8s(s, "stamp", n, func(i int) int64 { return at(i).stamp }),
		texts(s, "message_id", n, func(i int) string { return at(i).next.MessageID }),
		texts(s, "task_id", n, func(i int) string { return at(i).next.TaskID }),
		texts(s, "token", n, func(i int) string { return at(i).next.Token }),
		bools(s, "bound", n, func(i int) bool { return at(i).next.Bound }),
		int8s(s, "expires", n, func(i int) int64 { return at(i).next.Expires }),
		int8s(s, "ttl", n, func(i int) int64 { return int64(at(i).next.TTL) }),
		int8s(s, "prev", n, func(i int) int64 { return at(i).prev }),
	)
}

// compileClaims adds changes of claims that hang on no task, and returns the names of the expressions that have the stamps of
// those that were carried out.
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
		cols := claimSource(s, n, func(i int) *claimChange { return inserts[i] })
		stored := cols[:len(cols)-1]
		s.with("claim_ins", cols, func(source string) string {
			return "(INSERT INTO " + schemaName + ".claims (" + names("", stored) + ") SELECT " + names("s.", stored) + " FROM " + source +
				" ON CONFLICT DO NOTHING RETURNING stamp)"
		})
		results = append(results, "claim_ins")
	}
	if n := len(updates); n > 0 {
		s.with("claim_upd", claimSource(s, n, func(i int) *claimChange { return updates[i] }), func(source string) string {
			return "(UPDATE " + schemaName + ".claims c SET " + setClaim + " FROM " + source + " WHERE " + sameClaim + " RETURNING c.stamp)"
		})
		results = append(results, "claim_upd")
	}
	return results
}
