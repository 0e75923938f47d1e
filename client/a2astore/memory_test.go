package a2astore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// saves records the writes that reach a fake: what the delta changes, or "whole".
func saves(f *fake) *[]string {
	var got []string
	f.before = func(_ context.Context, req proto.Message) error {
		if save, ok := req.(*taskstorev1.SaveRequest); ok {
			got = append(got, describe(save.GetDelta()))
		}
		return nil
	}
	return &got
}

func memoOf(id string, version, bytes int64) *memo {
	return &memo{key: memoryKey{task: id}, version: version, bytes: bytes}
}

func TestMemoryForgetsTheLongestUnused(t *testing.T) {
	t.Parallel()
	remembered := func(m *memory) []string {
		var ids []string
		var bytes int64
		for e := m.used.Front(); e != nil; e = e.Next() {
			ids = append(ids, e.Value.(*memo).key.task)
			bytes += e.Value.(*memo).bytes
		}
		if bytes != m.bytes || len(m.tasks) != len(ids) {
			t.Errorf("%d bytes in %d tasks, counted as %d in %d", bytes, len(ids), m.bytes, len(m.tasks))
		}
		return ids
	}
	m := newMemory(3, 100)
	for _, id := range []string{"a", "b", "c"} {
		m.put(memoOf(id, 1, 10))
	}
	m.put(m.take(memoryKey{task: "a"}, 1))
	m.put(memoOf("d", 1, 10))
	if got := remembered(m); !slices.Equal(got, []string{"d", "a", "c"}) {
		t.Errorf("by number: %v", got)
	}
	m.put(memoOf("c", 2, 85))
	if got := remembered(m); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("by bytes: %v", got)
	}
	m.put(memoOf("e", 1, 101))
	m.put(nil)
	m.put(memoOf("c", 1, 10))
	if got := remembered(m); !slices.Equal(got, []string{"c", "d"}) || m.bytes != 95 {
		t.Errorf("too large, nil and old: %v of %d bytes", got, m.bytes)
	}
	if m.take(memoryKey{task: "c"}, 1) != nil || m.take(memoryKey{task: "c"}, 2) != nil {
		t.Error("a version that was asked for in vain is still remembered")
	}
	for _, off := range []*memory{newMemory(0, 100), newMemory(3, 0), newMemory(-1, -1)} {
		off.put(memoOf("a", 1, 0))
		if off.keeps() || len(off.tasks) > 0 {
			t.Errorf("%d tasks, %d bytes: remembers", off.maxTasks, off.maxBytes)
		}
	}
}

// What tasks are said to weigh is near what they take.
func TestWeight(t *testing.T) {
	chunks := func(n int, p func() *a2a.Part) *a2a.Task {
		a := &a2a.Artifact{ID: "a"}
		for range n {
			a.Parts = append(a.Parts, p())
		}
		return &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}, Artifacts: []*a2a.Artifact{a}}
	}
	manyKeys := map[string]any{}
	for i := range 1000 {
		manyKeys[fmt.Sprint("key ", i)] = float64(i)
	}
	tests := map[string]*a2a.Task{
		"small":        plainTask(),
		"small chunks": chunks(1000, func() *a2a.Part { return chunk(1) }),
		"kilobytes":    chunks(1000, func() *a2a.Part { return kilobyte(1) }),
		"raw":          chunks(10, func() *a2a.Part { return a2a.NewRawPart(make([]byte, 1<<16)) }),
		"numbers":      chunks(10, func() *a2a.Part { return a2a.NewDataPart(make([]float64, 1000)) }),
		"history":      longTask(0, 500),
		"metadata":     {ID: "t", Metadata: manyKeys},
		"objects": chunks(100, func() *a2a.Part {
			return a2a.NewDataPart([]any{map[string]any{"a": "b"}, map[string]any{"a": map[string]any{"b": []any{"c"}}}})
		}),
	}
	for name, task := range tests {
		t.Run(name, func(t *testing.T) {
			pb, err := encodeTask(task)
			if err != nil {
				t.Fatal(err)
			}
			pb = wire(t, pb)
			weighs := read(memoryKey{}, pb, 1).bytes
			list := make([]*taskstorev1.Task, 1+(8<<20)/weighs)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.GC() // what pools hold survives the first one
			runtime.ReadMemStats(&before)
			for i := range list {
				list[i] = proto.CloneOf(pb)
				written(memoryKey{}, list[i], 1) // copies the text, which proto does not
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(list)
			takes := int64(after.HeapAlloc-before.HeapAlloc) / int64(len(list))
			if weighs < takes*3/4 || weighs > takes*3/2 {
				t.Errorf("weighs %d bytes, takes %d", weighs, takes)
			}
		})
	}
}

