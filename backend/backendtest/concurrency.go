package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var concurrencyScenarios = []scenario{
	{name: "Concurrency/OneVersionOneWinner", run: testOneWinner},
	{name: "Concurrency/OneInsert", run: testOneInsert},
	{name: "Concurrency/Linearizable", run: testLinearizable},
	{name: "Concurrency/ManyTasks", run: testManyTasks},
}

// callers is how many come at once.
const callers = 64

// parallel runs fn n times at once, and reports what fails.
func parallel(t *testing.T, n int, fn func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := fn(i); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
}

// winners counts the calls that took effect; the others must have failed for the reason.
func winners(t *testing.T, want backend.Reason, save func(i int) error) int {
	t.Helper()
	var mu sync.Mutex
	won := 0
	parallel(t, callers, func(i int) error {
		err := save(i)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			won++
			return nil
		}
		if !errors.Is(err, want) {
			return err
		}
		return nil
	})
	return won
}

func testOneWinner(t *testing.T, e *env) {
	s := e.space(t)
	s.insert(taskIn("t", working))
	for version := int64(1); version <= 6; version++ {
		won := winners(t, backend.ErrVersionConflict, func(i int) error {
			var req *backend.SaveRequest
			if i%2 == 0 {
				req = s.whole(taskIn("t", working), atVersion(version))
			} else {
				req = s.change("t", historyDelta(t, -1, message(strconv.Itoa(i))), atVersion(version))
			}
			req.Events = inputs(t, textEvent(strconv.Itoa(i)))
			return s.save(req)
		})
		if _, res := s.get("t"); won != 1 || res.Version != version+1 || res.LastSeq != version {
			t.Fatalf("%d callers won version %d: %+v", won, version, res)
		}
	}
}

func testOneInsert(t *testing.T, e *env) {
	s := e.space(t)
	for round := range 5 {
		id := strconv.Itoa(round)
		won := winners(t, backend.ErrTaskExists, func(i int) error {
			o := s.as(backend.OwnerOf(strconv.Itoa(i % 4)))
			return o.save(o.whole(taskIn(id, working), absent))
		})
		if won != 1 {
			t.Fatalf("%d callers inserted one id", won)
		}
		// Unconditional writes all take effect, one behind the other.
		trusted := s.as(backend.Owner{})
		parallel(t, callers, func(i int) error {
			return trusted.save(trusted.whole(taskIn(id, working), whatever))
		})
		if _, res := trusted.get(id); res.Version != callers+1 {
			t.Errorf("version %d", res.Version)
		}
	}
}

// A register is one task; its value is the marker of the latest write.
type (
	registerInput struct {
		kind    string // "get", "save", "delta", "delete"
		version int64  // the precondition's; 0 is none: an insert, or an unconditional delta or delete
		marker  string
	}
	registerOutput struct {
		reason  backend.Reason
		version int64
		marker  string
	}
	register struct {
		exists  bool
		version int64 // also of what was deleted
		marker  string
	}
)

func (r register) step(in registerInput, out registerOutput) (bool, register) {
	switch in.kind {
	case "get":
		if !r.exists {
			return out.reason == backend.ErrTaskNotFound, r
		}
		return out.reason == "" && out.version == r.version && out.marker == r.marker, r
	case "delete":
		return out.reason == "", register{version: r.version}
	}
	want := backend.Reason("")
	switch {
	case in.kind == "save" && in.version == 0 && r.exists:
		want = backend.ErrTaskExists
	case in.kind == "save" && in.version == 0:
	case !r.exists:
		want = backend.ErrTaskNotFound
	case in.version != 0 && in.version != r.version:
		want = backend.ErrVersionConflict
	}
	if want != "" {
		return out.reason == want, r
	}
	next := register{exists: true, version: r.version + 1, marker: in.marker}
	return out.reason == "" && out.version == next.version, next
}

