package backendtest

import (
	"context"
	"errors"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
)

var lifecycleScenarios = []scenario{
	{name: "Lifecycle/Cancelled", run: testCancelled},
	{name: "Lifecycle/Close", needs: []Capability{Closing}, run: testClose},
}

// calls is one call of each method that takes a context; each would succeed.
func (s *space) calls() map[string]func(context.Context) error {
	s.insert(taskIn("t", working), textEvent("x"))
	s.claim("key", "m", "t", "token", backend.Claimed, "t")
	calls := map[string]func(context.Context) error{
		"Save": func(ctx context.Context) error {
			_, err := s.store.Save(ctx, s.whole(taskIn("t", completed), present))
			return err
		},
		"Get": func(ctx context.Context) error {
			_, err := s.store.Get(ctx, &backend.GetRequest{Key: s.key("t"), Owner: s.owner, Extent: backend.All})
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := s.store.List(ctx, &backend.ListRequest{Tenant: s.tenant, Owner: s.owner, Size: 10, MaxBytes: 1 << 20})
			return err
		},
		"Delete": func(ctx context.Context) error {
			_, err := s.store.Delete(ctx, &backend.DeleteRequest{Key: s.key("t"), Owner: s.owner})
			return err
		},
		"ClaimKey": func(ctx context.Context) error {
			_, err := s.store.ClaimKey(ctx, s.claimRequest("new key", "m", "t", "token"))
			return err
		},
		"ReleaseKey": func(ctx context.Context) error {
			return s.store.ReleaseKey(ctx, &backend.ReleaseRequest{Key: s.claimRequest("key", "", "", "").Key, Token: "token"})
		},
		"AppendEvents": func(ctx context.Context) error {
			_, err := s.store.AppendEvents(ctx, s.appending("t", textEvent("x")))
			return err
		},
		"ReadLog": func(ctx context.Context) error {
			_, err := s.store.ReadLog(ctx, &backend.ReadLogRequest{Key: s.key("t"), Owner: s.owner, MaxEvents: 1, MaxBytes: 1 << 20})
			return err
		},
	}
	if !s.lacks(Following) {
		calls["Heads"] = func(ctx context.Context) error {
			_, err := s.store.Heads(ctx, []backend.Key{s.key("t")})
			return err
		}
	}
	if !s.lacks(Sweeping) {
		calls["Sweep"] = func(ctx context.Context) error {
			_, err := s.store.Sweep(ctx, &backend.SweepRequest{Batch: 10})
			return err
		}
	}
	return calls
}

// testCancelled: a call whose context has ended does nothing and says so.
func testCancelled(t *testing.T, e *env) {
	s := e.space(t)
	calls := s.calls()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := s.everything("t")
	for name, call := range calls {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.unchanged("t", before)
	s.claim("key", "m", "x", "other", backend.Replay, "t")
	s.claim("new key", "m", "y", "other", backend.Claimed, "y")
}

func testClose(t *testing.T, e *env) {
	s := e.space(t)
	calls := s.calls()
	calls["Ping"] = e.store.Ping
	if err := e.store.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	if err := e.store.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
