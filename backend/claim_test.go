package backend_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

const (
	lease = 30 * time.Second
	ttl   = 24 * time.Hour
)

// claimed is a claim of token "one" for message "m" and task "t", that ends at the time.
func claimed(bound bool, expires time.Time) *backend.Claim {
	return &backend.Claim{MessageID: "m", TaskID: "t", Token: "one", Bound: bound, Expires: expires.UnixNano(), TTL: ttl}
}

func TestDecideClaim(t *testing.T) {
	t.Parallel()
	fresh := func(message, task, token string) *backend.Claim {
		return &backend.Claim{MessageID: message, TaskID: task, Token: token, Expires: now.Add(lease).UnixNano(), TTL: ttl}
	}
	live, far := now.Add(1), now.Add(time.Hour)
	for _, tc := range []struct {
		name     string
		stored   *backend.Claim
		message  string
		token    string
		wantNext *backend.Claim
		want     backend.ClaimResult
	}{
		{"free", nil, "n", "two", fresh("n", "u", "two"), backend.ClaimResult{Outcome: backend.Claimed, TaskID: "u", Expires: now.Add(lease)}},
		{"lease ended", claimed(false, now), "n", "two", fresh("n", "u", "two"), backend.ClaimResult{Outcome: backend.Claimed, TaskID: "u", Expires: now.Add(lease)}},
		{"ttl ended", claimed(true, now), "m", "one", fresh("m", "u", "one"), backend.ClaimResult{Outcome: backend.Claimed, TaskID: "u", Expires: now.Add(lease)}},
		{"renewed", claimed(false, live), "m", "one", claimed(false, now.Add(lease)), backend.ClaimResult{Outcome: backend.Claimed, TaskID: "t", Expires: now.Add(lease)}},
		{"renewed, never shortened", claimed(false, far), "m", "one", claimed(false, far), backend.ClaimResult{Outcome: backend.Claimed, TaskID: "t", Expires: far}},
		{"bound holder", claimed(true, far), "m", "one", nil, backend.ClaimResult{Outcome: backend.Claimed, TaskID: "t", Expires: far}},
		{"replay", claimed(false, live), "m", "two", nil, backend.ClaimResult{Outcome: backend.Replay, TaskID: "t"}},
		{"replay of a bound one", claimed(true, live), "m", "two", nil, backend.ClaimResult{Outcome: backend.Replay, TaskID: "t"}},
		{"conflict", claimed(false, live), "n", "two", nil, backend.ClaimResult{Outcome: backend.Conflict}},
		{"holder of a bound one asks for another message", claimed(true, live), "n", "one", nil, backend.ClaimResult{Outcome: backend.Claimed, TaskID: "t", Expires: live}},
	} {
		req := &backend.ClaimRequest{MessageID: tc.message, TaskID: "u", Token: tc.token, Lease: lease, TTL: ttl}
		next, got := backend.DecideClaim(tc.stored, req, now)
		if diff := cmp.Diff(tc.wantNext, next); diff != "" {
			t.Errorf("%s: record (-want +got):\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: result (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestDecideRelease(t *testing.T) {
	t.Parallel()
	live := now.Add(1)
	for _, tc := range []struct {
		name   string
		stored *backend.Claim
		token  string
		remove bool
		want   backend.Reason
	}{
		{"free", nil, "one", false, ""},
		{"ended", claimed(false, now), "one", false, ""},
		{"ended, another's", claimed(true, now), "two", false, ""},
		{"held", claimed(false, live), "one", true, ""},
		{"another's", claimed(false, live), "two", false, backend.ErrClaimLost},
		{"bound", claimed(true, live), "one", false, backend.ErrKeyBound},
		{"another's, bound", claimed(true, live), "two", false, backend.ErrClaimLost},
	} {
		remove, err := backend.DecideRelease(tc.stored, tc.token, now)
		if remove != tc.remove || backend.ReasonOf(err) != tc.want {
			t.Errorf("%s: %v, %v", tc.name, remove, err)
		}
	}
}

// TestBind: what writes do with the claim that they carry.
func TestBind(t *testing.T) {
	t.Parallel()
	live := now.Add(1)
	for _, tc := range []struct {
		name   string
		stored *backend.Claim
		token  string
		taskID string
		next   *backend.Claim
		want   backend.Reason
	}{
		{"held", claimed(false, live), "one", "t", claimed(true, now.Add(ttl)), ""},
		{"bound before", claimed(true, live), "one", "t", claimed(true, live), ""},
		{"free", nil, "one", "t", nil, backend.ErrClaimLost},
		{"ended", claimed(false, now), "one", "t", nil, backend.ErrClaimLost},
		{"bound, ended", claimed(true, now), "one", "t", nil, backend.ErrClaimLost},
		{"another's", claimed(false, live), "two", "t", nil, backend.ErrClaimLost},
		{"another task", claimed(false, live), "one", "u", nil, backend.ErrClaimTaskMismatch},
		{"another's, another task", claimed(false, live), "two", "u", nil, backend.ErrClaimLost},
	} {
		key := backend.Key{Tenant: "tenant", TaskID: tc.taskID}
		ref := &backend.ClaimRef{Key: "key", Token: tc.token}
		plan, err := backend.PlanSave(&backend.Row{}, &backend.SaveRequest{
			Key: key, Owner: alice, Task: taskIn(t, "ctx", working), Claim: ref,
		}, nil, tc.stored, backend.Limits{}, now)
		if got := backend.ReasonOf(err); got != tc.want {
			t.Errorf("%s: save: %v", tc.name, err)
		}
		if err == nil && !cmp.Equal(plan.Claim, tc.next) {
			t.Errorf("%s: save leaves %+v", tc.name, plan.Claim)
		}
		appended, err := backend.PlanAppend(&backend.Row{}, &backend.AppendRequest{
			Key: key, Owner: alice, Events: make([]document.Event, 1), Claim: ref,
		}, fakeLog{}, tc.stored, now)
		if got := backend.ReasonOf(err); got != tc.want {
			t.Errorf("%s: append: %v", tc.name, err)
		}
		if err == nil && !cmp.Equal(appended.Claim, tc.next) {
			t.Errorf("%s: append leaves %+v", tc.name, appended.Claim)
		}
	}
	// A write without one leaves the record alone.
	plan, err := backend.PlanSave(&backend.Row{}, &backend.SaveRequest{Key: key, Owner: alice, Task: taskIn(t, "ctx", working)},
		nil, nil, backend.Limits{}, now)
	if err != nil || plan.Claim != nil {
		t.Errorf("%+v, %v", plan, err)
	}
}
