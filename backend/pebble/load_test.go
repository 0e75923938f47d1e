package pebble

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

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
