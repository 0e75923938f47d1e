package a2astore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// describe says what a delta changes; "whole" for none.
func describe(d *taskstorev1.TaskDelta) string {
	if d == nil {
		return "whole"
	}
	var out []string
	switch d.GetHeadChange().(type) {
	case *taskstorev1.TaskDelta_Head:
		out = append(out, "head")
	case *taskstorev1.TaskDelta_Status:
		out = append(out, "status")
	}
	switch c := d.GetArtifactChange().(type) {
	case *taskstorev1.TaskDelta_PutArtifact:
		out = append(out, "put "+c.PutArtifact.GetArtifactId())
	case *taskstorev1.TaskDelta_AppendParts:
		what := fmt.Sprintf("append %d to %d of %s", len(c.AppendParts.GetParts()), c.AppendParts.GetBaseParts(), c.AppendParts.GetArtifactId())
		if c.AppendParts.GetArtifact() != nil {
			what += " with fields"
		}
		out = append(out, what)
	}
	if n := len(d.GetAppendHistory()); n > 0 {
		out = append(out, fmt.Sprint("history +", n))
	}
	if d.MaxHistory != nil {
		out = append(out, fmt.Sprint("history max ", d.GetMaxHistory()))
	}
	return strings.Join(out, ", ")
}

func said(id string) *a2a.Message {
	return &a2a.Message{ID: id, Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(id)}}
}

// deltaTask has two artifacts and a history of four.
func deltaTask() *a2a.Task {
	task := plainTask()
	task.Artifacts = append(task.Artifacts, &a2a.Artifact{ID: "a-2", Parts: a2a.ContentParts{chunk(1), chunk(2)}})
	task.History = append(task.History, said("m-3"), said("m-4"), said("m-5"))
	return task
}

