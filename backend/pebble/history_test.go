package pebble

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// state is all that the store must know of a key: what a plain program would keep in variables.
type state struct {
	exists  bool
	version int64
	seq     int64
	task    *pb.Task
	events  []string // encoded, of this incarnation
}

// history is every state that one key has been through, by one writer at a time. The last state may not be acknowledged.
type history struct {
	key     backend.Key
	trimmed bool // a sweeper is at work

	mu     sync.Mutex
	moved  *sync.Cond
	states []state // the first one is nothing
	acked  int     // index of the last acknowledged state
	ended  bool    // a call has failed, so that nothing more will be acknowledged
	// The largest numbers that a reader was shown.
	seenVersion, seenSeq int64
}

func newHistory(id string) *history {
	h := &history{key: backend.Key{Tenant: "t", TaskID: id}, states: make([]state, 1)}
	h.moved = sync.NewCond(&h.mu)
	return h
}

func (h *history) begin(next state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states[:h.acked+1], next)
}

func (h *history) ack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = len(h.states) - 1
	h.moved.Broadcast()
}

func (h *history) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.moved.Broadcast()
}

// await returns when n more writes have been acknowledged, or none will be.
func (h *history) await(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for goal := h.acked + n; h.acked < goal && !h.ended; {
		h.moved.Wait()
	}
}

func (h *history) saw(version, seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seenVersion, h.seenSeq = max(h.seenVersion, version), max(h.seenSeq, seq)
}

// bounds is what a store must hold at least.
type bounds struct {
	acked        int
	version, seq int64
}

func (h *history) bounds() bounds {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bounds{acked: h.acked, version: h.seenVersion, seq: h.seenSeq}
}

// possible returns the states from the bounds on.
func (h *history) possible(b bounds) []state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.states[b.acked:])
}

// check reports whether the store holds one of the states, whole, and nothing older than what was shown.
func (h *history) check(ctx context.Context, s *Store, b bounds) error {
	got, err := load(ctx, s, h.key)
	if err != nil {
		return err
	}
	if got.exists && (got.version < b.version || got.seq < b.seq) {
		return fmt.Errorf("%s: version %d, seq %d were shown, %d, %d are there",
			h.key.TaskID, b.version, b.seq, got.version, got.seq)
	}
	states := h.possible(b)
	for i := range states {
		if states[i].stored(&got, h.trimmed) {
			return nil
		}
	}
	return fmt.Errorf("%s: version %d, seq %d, %d events is none of the %d possible states, from version %d, seq %d",
		h.key.TaskID, got.version, got.seq, len(got.events), len(states), states[0].version, states[0].seq)
}

// stored reports whether got is the state, or the state with the oldest events dropped.
func (s *state) stored(got *state, trimmed bool) bool {
	if s.exists != got.exists {
		return false
	}
	events := s.events
	if trimmed {
		events = events[max(0, len(events)-len(got.events)):]
	}
	return !s.exists || s.version == got.version && s.seq == got.seq && slices.Equal(events, got.events) &&
		proto.Equal(s.task, got.task)
}

// load reads the state of a key.
func load(ctx context.Context, s *Store, k backend.Key) (state, error) {
	page, err := s.ReadLog(ctx, &backend.ReadLogRequest{Key: k, Start: backend.Start{Kind: backend.FromNow}})
	if err == nil {
		page, err = s.ReadLog(ctx, &backend.ReadLogRequest{
			Key: k, Start: backend.Start{N: page.Log.FirstSeq - 1}, MaxEvents: 1 << 20, Task: &backend.All,
		})
	}
	if backend.ReasonOf(err) == backend.ErrTaskNotFound {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	got := state{exists: true, version: page.Log.Version, seq: page.Log.LastSeq}
	for _, e := range page.Events {
		got.events = append(got.events, string(e.Bytes))
	}
	if page.Task != nil {
		got.task = &pb.Task{}
		err = proto.Unmarshal(page.Task.Task, got.task)
	}
	return got, err
}
