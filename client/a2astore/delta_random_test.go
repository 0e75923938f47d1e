package a2astore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	backendmemory "github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	taskserver "github.com/a2a-taskstore/taskstore/server"
)

// serveMemory serves a store in memory, and returns a client of it.
func serveMemory(t testing.TB, opts ...grpc.DialOption) *client.Client {
	t.Helper()
	store, err := backendmemory.Open(backendmemory.Config{MaxBytes: 1 << 30, Limits: backend.Limits{TaskBytes: taskserver.TaskBytes(0)}})
	if err != nil {
		t.Fatal(err)
	}
	srv := taskserver.New(store, taskserver.Config{Logger: slog.New(slog.DiscardHandler)})
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	c, err := client.Dial("passthrough:///localhost", client.WithDialOptions(append(opts,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(srv.Shutdown(ctx), <-served, store.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// flaky fails the next write, before or after it took effect.
type flaky struct {
	service
	refuse, lose bool
	deltas       int
}

func (f *flaky) Save(ctx context.Context, req *taskstorev1.SaveRequest, opts ...grpc.CallOption) (*taskstorev1.SaveResponse, error) {
	refuse, lose := f.refuse, f.lose
	f.refuse, f.lose = false, false
	if refuse {
		return nil, failure(codes.Unavailable, "UNAVAILABLE", "not written")
	}
	resp, err := f.service.Save(ctx, req, opts...)
	if err == nil && req.GetDelta() != nil {
		f.deltas++
	}
	if lose {
		return nil, failure(codes.Unavailable, "UNAVAILABLE", "the reply is lost")
	}
	return resp, err
}

// twins are two tasks that get the same updates: one through a store that sends deltas, one through a store that does not.
type twins struct {
	apis    [2]*flaky
	stores  [2]*Store // with deltas, and without
	writers [2]*Store // another replica
	ctx     context.Context

	task    *a2a.Task // as the caller has it
	version taskstore.TaskVersion
}

var twinID atomic.Int64

func newTwins(t *rapid.T, ctx context.Context, api service) *twins {
	w := &twins{ctx: ctx}
	for i, tenant := range []string{"deltas", "whole"} {
		w.apis[i] = &flaky{service: api}
		var limits Option
		switch {
		case i == 1:
			limits = WithMemory(0, 0)
		case rapid.Bool().Draw(t, "short memory"):
			limits = WithMemory(1, rapid.Int64Range(1, 20_000).Draw(t, "bytes"))
		default:
			limits = WithMemory(10, 1<<20)
		}
		w.stores[i] = newStore(w.apis[i], WithTenant(tenant), limits)
		w.writers[i] = newStore(api, WithTenant(tenant), WithMemory(0, 0))
	}
	w.task = plainTask()
	w.task.ID = a2a.TaskID(fmt.Sprint("task-", twinID.Add(1)))
	w.do(t, func(s *Store) (taskstore.TaskVersion, error) { return s.Create(ctx, clone(t, w.task)) }, w.stores)
	return w
}

// clone copies a task as a reader gets it.
func clone(t *rapid.T, task *a2a.Task) *a2a.Task {
	pb, err := encodeTask(task)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return decodeTask(wire(rapidTB{t: t}, pb))
}

// do makes a call to both stores, and checks that they say and store the same.
func (w *twins) do(t *rapid.T, call func(*Store) (taskstore.TaskVersion, error), stores [2]*Store) error {
	v, err := call(stores[0])
	wantV, wantErr := call(stores[1])
	if v != wantV || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("version %d, %v; without deltas %d, %v", v, err, wantV, wantErr)
	}
	if err == nil {
		w.version = v
	}
	var stored [2][]byte
	for i, tenant := range []string{"deltas", "whole"} {
		owner := "alice"
		resp, err := w.apis[i].Get(w.ctx, &taskstorev1.GetRequest{
			Scope: &taskstorev1.Scope{Tenant: tenant, Owner: &owner}, TaskId: string(w.task.ID),
		})
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		resp.CreatedAt, resp.UpdatedAt, resp.FinalizedAt, resp.Now = nil, nil, nil, nil
		stored[i] = canonical(rapidTB{t: t}, resp)
	}
	if !bytes.Equal(stored[0], stored[1]) {
		t.Fatalf("stored %q, want %q", stored[0], stored[1])
	}
	w.checkMemory(t)
	return err
}

// checkMemory checks that what is remembered is bounded, and is what it is counted as.
func (w *twins) checkMemory(t *rapid.T) {
	m := w.stores[0].memory
	var total int64
	for _, e := range m.tasks {
		found := e.Value.(*memo)
		total += found.bytes
		weighed := weigher{}
		weighed.task(found.task)
		weighed.add(looseWeight * len(found.loose))
		if found.bytes < weighed.bytes {
			t.Fatalf("counted as %d bytes, weighs %d", found.bytes, weighed.bytes)
		}
		if (found.inLoose != nil) != (len(found.loose) > 0) {
			t.Fatalf("%d loose texts, listed: %v", len(found.loose), found.inLoose != nil)
		}
	}
	if total != m.bytes || total > m.maxBytes || len(m.tasks) > m.maxTasks {
		t.Fatalf("%d tasks of %d bytes, counted as %d", len(m.tasks), total, m.bytes)
	}
}

// update writes the task, and keeps or spoils it afterwards, as the caller may.
func (w *twins) update(t *rapid.T, task *a2a.Task, event a2a.Event, prev taskstore.TaskVersion, stores [2]*Store) error {
	is := clone(t, task)
	err := w.do(t, func(s *Store) (taskstore.TaskVersion, error) {
		return s.Update(w.ctx, &taskstore.UpdateRequest{Task: task, Event: event, PrevVersion: prev})
	}, stores)
	switch {
	case stores == w.stores && rapid.Bool().Draw(t, "keep"):
		w.task = task // the caller goes on with what it passed, and changes it in place
		return err
	case task == w.task, err == nil && stores == w.stores:
		w.task = is
	}
	spoil(task)
	return err
}

// reload is what a caller does that lost against another, or does not know what became of its write.
func (w *twins) reload(t *rapid.T) {
	for _, s := range w.stores {
		got, err := s.Get(w.ctx, w.task.ID)
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		w.task, w.version = got.Task, got.Version
	}
}

func spoil(task *a2a.Task) {
	clear(task.Metadata)
	for _, a := range task.Artifacts {
		clear(a.Metadata)
		for _, p := range a.Parts {
			if raw, ok := p.Content.(a2a.Raw); ok {
				for i := range raw {
					raw[i]++
				}
			}
			p.Filename += "spoilt"
			p.Content = a2a.Text("spoilt")
		}
		clear(a.Parts)
	}
	for _, m := range append(task.History, task.Status.Message) {
		if m != nil {
			clear(m.Parts)
			clear(m.Extensions)
			m.ID = "spoilt"
		}
	}
	clear(task.Artifacts)
	clear(task.History)
}

// sdkUpdate changes the task as a2a-go does, and returns the event.
func sdkUpdate(t *rapid.T, task *a2a.Task) a2a.Event {
	if rapid.Bool().Draw(t, "status") {
		status := drawStatus(t).in
		if rapid.IntRange(0, 9).Draw(t, "may end") > 0 {
			status.State = a2a.TaskStateWorking
		}
		event := &a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: status}
		if rapid.IntRange(0, 3).Draw(t, "metadata") == 0 {
			event.Metadata = drawMetadata(t).in
		}
		if task.Status.Message != nil {
			task.History = append(task.History, task.Status.Message)
		}
		if event.Metadata != nil {
			if task.Metadata == nil {
				task.Metadata = map[string]any{}
			}
			maps.Copy(task.Metadata, event.Metadata)
		}
		task.Status = event.Status
		return event
	}
	event := &a2a.TaskArtifactUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Append: true, Artifact: drawArtifact(t).in}
	i := -1
	if len(task.Artifacts) > 0 && rapid.IntRange(0, 3).Draw(t, "known artifact") > 0 {
		i = rapid.IntRange(0, len(task.Artifacts)-1).Draw(t, "which")
	}
	switch a := event.Artifact; {
	case i < 0:
		event.Append = false
		task.Artifacts = append(task.Artifacts, a)
	case rapid.IntRange(0, 3).Draw(t, "replace") == 0:
		event.Append = false
		a.ID = task.Artifacts[i].ID
		task.Artifacts[i] = a
	default:
		old := task.Artifacts[i]
		a.ID = old.ID
		old.Parts = append(old.Parts, a.Parts...)
		if a.Metadata != nil && rapid.Bool().Draw(t, "merge") {
			if old.Metadata == nil {
				old.Metadata = map[string]any{}
			}
			maps.Copy(old.Metadata, a.Metadata)
		}
	}
	return event
}

// change changes the task in any way.
func change(t *rapid.T, task *a2a.Task) {
	other := drawTask(t).in
	pick := func(n int) int { return rapid.IntRange(0, n).Draw(t, "index") }
	switch rapid.IntRange(0, 12).Draw(t, "change") {
	case 0:
		task.Artifacts = other.Artifacts
	case 1:
		task.History = other.History
	case 2:
		task.Metadata = other.Metadata
	case 3:
		task.History = task.History[pick(len(task.History)):]
		task.History = append(task.History, other.History...)
	case 4:
		task.History = task.History[:pick(len(task.History))]
	case 5:
		task.Artifacts = task.Artifacts[:pick(len(task.Artifacts))]
	case 6:
		slices.Reverse(task.Artifacts)
	case 7:
		task.Artifacts = slices.Insert(task.Artifacts, pick(len(task.Artifacts)), other.Artifacts...)
	case 8:
		if n := len(task.Artifacts); n > 0 {
			a := task.Artifacts[pick(n-1)]
			a.Parts = append(a.Parts[:pick(len(a.Parts))], drawParts(t).in...)
		}
	case 9:
		if n := len(task.Artifacts); n > 0 {
			task.Artifacts[pick(n-1)].ID = task.Artifacts[pick(n-1)].ID
		}
	case 10:
		if n := len(task.History); n > 0 {
			task.History[pick(n-1)] = drawMessage(t).in
		}
	case 11:
		if n := len(task.History); n > 0 {
			task.History = append(task.History[pick(n-1):], task.History[pick(n-1)])
		}
	case 12: // in the very part
		if n := len(task.Artifacts); n > 0 {
			if parts := task.Artifacts[pick(n-1)].Parts; len(parts) > 0 {
				p := parts[pick(len(parts)-1)]
				if raw, ok := p.Content.(a2a.Raw); ok && len(raw) > 0 {
					raw[0]++
				} else {
					*p = *drawPart(t).in
				}
			}
		}
	}
}

// Whatever a caller does, a store that sends deltas leaves what a store leaves that does not.
func TestDeltasLeaveWhatWholeSavesLeave(t *testing.T) {
	t.Parallel()
	for name, api := range map[string]service{"fake": newFake(), "server": serveMemory(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := as(t.Context(), "alice")
			var deltas atomic.Int64
			rapid.Check(t, func(t *rapid.T) {
				w := newTwins(t, ctx, api)
				for range rapid.IntRange(1, 12).Draw(t, "steps") {
					w.step(t)
				}
				deltas.Add(int64(w.apis[0].deltas))
			})
			if n := deltas.Load(); n < 100 {
				t.Errorf("only %d deltas were sent", n)
			}
		})
	}
}

func (w *twins) step(t *rapid.T) {
	task := w.task
	if rapid.Bool().Draw(t, "copy") {
		task = clone(t, w.task)
	}
	var event a2a.Event
	kind := rapid.IntRange(0, 15).Draw(t, "step")
	if kind != 0 {
		event = sdkUpdate(t, task)
	}
	prev := w.version
	switch kind {
	case 0, 1:
		change(t, task)
	case 2:
		prev = 0
	case 3:
		prev = max(1, prev-1)
	case 4: // another replica is first
		_ = w.update(t, task, event, 0, w.writers)
		task = clone(t, w.task)
		event = sdkUpdate(t, task)
	case 5:
		w.stores[0].memory.forget(memoryKey{"deltas", "alice", string(w.task.ID)})
	case 6:
		for _, api := range w.apis {
			api.refuse = true
		}
	case 7:
		for _, api := range w.apis {
			api.lose = true
		}
	case 8:
		w.reload(t)
	}
	err := w.update(t, task, event, prev, w.stores)
	if err != nil && rapid.Bool().Draw(t, "reload") {
		w.reload(t)
	}
}