// Which writes send what changed: those after a write or a read of the same version by the same user.
func TestWhatIsRemembered(t *testing.T) {
	t.Parallel()
	f := newFake()
	got := saves(f)
	s, other := newStore(f), newStore(f, WithMemory(0, 0))
	ctx := as(t.Context(), "alice")
	version := mustCreate(t, s, ctx, plainTask())
	task := plainTask()
	update := func(s *Store, prev taskstore.TaskVersion, want string) {
		t.Helper()
		task.Artifacts[0].Parts = append(task.Artifacts[0].Parts, chunk(1))
		v, err := s.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: prev})
		if err != nil {
			t.Fatal(err)
		}
		version = v
		if last := (*got)[len(*got)-1]; last != want {
			t.Errorf("version %d was written as %q, want %q", v, last, want)
		}
	}
	update(s, version, "append 1 to 4 of a-1") // after a create
	update(s, version, "append 1 to 5 of a-1") // after a delta
	update(other, version, "whole")            // without memory
	mustGet(t, other, ctx, task.ID)
	update(other, version, "whole")
	update(s, version, "whole")                // behind the others
	update(s, version, "append 1 to 9 of a-1") // after a whole task
	update(s, 0, "whole")                      // of whatever version
	update(s, version, "append 1 to 11 of a-1")
	update(other, version, "whole")
	mustGet(t, s, ctx, task.ID)
	mustGet(t, s, ctx, task.ID)
	update(s, version, "append 1 to 13 of a-1") // after a read

	if _, err := s.Update(as(t.Context(), "bob"), &taskstore.UpdateRequest{Task: task, PrevVersion: version}); err == nil || (*got)[len(*got)-1] != "whole" {
		t.Errorf("somebody else's: %v, %v", (*got)[len(*got)-1], err)
	}
	update(s, version, "append 1 to 14 of a-1")

	task.Status.State = a2a.TaskStateCompleted
	update(s, version, "status, append 1 to 15 of a-1")
	mustGet(t, s, ctx, task.ID)
	if n := len(s.memory.tasks); n > 0 {
		t.Errorf("%d tasks that have ended are remembered", n)
	}
}

// A write that failed leaves what is remembered, unless it says that the version is gone.
func TestWhatIsRememberedAfterFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*a2a.Task)
		err    error
		want   bool
	}{
		{"refused here", func(task *a2a.Task) { task.Metadata["bad"] = struct{}{} }, nil, true},
		{"unavailable", func(*a2a.Task) {}, failure(codes.Unavailable, "UNAVAILABLE", "draining"), true},
		{"out of time", func(*a2a.Task) {}, context.DeadlineExceeded, true},
		{"too large", func(*a2a.Task) {}, failure(codes.ResourceExhausted, "TASK_TOO_LARGE", "too large"), true},
		{"another version", func(*a2a.Task) {}, failure(codes.Aborted, "VERSION_CONFLICT", "another version"), false},
		{"ended", func(*a2a.Task) {}, failure(codes.FailedPrecondition, "TERMINAL_STATE", "has ended"), false},
		{"deleted", func(*a2a.Task) {}, failure(codes.NotFound, "TASK_NOT_FOUND", "task not found"), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			s := newStore(f)
			ctx := as(t.Context(), "alice")
			version := mustCreate(t, s, ctx, plainTask())
			f.before = func(context.Context, proto.Message) error { return tc.err }
			task := plainTask()
			tc.change(task)
			if _, err := s.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: version}); err == nil {
				t.Fatal("no error")
			}
			if got := len(s.memory.tasks) == 1; got != tc.want {
				t.Errorf("remembered: %v, want %v", got, tc.want)
			}
		})
	}
}

// An id can be used again when a task is gone, also behind the back of this store.
func TestTasksThatAreCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	ctx := as(t.Context(), "alice")
	version := mustCreate(t, s, ctx, plainTask())
	for range 3 {
		v, err := s.Update(ctx, &taskstore.UpdateRequest{Task: plainTask(), PrevVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		version = v
	}
	delete(f.tasks, key{"", "task-1"})
	version = mustCreate(t, s, ctx, deltaTask())
	got := saves(f)
	if _, err := s.Update(ctx, &taskstore.UpdateRequest{Task: deltaTask(), PrevVersion: version}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*got, []string{""}) {
		t.Errorf("written as %q", *got)
	}
}

// A service that was put back to a backup gives versions out again. What was read last counts.
func TestVersionsThatAreGivenAgain(t *testing.T) {
	t.Parallel()
	f := newFake()
	s, other := newStore(f), newStore(f)
	ctx := as(t.Context(), "alice")
	created := mustCreate(t, s, ctx, plainTask())
	stored := f.tasks[key{"", "task-1"}]
	backup := *stored
	write := func(s *Store, prev taskstore.TaskVersion, state a2a.TaskState) {
		t.Helper()
		task := plainTask()
		task.Status.State = state
		if _, err := s.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: prev}); err != nil {
			t.Fatal(err)
		}
		if got := decodeState(parse(stored.task).GetStatus().GetState()); got != state {
			t.Errorf("behind version %d: %s is stored, want %s", prev, got, state)
		}
	}
	write(s, created, a2a.TaskStateWorking)
	*stored = backup
	write(other, created, a2a.TaskStateAuthRequired)
	write(s, mustGet(t, s, ctx, "task-1").Version, a2a.TaskStateWorking)
}

