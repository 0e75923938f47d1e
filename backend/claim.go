package backend

import "time"

// Claim is the record under a ClaimKey.
type Claim struct {
	MessageID string
	TaskID    string
	Token     string
	// Bound is set once a write has carried the claim.
	Bound bool
	// Expires, in nanoseconds since 1970, is the end of the lease, or of the ttl once it is bound.
	Expires int64
	TTL     time.Duration
}

// Live reports whether the claim stands at the time. A record that does not is as good as none.
func (c *Claim) Live(now time.Time) bool { return c != nil && now.UnixNano() < c.Expires }

// holds reports whether the token holds the key.
func (c *Claim) holds(token string, now time.Time) bool { return c.Live(now) && c.Token == token }

// bind returns the record that a write with the token leaves.
func (c *Claim) bind(token, taskID string, now time.Time) (*Claim, error) {
	if !c.holds(token, now) {
		return nil, errClaimLost()
	}
	if c.TaskID != taskID {
		return nil, &Error{Reason: ErrClaimTaskMismatch, Detail: "the key was claimed for another task id"}
	}
	bound := *c
	if !c.Bound {
		bound.Bound = true
		bound.Expires = now.Add(c.TTL).UnixNano()
	}
	return &bound, nil
}

func errClaimLost() error {
	return &Error{Reason: ErrClaimLost, Detail: "the token does not hold the key"}
}

// DecideClaim decides a ClaimKey. next is the record that it leaves, nil if the record stays as it is. A token that holds the
// key goes on holding it for the message and the task that it was claimed for first.
func DecideClaim(c *Claim, req *ClaimRequest, now time.Time) (next *Claim, res ClaimResult) {
	switch {
	case !c.Live(now):
		next = &Claim{
			MessageID: req.MessageID, TaskID: req.TaskID, Token: req.Token,
			Expires: now.Add(req.Lease).UnixNano(), TTL: req.TTL,
		}
	case c.Token != req.Token && c.MessageID != req.MessageID:
		return nil, ClaimResult{Outcome: Conflict}
	case c.Token != req.Token:
		return nil, ClaimResult{Outcome: Replay, TaskID: c.TaskID}
	case c.Bound:
		return nil, ClaimResult{Outcome: Claimed, TaskID: c.TaskID, Expires: At(c.Expires)}
	default:
		renewed := *c
		renewed.Expires = max(c.Expires, now.Add(req.Lease).UnixNano())
		next = &renewed
	}
	return next, ClaimResult{Outcome: Claimed, TaskID: next.TaskID, Expires: At(next.Expires)}
}

// DecideRelease decides a ReleaseKey: whether the record goes.
func DecideRelease(c *Claim, token string, now time.Time) (remove bool, err error) {
	switch {
	case !c.Live(now):
		return false, nil
	case c.Token != token:
		return false, errClaimLost()
	case c.Bound:
		return false, &Error{Reason: ErrKeyBound, Detail: "a write has bound the key"}
	default:
		return true, nil
	}
}