func TestDeltas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*a2a.Task)
		want   string
	}{
		{"nothing", func(*a2a.Task) {}, ""},
		{"another value that is stored the same", func(task *a2a.Task) { task.Metadata["list"].([]any)[0] = 1 }, ""},
		{"state", func(task *a2a.Task) { task.Status.State = a2a.TaskStateWorking }, "status"},
		{"status as a2a-go does it", func(task *a2a.Task) {
			task.History = append(task.History, task.Status.Message)
			task.Status = a2a.TaskStatus{State: a2a.TaskStateWorking}
		}, "status, history +1"},
		{"status with metadata", func(task *a2a.Task) {
			task.History = append(task.History, task.Status.Message)
			task.Status = a2a.TaskStatus{State: a2a.TaskStateWorking}
			task.Metadata["new"] = true
		}, "head, history +1"},
		{"metadata, deep inside", func(task *a2a.Task) { task.Metadata["list"].([]any)[4].(map[string]any)["x"] = 1 }, "head"},
		{"no metadata", func(task *a2a.Task) { task.Metadata = nil }, "head"},
		{"empty metadata", func(task *a2a.Task) { clear(task.Metadata) }, "head"},
		{"context", func(task *a2a.Task) { task.ContextID = "other" }, "whole"},

		{"parts", func(task *a2a.Task) {
			a := task.Artifacts[1]
			a.Parts = append(a.Parts, chunk(3), chunk(4))
		}, "append 2 to 2 of a-2"},
		{"parts and metadata", func(task *a2a.Task) {
			a := task.Artifacts[0]
			a.Parts = append(a.Parts, chunk(3))
			a.Metadata["k"] = "v"
		}, "append 1 to 4 of a-1 with fields"},
		{"metadata of an artifact", func(task *a2a.Task) { task.Artifacts[1].Metadata = map[string]any{} }, "append 0 to 2 of a-2 with fields"},
		{"part that changed", func(task *a2a.Task) { task.Artifacts[1].Parts[0] = chunk(5) }, "put a-2"},
		{"byte that changed", func(task *a2a.Task) { task.Artifacts[0].Parts[1].Content.(a2a.Raw)[2]-- }, "put a-1"},
		{"part that is gone", func(task *a2a.Task) { task.Artifacts[1].Parts = task.Artifacts[1].Parts[:1] }, "put a-2"},
		{"new artifact", func(task *a2a.Task) { task.Artifacts = append(task.Artifacts, &a2a.Artifact{ID: "a-3"}) }, "put a-3"},
		{"new artifact in between", func(task *a2a.Task) {
			task.Artifacts = slices.Insert(task.Artifacts, 1, &a2a.Artifact{ID: "a-3"})
		}, "whole"},
		{"artifact that is gone", func(task *a2a.Task) { task.Artifacts = task.Artifacts[:1] }, "whole"},
		{"artifacts that changed places", func(task *a2a.Task) { slices.Reverse(task.Artifacts) }, "whole"},
		{"two artifacts", func(task *a2a.Task) { task.Artifacts[0].Name, task.Artifacts[1].Name = "x", "y" }, "whole"},
		{"changed and new artifact", func(task *a2a.Task) {
			task.Artifacts[0].Name = "x"
			task.Artifacts = append(task.Artifacts, &a2a.Artifact{ID: "a-3"})
		}, "whole"},
		{"artifact with another id", func(task *a2a.Task) { task.Artifacts[1].ID = "a-3" }, "whole"},
		{"new artifact with an id that is taken", func(task *a2a.Task) {
			task.Artifacts = append(task.Artifacts, &a2a.Artifact{ID: "a-1"})
		}, "whole"},

		{"messages", func(task *a2a.Task) { task.History = append(task.History, said("m-6"), said("m-7")) }, "history +2"},
		{"oldest message gone", func(task *a2a.Task) { task.History = task.History[1:] }, "history max 3"},
		{"window that moves on", func(task *a2a.Task) { task.History = append(task.History[2:], said("m-6")) }, "history +1, history max 3"},
		{"no history", func(task *a2a.Task) { task.History = nil }, "history max 0"},
		{"newest message gone", func(task *a2a.Task) { task.History = task.History[:3] }, "whole"},
		{"message that changed", func(task *a2a.Task) { task.History[1].Parts[0] = chunk(1) }, "whole"},
		{"message in between", func(task *a2a.Task) { task.History = slices.Insert(task.History, 1, said("m-6")) }, "whole"},
		{"another history", func(task *a2a.Task) { task.History = []*a2a.Message{said("m-6")} }, "whole"},

		{"everything that fits", func(task *a2a.Task) {
			task.Metadata = nil
			task.Artifacts[0].Parts = append(task.Artifacts[0].Parts, chunk(3))
			task.History = append(task.History[1:], said("m-6"))
		}, "head, append 1 to 4 of a-1, history +1, history max 4"},
		{"nil message", func(task *a2a.Task) { task.History = append(task.History, nil) }, "whole"},
		{"nil artifact", func(task *a2a.Task) { task.Artifacts[1] = nil }, "whole"},
		{"nil part", func(task *a2a.Task) { task.Artifacts[1].Parts = append(task.Artifacts[1].Parts, nil) }, "whole"},
		{"status that cannot be stored", func(task *a2a.Task) { task.Status.State = "?" }, "whole"},
		{"metadata that cannot be stored", func(task *a2a.Task) { task.Metadata["bad"] = struct{}{} }, "whole"},
		{"artifact that cannot be stored", func(task *a2a.Task) { task.Artifacts[1].Name = "\xff" }, "whole"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			was, err := encodeTask(deltaTask())
			if err != nil {
				t.Fatal(err)
			}
			task := deltaTask()
			tc.change(task)
			delta := deltaOf(was, task)
			if got := describe(delta); got != tc.want {
				t.Fatalf("delta %q, want %q", got, tc.want)
			}
			if delta == nil {
				return
			}
			want, err := encodeTask(task)
			if err != nil {
				t.Fatal(err)
			}
			applied, err := apply(was, delta)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(applied, want) {
				t.Errorf("the delta makes %v, want %v", applied, want)
			}
			// What is remembered afterwards is what another delta starts from.
			m := written(memoryKey{}, was, 1).changed(delta, 2)
			if !proto.Equal(m.task, want) || m.version != 2 {
				t.Errorf("remembered version %d as %v, want %v", m.version, m.task, want)
			}
			m.detach()
			if w := written(memoryKey{}, want, 2); m.bytes != w.bytes {
				t.Errorf("remembered as %d bytes, want %d", m.bytes, w.bytes)
			}
		})
	}
}

// An artifact id that two artifacts hold can stand for neither.
func TestNoDeltaForAmbiguousArtifacts(t *testing.T) {
	t.Parallel()
	task := deltaTask()
	task.Artifacts[0].ID = "a-2"
	was, err := encodeTask(task)
	if err != nil {
		t.Fatal(err)
	}
	task.Status.State = a2a.TaskStateWorking
	if got := describe(deltaOf(was, task)); got != "status" {
		t.Errorf("delta %q of another status", got)
	}
	for i := range task.Artifacts {
		a := *task.Artifacts[i]
		task.Artifacts[i].Parts = append(slices.Clone(a.Parts), chunk(1))
		if got := describe(deltaOf(was, task)); got != "whole" {
			t.Errorf("delta %q of artifact %d", got, i)
		}
		*task.Artifacts[i] = a
	}
}

// A history that repeats one message overlaps with itself in many ways.
func TestRepeatedMessages(t *testing.T) {
	t.Parallel()
	task := &a2a.Task{ID: "t"}
	for range 10_000 {
		task.History = append(task.History, said("again"))
	}
	was, err := encodeTask(task)
	if err != nil {
		t.Fatal(err)
	}
	task.History[5_000] = said("new")
	if got := describe(deltaOf(was, task)); got != "whole" {
		t.Errorf("delta %q of another message in the middle", got)
	}
	task.History[5_000] = said("again")
	task.History = append(task.History[1:], said("new"))
	if got := describe(deltaOf(was, task)); got != "history +1, history max 10000" {
		t.Errorf("delta %q of a window that moves on", got)
	}
}
