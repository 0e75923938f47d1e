package pebble

import (
	"context"
	"errors"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/cockroachdb/pebble/v2"
)

// ClaimKey is part of backend.Store.
func (s *Store) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	var res backend.ClaimResult
	err := s.updateClaim(ctx, req.Key, func(c *backend.Claim) (b *pebble.Batch, err error) {
		var next *backend.Claim
		if next, res = backend.DecideClaim(c, req, s.now()); next != nil {
			b = s.db.NewBatch()
			err = b.Set(claimKey(req.Key), appendClaim(nil, next), nil)
		}
		return b, err
	})
	if err != nil {
		return backend.ClaimResult{}, err
	}
	return res, nil
}

// ReleaseKey is part of backend.Store.
func (s *Store) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	return s.updateClaim(ctx, req.Key, func(c *backend.Claim) (*pebble.Batch, error) {
		remove, err := backend.DecideRelease(c, req.Token, s.now())
		if err != nil || !remove {
			return nil, err
		}
		b := s.db.NewBatch()
		return b, b.Delete(claimKey(req.Key), nil)
	})
}

// updateClaim runs fn in the critical section of a claim and commits the batch that it returns, if it returns one.
func (s *Store) updateClaim(
	ctx context.Context, k backend.ClaimKey, fn func(*backend.Claim) (*pebble.Batch, error),
) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	stripe := s.claimStripe(k)
	x, err := s.lock(ctx, stripe, stripe)
	if err != nil {
		return err
	}
	defer x.end()
	c, err := s.getClaim(k)
	if err != nil {
		return x.refuse(ctx, err)
	}
	b, err := fn(c)
	if err != nil || b == nil {
		return x.refuse(ctx, err)
	}
	return x.commit(ctx, b)
}

// getClaim returns the record under a key, nil if there is none.
func (s *Store) getClaim(k backend.ClaimKey) (*backend.Claim, error) {
	value, closer, err := s.db.Get(claimKey(k))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fault.read(err)
	}
	c, err := decodeClaim(value)
	if err != nil {
		return nil, s.fault.corrupt("claim", err)
	}
	return c, closer.Close()
}
