package backendtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var claimScenarios = []scenario{
	{name: "Claim/Outcomes", run: testClaimOutcomes},
	{name: "Claim/Scopes", run: testClaimScopes},
	{name: "Claim/Lease", needs: []Capability{Clock}, run: testClaimLease},
	{name: "Claim/Bind", run: testClaimBind},
	{name: "Claim/BindTTL", needs: []Capability{Clock}, run: testClaimTTL},
	{name: "Claim/LateHolder", needs: []Capability{Clock}, run: testLateHolder},
	{name: "Claim/Release", run: testRelease},
	{name: "Claim/LateRelease", needs: []Capability{Clock}, run: testLateRelease},
	{name: "Claim/OneOfMany", run: testOneOfMany},
}

const (
	lease = 30 * time.Second
	ttl   = 24 * time.Hour
)

func (s *space) claimRequest(key, messageID, taskID, token string) *backend.ClaimRequest {
	return &backend.ClaimRequest{
		Key:       backend.ClaimKey{Tenant: s.tenant, Owner: s.owner, Key: key},
		MessageID: messageID, TaskID: taskID, Token: token, Lease: lease, TTL: ttl,
	}
}

// claim wants an outcome, and the task id that goes with it.
func (s *space) claim(key, messageID, taskID, token string, want backend.ClaimOutcome, wantTask string) backend.ClaimResult {
	s.Helper()
	res, err := s.store.ClaimKey(s.Context(), s.claimRequest(key, messageID, taskID, token))
	if err != nil {
		s.Fatalf("claim of %q: %v", key, err)
	}
	if res.Outcome != want || res.TaskID != wantTask || res.Expires.IsZero() == (want == backend.Claimed) {
		s.Errorf("claim of %q by %q for %q: %+v, want outcome %d and task %q", key, token, messageID, res, want, wantTask)
	}
	return res
}

func (s *space) release(key, token string) error {
	return s.store.ReleaseKey(s.Context(), &backend.ReleaseRequest{
		Key: backend.ClaimKey{Tenant: s.tenant, Owner: s.owner, Key: key}, Token: token,
	})
}

// bind makes a request carry a claim.
func bind(req *backend.SaveRequest, key, token string) *backend.SaveRequest {
	req.Claim = &backend.ClaimRef{Key: key, Token: token}
	return req
}

func testClaimOutcomes(t *testing.T, e *env) {
	s := e.space(t)
	s.claim("key", "m", "task", "one", backend.Claimed, "task")
	s.claim("key", "m", "task", "one", backend.Claimed, "task") // again
	s.claim("key", "m", "other task", "two", backend.Replay, "task")
	s.claim("key", "other", "other task", "two", backend.Conflict, "")
	s.claim("key", "other", "task", "three", backend.Conflict, "")
	s.claim("other key", "m", "other task", "two", backend.Claimed, "other task")
	s.missing("task") // a claim creates nothing
}

func testClaimScopes(t *testing.T, e *env) {
	s := e.space(t)
	for i, scope := range []*space{
		s, s.as(backend.OwnerOf("")), s.as(backend.Owner{}), s.as(backend.OwnerOf("own")), e.space(t),
		e.space(t).as(backend.Owner{}),
	} {
		id := fmt.Sprint("task ", i)
		scope.claim("key", "m", id, id, backend.Claimed, id)
	}
	if err := s.as(backend.Owner{}).release("key", "task 2"); err != nil {
		t.Errorf("release: %v", err)
	}
	s.claim("key", "m", "x", "x", backend.Replay, "task 0")
	s.as(backend.OwnerOf("")).claim("key", "m", "x", "x", backend.Replay, "task 1")
	// A write binds the key of its own scope.
	s.reason(s.save(bind(s.whole(taskIn("task 0", working), absent), "key", "task 1")), backend.ErrClaimLost)
	s.must(bind(s.whole(taskIn("task 0", working), absent), "key", "task 0"))
	for i, id := range awkwardIDs {
		s.claim(id, "m", id, fmt.Sprint("token ", i), backend.Claimed, id)
	}
	for _, id := range awkwardIDs {
		s.claim(id, "m", "x", "x", backend.Replay, id)
	}
}

// save is for results that do not matter.
func (s *space) save(req *backend.SaveRequest) error {
	_, err := s.store.Save(s.Context(), req)
	return err
}