// testLinearizable records what concurrent callers of a few tasks see, and wants one order that explains it.
func testLinearizable(t *testing.T, e *env) {
	s := e.space(t)
	const workers, operations, tasks = 8, 60, 3
	start := time.Now()
	histories := make([][]porcupine.Operation, tasks)
	var mu sync.Mutex
	parallel(t, workers, func(worker int) error {
		for i := range operations {
			n := (worker*7 + i*5) % tasks
			id := strconv.Itoa(n)
			in := registerInput{kind: "get", marker: fmt.Sprint(worker, "/", i)}
			call := time.Since(start)
			var out registerOutput
			switch (worker*3 + i*i) % 11 {
			case 0, 1, 2, 3:
				out.version, out.marker, out.reason = s.marker(id)
			case 4, 5:
				in.kind = "save"
				out = s.mark(s.whole(marked(id, in.marker), absent))
			case 6:
				in.kind = "delta"
				out = s.mark(s.change(id, statusDelta(t, marked(id, in.marker).Status), present))
			case 7:
				in.kind = "delete"
				_, err := s.delete(id, 0)
				out.reason = backend.ReasonOf(err)
			default: // read, modify, write; the read is recorded, too
				out.version, out.marker, out.reason = s.marker(id)
				mu.Lock()
				histories[n] = append(histories[n], porcupine.Operation{
					ClientId: worker, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(start)),
				})
				mu.Unlock()
				if out.reason != "" {
					continue
				}
				in.kind, in.version = "save", out.version
				call = time.Since(start)
				out = s.mark(s.whole(marked(id, in.marker), atVersion(in.version)))
			}
			mu.Lock()
			histories[n] = append(histories[n], porcupine.Operation{
				ClientId: worker, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(start)),
			})
			mu.Unlock()
		}
		return nil
	})
	for id, history := range histories {
		result := porcupine.CheckOperationsTimeout(porcupine.Model{
			Init: func() any { return register{} },
			Step: func(state, in, out any) (bool, any) {
				return state.(register).step(in.(registerInput), out.(registerOutput))
			},
		}, history, time.Minute)
		if result != porcupine.Ok {
			t.Errorf("no order explains what was seen of task %d (%s)", id, result)
		}
	}
}

// marked is a task that shows its marker.
func marked(id, marker string) *pb.Task {
	m := taskIn(id, working)
	m.Status.Message = &pb.Message{MessageId: marker}
	return m
}

func (s *space) marker(id string) (version int64, marker string, reason backend.Reason) {
	res, err := s.read(id, backend.All)
	if err != nil {
		return 0, "", backend.ReasonOf(err)
	}
	return res.Version, decodeTask(s.tb, res.Task).GetStatus().GetMessage().GetMessageId(), ""
}

func (s *space) mark(req *backend.SaveRequest) registerOutput {
	res, err := s.store.Save(s.Context(), req)
	return registerOutput{version: res.Version, reason: backend.ReasonOf(err)}
}

// testManyTasks: writers of different tasks, in different tenants, do not disturb each other.
func testManyTasks(t *testing.T, e *env) {
	spaces := []*space{e.space(t), e.space(t), e.space(t)}
	const perCaller = 4
	parallel(t, callers, func(i int) error {
		s := spaces[i%len(spaces)]
		for k := range perCaller {
			id := fmt.Sprint(i, "/", k)
			m := taskAt(id, "ctx", working, day(2025, time.January, 1+i%28))
			req := s.whole(m, absent)
			req.Events = inputs(t, textEvent(id))
			if err := s.save(req); err != nil {
				return err
			}
			if err := s.save(s.change(id, putDelta(t, artifact(id, "x")), atVersion(1))); err != nil {
				return err
			}
			if _, err := s.store.AppendEvents(t.Context(), s.appending(id, textEvent("more"))); err != nil {
				return err
			}
			if k == 0 {
				if _, err := s.delete(id, 2); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for n, s := range spaces {
		var want []*pb.Task
		for i := n; i < callers; i += len(spaces) {
			for k := 1; k < perCaller; k++ {
				m := taskAt(fmt.Sprint(i, "/", k), "ctx", working, day(2025, time.January, 1+i%28))
				want = append(want, m)
				s.inLog(m.Id, 1, 2)
				stored, _ := s.get(m.Id)
				if len(stored.Artifacts) != 1 || stored.Artifacts[0].ArtifactId != m.Id {
					t.Errorf("%q holds %v", m.Id, stored.Artifacts)
				}
			}
		}
		s.same(s.walk(backend.ListRequest{Size: 11}), sorted(want))
	}
}

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
