package a2astore

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// cut returns a text that is a small piece of a large one.
func cut(s string) string { return (s + strings.Repeat("-", 1<<16))[:len(s)] }

// The texts of pieces are the caller's own, until other tasks have got pieces, or one is replaced.
func TestTextsOfPiecesAreCopiedLater(t *testing.T) {
	t.Parallel()
	s := newStore(newFake())
	ctx := as(t.Context(), "alice")
	created := func(id string) (*a2a.Task, taskstore.TaskVersion) {
		task := plainTask()
		task.ID = a2a.TaskID(id)
		return task, mustCreate(t, s, ctx, task)
	}
	update := func(task *a2a.Task, prev taskstore.TaskVersion) taskstore.TaskVersion {
		t.Helper()
		v, err := s.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: prev})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	remembered := func(task *a2a.Task) *memo {
		return s.memory.tasks[memoryKey{owner: "alice", task: string(task.ID)}].Value.(*memo)
	}
	last := func(task *a2a.Task) (passed, kept string) {
		parts, pb := task.Artifacts[0].Parts, remembered(task).task.GetArtifacts()[0].GetParts()
		return parts[len(parts)-1].Text(), pb[len(pb)-1].GetContent().(*taskstorev1.Part_Text).Text
	}
	check := func(task *a2a.Task, loose int) {
		t.Helper()
		passed, kept := last(task)
		if passed != kept {
			t.Fatalf("remembered %q, want %q", kept, passed)
		}
		m := remembered(task)
		if own := unsafe.StringData(passed) == unsafe.StringData(kept); own != (loose > 0) || len(m.loose) != loose {
			t.Errorf("the caller's own: %v, with %d loose texts, want %d", own, len(m.loose), loose)
		}
		weighed := weigher{}
		weighed.task(m.task)
		if want := weighed.bytes + looseWeight*int64(loose); m.bytes != want {
			t.Errorf("counted as %d bytes, want %d", m.bytes, want)
		}
	}

	first, version := created("first")
	for i := range 3 {
		first.Artifacts[0].Parts = append(first.Artifacts[0].Parts, a2a.NewTextPart(cut(fmt.Sprint("piece ", i))))
		version = update(first, version)
		check(first, i+1)
	}

	replaced, other := created("replaced")
	replaced.Artifacts[0].Parts = append(replaced.Artifacts[0].Parts, a2a.NewTextPart(cut("piece")))
	other = update(replaced, other)
	check(replaced, 1)
	replaced.Artifacts[0].Parts = a2a.ContentParts{a2a.NewTextPart(cut("instead"))}
	update(replaced, other)
	check(replaced, 0)

	for i := range maxLoose {
		check(first, 3)
		task, v := created(fmt.Sprint("other ", i))
		task.Artifacts[0].Parts = append(task.Artifacts[0].Parts, a2a.NewTextPart(cut("piece")))
		update(task, v)
		check(task, 1)
	}
	check(first, 0)
	if n := s.memory.loose.Len(); n != maxLoose {
		t.Errorf("%d tasks have loose texts, want %d", n, maxLoose)
	}
	first.Artifacts[0].Parts = append(first.Artifacts[0].Parts, a2a.NewTextPart(cut("piece 3")))
	update(first, version)
	check(first, 1)
}

// A caller may change the very part that it passed: what is remembered is what it was then.
func TestPartsThatAreChangedInPlace(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newStore(f)
	ctx := as(t.Context(), "alice")
	task := plainTask()
	version := mustCreate(t, s, ctx, task)
	piece := a2a.NewTextPart(cut("piece"))
	task.Artifacts[0].Parts = append(task.Artifacts[0].Parts, piece)
	for _, change := range []func(){
		func() {},
		func() { piece.Content = a2a.Text(piece.Text()[:3]) }, // of the very string
		func() { piece.Content = a2a.URL(piece.Text()) },
		func() { piece.Content, piece.Metadata = a2a.Text("piece"), map[string]any{"k": "v"} },
		func() { piece.Metadata["k"] = cut("w") },
		func() { piece.Filename = "f" },
	} {
		change()
		v, err := s.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		version = v
		want, err := encodeTask(task)
		if err != nil {
			t.Fatal(err)
		}
		if stored := parse(f.tasks[key{"", "task-1"}].task); string(canonical(t, stored)) != string(canonical(t, want)) {
			t.Fatalf("stored %v, want %v", stored, want)
		}
	}
}