func testClaimLease(t *testing.T, e *env) {
	s := e.space(t)
	start := e.clock.Now()
	if res := s.claim("key", "m", "a", "one", backend.Claimed, "a"); !res.Expires.Equal(start.Add(lease)) {
		t.Errorf("expires %v", res.Expires)
	}
	e.clock.advance(lease - time.Nanosecond)
	s.claim("key", "m", "b", "two", backend.Replay, "a") // a replay extends nothing
	s.claim("key", "n", "b", "two", backend.Conflict, "")
	e.clock.advance(time.Nanosecond)
	s.claim("key", "n", "b", "two", backend.Claimed, "b") // the crash of one blocks nothing
	s.claim("key", "m", "a", "one", backend.Conflict, "")

	e.clock.advance(lease / 2)
	renewed := e.clock.Now()
	if res := s.claim("key", "n", "b", "two", backend.Claimed, "b"); !res.Expires.Equal(renewed.Add(lease)) {
		t.Errorf("renewed until %v", res.Expires)
	}
	e.clock.advance(lease - 1)
	s.claim("key", "n", "c", "three", backend.Replay, "b")
	short := s.claimRequest("key", "n", "b", "two")
	short.Lease = time.Nanosecond // does not shorten what stands
	if res, err := s.store.ClaimKey(t.Context(), short); err != nil || !res.Expires.Equal(renewed.Add(lease)) {
		t.Errorf("renewed for nothing: %+v, %v", res, err)
	}
	e.clock.advance(1)
	s.claim("key", "n", "c", "three", backend.Claimed, "c")
}

func testClaimBind(t *testing.T, e *env) {
	s := e.space(t)
	s.refused(bind(s.whole(taskIn("t", working), absent), "key", "one"), backend.ErrClaimLost) // never claimed
	s.claim("key", "m", "t", "one", backend.Claimed, "t")
	s.refused(bind(s.whole(taskIn("t", working), absent), "key", "two"), backend.ErrClaimLost)
	s.refused(bind(s.whole(taskIn("other", working), absent), "key", "one"), backend.ErrClaimTaskMismatch)
	s.must(bind(s.whole(taskIn("t", working), absent), "key", "one"))
	s.claim("key", "m", "x", "two", backend.Replay, "t")
	s.claim("key", "m", "t", "one", backend.Claimed, "t")
	s.must(bind(s.change("t", historyDelta(t, -1, message("m")), present), "key", "one")) // later writes may carry it
	s.refused(bind(s.change("t", historyDelta(t, -1, message("m")), present), "key", "two"), backend.ErrClaimLost)
	s.mustDelete("t") // keys stay
	s.claim("key", "m", "x", "two", backend.Replay, "t")

	// A refused write binds nothing.
	s.claim("free", "m", "t2", "one", backend.Claimed, "t2")
	s.refused(bind(s.whole(taskIn("t2", working), present), "free", "one"), backend.ErrTaskNotFound)
	if err := s.release("free", "one"); err != nil {
		t.Errorf("release after a refused write: %v", err)
	}

	// A replay binds nothing either: it writes nothing.
	first := s.whole(taskIn("t3", working), absent)
	first.WriteID = "w"
	s.must(first)
	s.claim("unbound", "m", "t3", "one", backend.Claimed, "t3")
	if res := s.must(bind(first, "unbound", "one")); !res.Replayed {
		t.Errorf("%+v", res)
	}
	if err := s.release("unbound", "one"); err != nil {
		t.Errorf("release after a replay: %v", err)
	}

	// Appends bind, too.
	s.claim("append", "m", "log", "one", backend.Claimed, "log")
	req := s.appending("log", textEvent("x"))
	req.Claim = &backend.ClaimRef{Key: "append", Token: "two"}
	s.notAppended(req, backend.ErrClaimLost)
	req.Claim.Token = "one"
	s.append(req)
	s.reason(s.release("append", "one"), backend.ErrKeyBound)
	wrong := s.appending("another log", textEvent("x"))
	wrong.Claim = req.Claim
	s.notAppended(wrong, backend.ErrClaimTaskMismatch)
}

