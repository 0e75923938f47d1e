package backendtest

import (
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var stateScenarios = []scenario{
	{name: "States/WholeSave", run: func(t *testing.T, e *env) {
		testStates(t, e, func(s *space, m *pb.Task, pre backend.Precondition) *backend.SaveRequest {
			return s.whole(m, pre)
		})
	}},
	{name: "States/HeadDelta", run: func(t *testing.T, e *env) {
		testStates(t, e, func(s *space, m *pb.Task, pre backend.Precondition) *backend.SaveRequest {
			return s.change(m.Id, headDelta(s.tb, m), pre)
		})
	}},
	{name: "States/StatusDelta", run: func(t *testing.T, e *env) {
		testStates(t, e, func(s *space, m *pb.Task, pre backend.Precondition) *backend.SaveRequest {
			return s.change(m.Id, statusDelta(s.tb, m.Status), pre)
		})
	}},
	{name: "States/OtherDeltas", run: testDeltasOfTerminal},
	{name: "States/Unknown", run: testUnknownStates},
}

func isTerminal(s pb.TaskState) bool {
	return s == completed || s == failed || s == canceled || s == rejected
}

// testStates tries all pairs of states with all preconditions that a present task can pass.
func testStates(t *testing.T, e *env, write func(*space, *pb.Task, backend.Precondition) *backend.SaveRequest) {
	for _, pre := range []struct {
		name string
		pre  backend.Precondition
	}{{"version", atVersion(1)}, {"present", present}, {"not terminal", notTerminal}, {"any", whatever}} {
		t.Run(pre.name, func(t *testing.T) {
			t.Parallel()
			s := e.space(t)
			for _, from := range allStates {
				for _, to := range allStates {
					id := from.String() + " to " + to.String()
					s.insert(taskIn(id, from))
					req := write(s, taskIn(id, to), pre.pre)
					if isTerminal(from) && (from != to || pre.pre == notTerminal) {
						err := s.refused(req, backend.ErrTerminalState)
						s.meta(err, "stored_state", from.String())
						s.meta(err, "attempted_state", to.String())
						s.meta(err, "current_version", "1")
						continue
					}
					if res := s.must(req); res.Version != 2 {
						t.Errorf("%s: version %d", id, res.Version)
					}
					got, res := s.get(id)
					if got.GetStatus().GetState() != to || res.Final != isTerminal(to) {
						t.Errorf("%s: stored %v, final %v", id, got.GetStatus().GetState(), res.Final)
					}
				}
			}
		})
	}
}

// testDeltasOfTerminal: a delta that leaves the state alone rewrites the same state.
func testDeltasOfTerminal(t *testing.T, e *env) {
	s := e.space(t)
	for _, state := range allStates {
		m := taskIn(state.String(), state)
		s.insert(m)
		for _, pre := range []backend.Precondition{present, whatever, atVersion(3)} {
			s.must(s.change(m.Id, putDelta(t, artifact("late")), pre))
		}
		if req := s.change(m.Id, putDelta(t, artifact("later")), notTerminal); isTerminal(state) {
			s.refused(req, backend.ErrTerminalState)
		} else {
			s.must(req)
		}
	}
}

// testUnknownStates: a state that a later A2A adds is kept, and is not terminal.
func testUnknownStates(t *testing.T, e *env) {
	s := e.space(t)
	for _, state := range []pb.TaskState{9, 77, -1, -2147483648, 2147483647} {
		id := state.String()
		s.insert(taskIn(id, state))
		s.holds(taskIn(id, state))
		s.must(s.change(id, statusDelta(t, &pb.TaskStatus{State: state + 1}), notTerminal))
		s.holds(taskIn(id, state+1))
		s.must(s.whole(taskIn(id, failed), present))
		s.meta(s.refused(s.whole(taskIn(id, state), present), backend.ErrTerminalState), "attempted_state", id)
	}
}
