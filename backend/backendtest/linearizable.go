package backendtest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

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