// Whatever the caller does with a task that it passed, or got, does not change what is remembered.
func TestRememberedTasksArePrivate(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	ctx := as(t.Context(), "alice")
	task := plainTask()
	version := mustCreate(t, s, ctx, task)
	raw := func() a2a.Raw { return task.Artifacts[0].Parts[1].Content.(a2a.Raw) }
	check := func(what string) {
		t.Helper()
		raw()[0]++ // in the bytes that were passed before
		task.Metadata["k"] = what
		v, err := s.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		version = v
		want, err := encodeTask(task)
		if err != nil {
			t.Fatal(err)
		}
		if stored := parse(f.tasks[key{"", "task-1"}].task); !proto.Equal(stored, want) {
			t.Errorf("%s: stored %v, want %v", what, stored, want)
		}
	}
	check("after a create")
	check("after a delta")
	s.memory.forget(memoryKey{owner: "alice", task: "task-1"})
	check("as a whole")
	check("after a whole task")
	s.memory.forget(memoryKey{owner: "alice", task: "task-1"})
	task = mustGet(t, s, ctx, "task-1").Task
	check("after a read")
}

// If what is remembered is not what is stored after all, the service says so, and gets the whole task.
func TestDeltasThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"ARTIFACT_UNKNOWN", "ARTIFACT_AMBIGUOUS", "BASE_PARTS_CONFLICT"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			s := newStore(f)
			ctx := as(t.Context(), "alice")
			version := mustCreate(t, s, ctx, plainTask())
			got := saves(f)
			if reason == "BASE_PARTS_CONFLICT" {
				for _, e := range s.memory.tasks {
					a := e.Value.(*memo).task.Artifacts[0]
					a.Parts = a.Parts[:3]
				}
			} else {
				f.before = func(_ context.Context, req proto.Message) error {
					save, ok := req.(*taskstorev1.SaveRequest)
					if !ok {
						return nil
					}
					*got = append(*got, describe(save.GetDelta()))
					if save.GetDelta() != nil {
						return failure(codes.FailedPrecondition, reason, "the delta does not fit")
					}
					return nil
				}
			}
			task := plainTask()
			task.Artifacts[0].Parts = append(task.Artifacts[0].Parts, chunk(1))
			v, err := s.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: version})
			if err != nil || v != version+1 {
				t.Fatalf("version %d, %v", v, err)
			}
			if len(*got) != 2 || (*got)[0] == "whole" || (*got)[1] != "whole" {
				t.Errorf("written as %q", *got)
			}
			if n := len(mustGet(t, s, ctx, task.ID).Task.Artifacts[0].Parts); n != 5 {
				t.Errorf("%d parts", n)
			}
		})
	}
}

// What did not fit is forgotten, also if the whole task cannot be written either.
func TestDeltasThatDoNotFitAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	ctx := as(t.Context(), "alice")
	version := mustCreate(t, s, ctx, plainTask())
	f.before = func(_ context.Context, req proto.Message) error {
		if req.(*taskstorev1.SaveRequest).GetDelta() != nil {
			return failure(codes.FailedPrecondition, "ARTIFACT_UNKNOWN", "no artifact has this id")
		}
		return failure(codes.Unavailable, "UNAVAILABLE", "draining")
	}
	_, err := s.Update(ctx, &taskstore.UpdateRequest{Task: plainTask(), PrevVersion: version})
	wantError(t, err, a2a.ErrServerError)
	if n := len(s.memory.tasks); n > 0 {
		t.Errorf("%d tasks are remembered", n)
	}
}

// Deltas keep the fields that this version does not know in what they do not touch.
func TestUnknownFieldsOutsideOfDeltas(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	ctx := as(t.Context(), "alice")
	mustCreate(t, s, ctx, deltaTask())
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 100, protowire.BytesType), make([]byte, 10_000))
	row := f.tasks[key{"", "task-1"}]
	stored := parse(row.task)
	for _, m := range []proto.Message{stored, stored.Artifacts[0], stored.Artifacts[1], stored.History[0], stored.Artifacts[1].Parts[0]} {
		m.ProtoReflect().SetUnknown(unknown)
	}
	row.task = canonical(t, stored)
	row.version++

	got := mustGet(t, s, ctx, "task-1")
	if s.memory.bytes < int64(len(row.task)) {
		t.Errorf("%d bytes are remembered as %d", len(row.task), s.memory.bytes)
	}
	got.Task.Status.State = a2a.TaskStateWorking
	got.Task.Artifacts[1].Parts = append(got.Task.Artifacts[1].Parts, chunk(3))
	if _, err := s.Update(ctx, &taskstore.UpdateRequest{Task: got.Task, PrevVersion: got.Version}); err != nil {
		t.Fatal(err)
	}
	after := parse(row.task)
	for _, m := range []proto.Message{after, after.Artifacts[0], after.Artifacts[1], after.History[0], after.Artifacts[1].Parts[0]} {
		if len(m.ProtoReflect().GetUnknown()) == 0 {
			t.Errorf("lost in %T", m)
		}
	}
}
