package pebble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
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

// step makes a random write of the key and, if the store takes it, acknowledges it.
func (h *history) step(ctx context.Context, s *Store, r *rand.Rand) error {
	h.mu.Lock()
	next := h.states[h.acked]
	h.mu.Unlock()
	next.task, _ = proto.Clone(next.task).(*pb.Task)
	next.events = slices.Clone(next.events)

	var call func() error
	switch kind := r.IntN(20); {
	case !next.exists, kind == 0:
		call = h.saveWhole(ctx, s, r, &next)
	case kind == 1:
		next.exists, next.task, next.events = false, nil, nil
		call = func() error {
			_, err := s.Delete(ctx, &backend.DeleteRequest{Key: h.key})
			return err
		}
	case kind < 5:
		ev := event(r, "appended")
		next.seq++
		next.events = append(next.events, string(ev.Bytes))
		call = func() error {
			_, err := s.AppendEvents(ctx, &backend.AppendRequest{
				Key: h.key, Events: []document.Event{ev}, WriteID: strconv.Itoa(int(next.seq)),
			})
			return err
		}
	default:
		call = h.saveDelta(ctx, s, r, &next)
	}
	h.begin(next)
	if err := call(); err != nil {
		return err
	}
	h.ack()
	return nil
}

func (h *history) saveWhole(ctx context.Context, s *Store, r *rand.Rand, next *state) func() error {
	next.task = &pb.Task{Id: h.key.TaskID, ContextId: "c", Status: status(r)}
	for i := range count(r) {
		next.task.Artifacts = append(next.task.Artifacts, artifact(r, strconv.Itoa(i)))
	}
	for range count(r) {
		next.task.History = append(next.task.History, message(r))
	}
	req := &backend.SaveRequest{
		Key: h.key, Task: must(document.ParseTask(encode(next.task))), Pre: backend.Precondition{Condition: backend.Any},
	}
	h.withEvent(req, r, next)
	return func() error {
		_, err := s.Save(ctx, req)
		return err
	}
}

// withEvent gives a Save an event, and the state what it leaves.
func (h *history) withEvent(req *backend.SaveRequest, r *rand.Rand, next *state) {
	if !next.exists {
		next.exists, next.events = true, nil
	}
	next.version++
	next.seq++
	if r.IntN(4) == 0 {
		req.Events = []backend.EventInput{{Snapshot: true}}
		snapshot := &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: next.task}}
		next.events = append(next.events, string(encode(snapshot)))
		return
	}
	ev := event(r, "saved")
	req.Events = []backend.EventInput{{Event: ev}}
	next.events = append(next.events, string(ev.Bytes))
}

func (h *history) saveDelta(ctx context.Context, s *Store, r *rand.Rand, next *state) func() error {
	t := next.task
	if t == nil {
		return h.saveWhole(ctx, s, r, next)
	}
	d := &document.Delta{MaxHistory: -1}
	if r.IntN(2) == 0 {
		t.Status = status(r)
		d.Status = must(document.ParseStatus(encode(t.Status)))
	}
	switch kind := r.IntN(4); {
	case kind == 0:
		a := artifact(r, strconv.Itoa(r.IntN(5)))
		d.Put = must(document.ParseArtifact(encode(a)))
		if i := slices.IndexFunc(t.Artifacts, func(o *pb.Artifact) bool { return o.ArtifactId == a.ArtifactId }); i >= 0 {
			t.Artifacts[i] = a
		} else {
			t.Artifacts = append(t.Artifacts, a)
		}
	case kind < 3 && len(t.Artifacts) > 0:
		a := t.Artifacts[r.IntN(len(t.Artifacts))]
		part := textPart(text(r))
		d.Append = &document.AppendToArtifact{
			ID: a.ArtifactId, Base: len(a.Parts), Parts: must(document.ParseParts([][]byte{encode(part)})),
		}
		a.Parts = append(a.Parts, part)
	default:
		m := message(r)
		d.History = must(document.ParseHistory([][]byte{encode(m)}))
		t.History = append(t.History, m)
		if r.IntN(3) == 0 {
			d.MaxHistory = r.IntN(5)
			t.History = t.History[max(0, len(t.History)-d.MaxHistory):]
		}
	}
	req := &backend.SaveRequest{Key: h.key, Delta: d, Pre: backend.Precondition{Condition: backend.Present}}
	h.withEvent(req, r, next)
	return func() error {
		_, err := s.Save(ctx, req)
		return err
	}
}

// look reads a key as some reader would, and notes what it was shown.
func (h *history) look(ctx context.Context, s *Store, r *rand.Rand) error {
	switch r.IntN(3) {
	case 0:
		res, err := s.Get(ctx, &backend.GetRequest{Key: h.key, Extent: backend.Extent{StateOnly: true}})
		if err == nil {
			h.saw(res.Version, res.LastSeq)
		}
		return ignoreNotFound(err)
	case 1:
		heads, err := s.Heads(ctx, []backend.Key{h.key})
		if err == nil {
			h.saw(heads[0].Version, heads[0].LastSeq)
		}
		return err
	default:
		res, err := s.List(ctx, &backend.ListRequest{Tenant: h.key.Tenant, Size: 100, SkipTotal: true})
		for _, row := range res.Rows {
			if decodeTask(row.Task).Id == h.key.TaskID {
				h.saw(row.Version, 0)
			}
		}
		return err
	}
}