func testClaimTTL(t *testing.T, e *env) {
	s := e.space(t)
	s.claim("key", "m", "t", "one", backend.Claimed, "t")
	e.clock.advance(lease - 1)
	bound := e.clock.Now()
	s.must(bind(s.whole(taskIn("t", working), absent), "key", "one"))
	e.clock.advance(time.Hour)
	// Neither the holder, nor a replay, nor another bound write extends it.
	if res := s.claim("key", "m", "t", "one", backend.Claimed, "t"); !res.Expires.Equal(bound.Add(ttl)) {
		t.Errorf("expires %v, want %v", res.Expires, bound.Add(ttl))
	}
	s.must(bind(s.whole(taskIn("t", working), present), "key", "one"))
	s.mustDelete("t")
	e.clock.advance(ttl - time.Hour - 1)
	s.claim("key", "m", "x", "two", backend.Replay, "t")
	s.claim("key", "n", "x", "two", backend.Conflict, "")
	e.clock.advance(1)
	s.claim("key", "n", "x", "two", backend.Claimed, "x")
}

func testLateHolder(t *testing.T, e *env) {
	s := e.space(t)
	s.claim("key", "m", "t", "late", backend.Claimed, "t")
	e.clock.advance(lease)
	s.refused(bind(s.whole(taskIn("t", working), absent), "key", "late"), backend.ErrClaimLost) // free, but not its own
	s.claim("key", "m", "t2", "next", backend.Claimed, "t2")
	s.refused(bind(s.whole(taskIn("t", working), whatever), "key", "late"), backend.ErrClaimLost)
	req := s.appending("t", textEvent("x"))
	req.Claim = &backend.ClaimRef{Key: "key", Token: "late"}
	s.notAppended(req, backend.ErrClaimLost)
	s.must(bind(s.whole(taskIn("t2", working), absent), "key", "next"))
	s.missing("t")
}

func testRelease(t *testing.T, e *env) {
	s := e.space(t)
	if err := s.release("key", "one"); err != nil {
		t.Errorf("release of a free key: %v", err)
	}
	s.claim("key", "m", "t", "one", backend.Claimed, "t")
	s.reason(s.release("key", "two"), backend.ErrClaimLost)
	s.claim("key", "m", "x", "two", backend.Replay, "t")
	if err := s.release("key", "one"); err != nil {
		t.Errorf("release: %v", err)
	}
	if err := s.release("key", "one"); err != nil {
		t.Errorf("second release: %v", err)
	}
	s.refused(bind(s.whole(taskIn("t", working), absent), "key", "one"), backend.ErrClaimLost)
	s.claim("key", "n", "t2", "two", backend.Claimed, "t2")
	s.reason(s.release("key", "one"), backend.ErrClaimLost)
	s.must(bind(s.whole(taskIn("t2", working), absent), "key", "two"))
	s.reason(s.release("key", "two"), backend.ErrKeyBound)
	s.reason(s.release("key", "one"), backend.ErrClaimLost)
	s.claim("key", "n", "x", "three", backend.Replay, "t2")
}

func testLateRelease(t *testing.T, e *env) {
	s := e.space(t)
	s.claim("key", "m", "t", "one", backend.Claimed, "t")
	e.clock.advance(lease)
	if err := s.release("key", "two"); err != nil {
		t.Errorf("release of a claim that has ended: %v", err)
	}
	s.claim("key", "m", "t2", "two", backend.Claimed, "t2")
	s.reason(s.release("key", "one"), backend.ErrClaimLost)
	s.claim("key", "m", "x", "three", backend.Replay, "t2")
}

// testOneOfMany: exactly one of many callers that come at once gets the key, and creates its task.
func testOneOfMany(t *testing.T, e *env) {
	s := e.space(t)
	for round := range 5 {
		key := fmt.Sprint("key", round)
		outcomes := make([]backend.ClaimResult, callers)
		parallel(t, callers, func(i int) (err error) {
			id := fmt.Sprint(key, " task ", i)
			outcomes[i], err = s.store.ClaimKey(t.Context(), s.claimRequest(key, "m", id, fmt.Sprint("token", i)))
			if err != nil || outcomes[i].Outcome != backend.Claimed {
				return err
			}
			task, err := document.ParseTask(encode(t, &pb.Task{Id: id}))
			if err != nil {
				return err
			}
			return s.save(bind(&backend.SaveRequest{Key: s.key(id), Owner: s.owner, Task: task}, key, fmt.Sprint("token", i)))
		})
		winner, won := "", 0
		for _, res := range outcomes {
			if res.Outcome == backend.Claimed {
				winner, won = res.TaskID, won+1
			}
		}
		if won != 1 {
			t.Fatalf("%d callers claimed the key", won)
		}
		for i, res := range outcomes {
			if res.Outcome == backend.Conflict || res.TaskID != winner {
				t.Errorf("caller %d: %+v, want task %q", i, res, winner)
			}
		}
		s.holds(&pb.Task{Id: winner})
	}
}
