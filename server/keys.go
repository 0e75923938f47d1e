package server

import (
	"context"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// The defaults of a claim.
const (
	defaultLease = 30 * time.Second
	defaultTTL   = 24 * time.Hour
)

var claimOutcomes = map[backend.ClaimOutcome]taskstorev1.ClaimOutcome{
	backend.Claimed:  taskstorev1.ClaimOutcome_CLAIM_OUTCOME_CLAIMED,
	backend.Replay:   taskstorev1.ClaimOutcome_CLAIM_OUTCOME_REPLAY,
	backend.Conflict: taskstorev1.ClaimOutcome_CLAIM_OUTCOME_CONFLICT,
}

func (s *service) claimKey(ctx context.Context, in *taskstorev1.ClaimKeyRequest) (*taskstorev1.ClaimKeyResponse, error) {
	v := s.validator()
	req := v.claimKey(in)
	if err := v.err(); err != nil {
		return nil, err
	}
	// A key that ended before the task would let a late retry start the work again.
	req.TTL = max(req.TTL, s.retention.Terminal)
	res, err := s.store.ClaimKey(ctx, req)
	if err != nil {
		return nil, err
	}
	return &taskstorev1.ClaimKeyResponse{
		Outcome: claimOutcomes[res.Outcome], TaskId: res.TaskID, ExpiresAt: stamp(res.Expires),
	}, nil
}

func (v *validator) claimKey(in *taskstorev1.ClaimKeyRequest) *backend.ClaimRequest {
	v.text("message_id", in.GetMessageId(), 1, maxID)
	v.text("task_id", in.GetTaskId(), 1, maxID)
	return &backend.ClaimRequest{
		Key:       v.claimedKey(in.GetScope(), in.GetKey(), in.GetToken()),
		MessageID: in.GetMessageId(),
		TaskID:    in.GetTaskId(),
		Token:     in.GetToken(),
		Lease:     v.duration("lease", in.GetLease(), defaultLease, maxLease),
		TTL:       v.duration("ttl", in.GetTtl(), defaultTTL, maxTTL),
	}
}

func (s *service) releaseKey(ctx context.Context, in *taskstorev1.ReleaseKeyRequest) (*taskstorev1.ReleaseKeyResponse, error) {
	v := s.validator()
	req := &backend.ReleaseRequest{Key: v.claimedKey(in.GetScope(), in.GetKey(), in.GetToken()), Token: in.GetToken()}
	if err := v.err(); err != nil {
		return nil, err
	}
	if err := s.store.ReleaseKey(ctx, req); err != nil {
		return nil, err
	}
	return &taskstorev1.ReleaseKeyResponse{}, nil
}

func (v *validator) claimedKey(scope *taskstorev1.Scope, key, token string) backend.ClaimKey {
	tenant, owner := v.scope(scope)
	v.text("key", key, 1, maxID)
	v.text("token", token, 1, maxToken)
	return backend.ClaimKey{Tenant: tenant, Owner: owner, Key: key}
}
