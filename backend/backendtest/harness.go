// Package backendtest is the conformance suite of backend.Store: every rule of the contract that a backend decides, run the
// same way over every engine, and over anything else that can be made to look like a Store, such as a client in front of
// a server.
package backendtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Options is what a scenario asks of the store that it runs on.
type Options struct {
	// Now is the store's clock, safe for concurrent use. A store that lacks Clock keeps its own.
	Now func() time.Time
	// Limits are what the store checks writes against.
	Limits backend.Limits
}

// Capability is something that the suite needs of a Store and that not everything that looks like one offers.
type Capability string

// The capabilities.
const (
	// Clock: the store's time is Options.Now.
	Clock Capability = "clock"
	// TaskLimit: Options.Limits is obeyed.
	TaskLimit Capability = "task limit"
	// Sweeping: Sweep works.
	Sweeping Capability = "sweep"
	// Following: Heads and Watch work.
	Following Capability = "heads and watch"
	// Internals: what a Store tells the server, and the server tells nobody: incarnations, the resolved start of a page of a
	// log, the write id of an event and whether it was appended; and what only the server asks for: pages bounded in bytes or
	// starting anywhere, lists of states, a log's page without events.
	Internals Capability = "internals"
	// Closing: Ping and Close act on the store itself.
	Closing Capability = "ping and close"
)

// Harness tells the suite how to get at a Store.
type Harness struct {
	// Open returns a new, empty store. The suite closes it.
	Open func(tb testing.TB, opt Options) backend.Store
	// Lacks names the capabilities that the stores do not have, each with the reason. Scenarios, and parts of them, that need
	// one are left out.
	Lacks map[Capability]string
}

// scenario is one part of the suite. It runs on a store of its own.
type scenario struct {
	name  string
	needs []Capability
	limit int64 // Limits.TaskBytes
	run   func(t *testing.T, e *env)
}

// Run runs the suite, in parallel subtests of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range slices.Sorted(maps.Keys(h.Lacks)) {
		t.Logf("without %s: %s", c, h.Lacks[c])
	}
	for _, group := range [][]scenario{
		saveScenarios, stateScenarios, deltaScenarios, getScenarios, deleteScenarios, listScenarios, claimScenarios,
		appendScenarios, logScenarios, followScenarios, retentionScenarios, fidelityScenarios, concurrencyScenarios,
		modelScenarios, lifecycleScenarios,
	} {
		for _, s := range group {
			if slices.ContainsFunc(s.needs, h.lacks) {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, newEnv(t, &h, s.limit))
			})
		}
	}
}

func (h *Harness) lacks(c Capability) bool {
	_, ok := h.Lacks[c]
	return ok
}

// env is the store of one scenario.
type env struct {
	*Harness
	store  backend.Store
	clock  *fakeClock
	spaces atomic.Int64
}

func newEnv(t *testing.T, h *Harness, limit int64) *env {
	t.Helper()
	e := &env{Harness: h, clock: newClock()}
	e.store = h.Open(t, Options{Now: e.clock.Now, Limits: backend.Limits{TaskBytes: limit}})
	t.Cleanup(func() {
		if err := e.store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return e
}

// space returns a tenant that nothing else uses.
func (e *env) space(t tb) *space {
	return &space{tb: t, env: e, tenant: "tenant-" + strconv.FormatInt(e.spaces.Add(1), 10), owner: backend.OwnerOf("owner")}
}

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	rapid.TB
	Context() context.Context
}

// fakeClock stands still until it is advanced.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

// newClock starts at a time with nanoseconds, so that a store that loses them is found out.
func newClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)}
}

// Now returns the time.
func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
