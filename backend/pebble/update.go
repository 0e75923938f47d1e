package pebble

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/cockroachdb/pebble/v2"
)

// update is a write under one key, inside its critical section.
type update struct {
	s   *Store
	key backend.Key
	rec *record // as it is stored; not to be changed
	// next is the record as the batch leaves it; nil if there is none.
	next *record
	// claimKey and claim are the claim that the write carries, if it carries one that has a record.
	claimKey backend.ClaimKey
	claim    *backend.Claim
	// b is the batch; nil as long as nothing is written.
	b *pebble.Batch
}

// update runs fn in the critical section of a key, and of a claim if there is one. What fn has put into the batch is then
// committed; without a batch nothing is written.
func (s *Store) update(
	ctx context.Context, key backend.Key, owner backend.Owner, ref *backend.ClaimRef, fn func(*update) error,
) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	u := &update{s: s, key: key}
	stripe := s.taskStripe(key)
	second := stripe
	if ref != nil {
		u.claimKey = backend.ClaimKey{Tenant: key.Tenant, Owner: owner, Key: ref.Key}
		second = s.claimStripe(u.claimKey)
	}
	x, err := s.lock(ctx, stripe, second)
	if err != nil {
		return err
	}
	defer x.end()
	rows := &s.stripes[stripe].rows
	if u.rec = rows.get(key); u.rec == nil {
		if u.rec, err = s.getRecord(s.db, key); err != nil {
			return x.refuse(ctx, err)
		}
	}
	if ref != nil {
		if u.claim, err = s.getClaim(u.claimKey); err != nil {
			return x.refuse(ctx, err)
		}
	}
	if err := fn(u); err != nil || u.b == nil {
		return x.refuse(ctx, err)
	}
	rows.set(key, u.next)
	return x.commit(ctx, u.b, key)
}

// put puts the row, and what goes with every write of it, into the batch.
func (u *update) put(row *backend.Row, l layout, events []backend.Event, claim *backend.Claim) error {
	u.next = &record{Row: *row, layout: l}
	if err := u.b.Set(rowKey(u.key), appendRecord(nil, u.next), nil); err != nil {
		return err
	}
	if err := moveIndex(u.b, u.key, &u.rec.Row, row); err != nil {
		return err
	}
	for i := range events {
		if err := u.b.Set(eventKey(u.key, events[i].Seq), appendEvent(nil, &events[i]), nil); err != nil {
			return err
		}
	}
	if claim != nil {
		return u.b.Set(claimKey(u.claimKey), appendClaim(nil, claim), nil)
	}
	return nil
}

// bury puts the removal of the task, of the log and of all that hangs on them into the batch, and the row that is left.
func (u *update) bury(row *backend.Row) error {
	for _, space := range [...]byte{spaceDocument, spaceEvent, spaceAppend} {
		prefix := taskPrefix(space, u.key)
		if err := u.s.clear(u.b, prefix, after(prefix)); err != nil {
			return err
		}
	}
	return u.put(row, layout{}, nil, nil)
}
