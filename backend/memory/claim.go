package memory

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/a2a-taskstore/taskstore/backend"
)

// claimShard holds the claims of some keys.
type claimShard struct {
	mu     sync.Mutex
	claims table[backend.ClaimKey, backend.Claim]
	_      [64]byte
}

func (s *Store) claimShard(key backend.ClaimKey) int {
	return int(maphash.Comparable(s.seed, key) % shards)
}

// ClaimKey claims a key, or tells who holds it.
func (s *Store) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	i := s.claimShard(req.Key)
	if err := s.records[i].enter(ctx); err != nil {
		return backend.ClaimResult{}, err
	}
	defer s.records[i].leave()
	cs := &s.claims[i]
	cs.mu.Lock()
	defer cs.mu.Unlock()

	current := cs.claims.get(req.Key)
	next, result := backend.DecideClaim(current, req, s.now())
	if next == nil {
		return result, nil
	}
	growth := claimSize(&req.Key, next)
	if current != nil {
		growth -= claimSize(&req.Key, current)
	}
	if err := s.memory.resize(growth); err != nil {
		return backend.ClaimResult{}, err
	}
	if current != nil {
		*current = *next
	} else {
		cs.claims.add(req.Key, *next)
	}
	return result, nil
}

// ReleaseKey gives a key back.
func (s *Store) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	i := s.claimShard(req.Key)
	if err := s.records[i].enter(ctx); err != nil {
		return err
	}
	defer s.records[i].leave()
	cs := &s.claims[i]
	cs.mu.Lock()
	defer cs.mu.Unlock()
	remove, err := backend.DecideRelease(cs.claims.get(req.Key), req.Token, s.now())
	if remove {
		s.removeClaim(cs, req.Key)
	}
	return err
}

func (s *Store) removeClaim(cs *claimShard, key backend.ClaimKey) {
	_ = s.memory.resize(-claimSize(&key, cs.claims.get(key))) // giving back cannot fail
	cs.claims.remove(key)
}

// heldClaim is the claim that a write carries, locked until release. Without one it is empty.
type heldClaim struct {
	shard  *claimShard
	record *backend.Claim // nil if the key is free
}

// holdClaim locks the claim that a write carries. The write's shard is locked already.
func (s *Store) holdClaim(key backend.Key, owner backend.Owner, ref *backend.ClaimRef) heldClaim {
	if ref == nil {
		return heldClaim{}
	}
	ck := backend.ClaimKey{Tenant: key.Tenant, Owner: owner, Key: ref.Key}
	cs := &s.claims[s.claimShard(ck)]
	cs.mu.Lock()
	return heldClaim{shard: cs, record: cs.claims.get(ck)}
}

func (h heldClaim) release() {
	if h.shard != nil {
		h.shard.mu.Unlock()
	}
}

// bind records what a plan made of the claim. It takes as much memory as before.
func (h heldClaim) bind(next *backend.Claim) {
	if next != nil {
		*h.record = *next
	}
}