func ignoreNotFound(err error) error {
	if backend.ReasonOf(err) == backend.ErrTaskNotFound {
		return nil
	}
	return err
}

// loadRun is a writer for each history, and readers. Each runs until one of its calls fails.
type loadRun struct {
	stop chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func startLoad(ctx context.Context, s *Store, seed uint64, histories []*history, readers int) *loadRun {
	l := &loadRun{stop: make(chan struct{})}
	for _, h := range histories {
		h.ended = false
	}
	run := func(n int, step func(r *rand.Rand) error) {
		l.wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				if err := step(r); err != nil {
					l.fail(err, histories)
					return
				}
			}
		})
	}
	for i, h := range histories {
		run(i, func(r *rand.Rand) error { return h.step(ctx, s, r) })
	}
	for i := range readers {
		run(len(histories)+i, func(r *rand.Rand) error { return histories[r.IntN(len(histories))].look(ctx, s, r) })
	}
	return l
}

// sweep makes a sweeper part of the load, which trims the logs to a few events.
func (l *loadRun) sweep(ctx context.Context, s *Store, histories []*history) {
	for _, h := range histories {
		h.trimmed = true
	}
	l.wg.Go(func() {
		req := &backend.SweepRequest{Retention: backend.Retention{LogEvents: 4}, Batch: 3}
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			res, err := s.Sweep(ctx, req)
			if err != nil {
				l.fail(err, histories)
				return
			}
			req.Cursor = res.Cursor
		}
	})
}

func (l *loadRun) fail(err error, histories []*history) {
	l.mu.Lock()
	l.errs = append(l.errs, err)
	l.mu.Unlock()
	for _, h := range histories {
		h.end()
	}
}

// end stops the load and returns the errors that ended parts of it.
func (l *loadRun) end() []error {
	close(l.stop)
	l.wg.Wait()
	return l.errs
}

func newHistories(n int) []*history {
	hs := make([]*history, n)
	for i := range hs {
		hs[i] = newHistory("task-" + strconv.Itoa(i))
	}
	return hs
}

func allBounds(hs []*history) []bounds {
	bs := make([]bounds, len(hs))
	for i, h := range hs {
		bs[i] = h.bounds()
	}
	return bs
}

// checkAll verifies the store, and that it holds a possible state of every key.
func checkAll(t *testing.T, s *Store, hs []*history, bs []bounds) {
	t.Helper()
	if err := s.Verify(t.Context()); err != nil {
		t.Errorf("verify: %v", err)
	}
	for i, h := range hs {
		if err := h.check(t.Context(), s, bs[i]); err != nil {
			t.Error(err)
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func text(r *rand.Rand) string { return fmt.Sprintf("%0*d", 1+r.IntN(200), r.Uint32()) }

// count is how many artifacts or messages a whole save has: few, or too many to be deleted one by one.
func count(r *rand.Rand) int {
	if r.IntN(10) == 0 {
		return clearByKey + r.IntN(10)
	}
	return r.IntN(4)
}

func textPart(s string) *pb.Part { return &pb.Part{Content: &pb.Part_Text{Text: s}} }

func artifact(r *rand.Rand, id string) *pb.Artifact {
	a := &pb.Artifact{ArtifactId: id, Name: text(r)}
	for range r.IntN(3) {
		a.Parts = append(a.Parts, textPart(text(r)))
	}
	return a
}

func message(r *rand.Rand) *pb.Message {
	return &pb.Message{MessageId: text(r), Parts: []*pb.Part{textPart(text(r))}}
}

func status(r *rand.Rand) *pb.TaskStatus {
	s := &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING}
	if r.IntN(2) == 0 {
		s.State = pb.TaskState_TASK_STATE_INPUT_REQUIRED
	}
	if r.IntN(5) > 0 {
		s.Timestamp = timestamppb.New(time.Unix(int64(r.IntN(1000)), int64(r.IntN(1000))))
	}
	return s
}

func event(r *rand.Rand, id string) document.Event {
	return must(document.ParseEvent(encode(&pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{
		MessageId: id, Parts: []*pb.Part{textPart(text(r))},
	}}})))
}

func encode(m proto.Message) []byte {
	return must(proto.MarshalOptions{Deterministic: true}.Marshal(m))
}

func decodeTask(b []byte) *pb.Task {
	t := &pb.Task{}
	if err := proto.Unmarshal(b, t); err != nil {
		panic(err)
	}
	return t
}

// must is for values that the test makes itself.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
