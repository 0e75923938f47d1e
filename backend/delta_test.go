package backend_test

import (
	"errors"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// TestPlanSaveDelta: the change, the size and the counts that each delta leaves.
func TestPlanSaveDelta(t *testing.T) {
	t.Parallel()
	list := func(n int) document.List { return document.List{Bytes: make([]byte, n), Count: 1} }
	put := func(id string) *document.Artifact {
		return &document.Artifact{ID: id, Fields: make([]byte, 5), Parts: list(5)} // 12 bytes in the list
	}
	tail := document.List{Bytes: []byte("\x2a\x03abc\x2a\x02de"), Count: 2} // two messages
	for _, tc := range []struct {
		name      string
		delta     document.Delta
		size      int64 // of 100
		artifacts int64 // of 2
		messages  int64 // of 3
		trim      int
		want      backend.Reason
	}{
		{name: "nothing", size: 100, artifacts: 2, messages: 3, delta: document.Delta{MaxHistory: -1}},
		{
			name: "head", size: 107, artifacts: 2, messages: 3,
			delta: document.Delta{MaxHistory: -1, Head: &document.Task{ContextID: "ctx", State: working, Head: make([]byte, 7)}},
		},
		{
			name: "status", size: 105, artifacts: 2, messages: 3,
			delta: document.Delta{MaxHistory: -1, Status: &document.Status{Bytes: make([]byte, 3), State: working}},
		},
		{
			name: "replace artifacts", size: 49, artifacts: 1, messages: 3,
			delta: document.Delta{MaxHistory: -1, Artifacts: &document.List{Bytes: make([]byte, 9), Count: 1}},
		},
		{name: "put new", size: 112, artifacts: 3, messages: 3, delta: document.Delta{MaxHistory: -1, Put: put("new")}},
		{name: "put known", size: 80, artifacts: 2, messages: 3, delta: document.Delta{MaxHistory: -1, Put: put("a")}},
		{name: "put twice held", want: backend.ErrArtifactAmbiguous, delta: document.Delta{MaxHistory: -1, Put: put("twice")}},
		{
			name: "append", size: 105, artifacts: 2, messages: 3,
			delta: document.Delta{MaxHistory: -1, Append: &document.AppendToArtifact{ID: "a", Base: 2, Parts: list(5)}},
		},
		{
			name: "append across a step of the length", size: 100 + 100 + 1, artifacts: 2, messages: 3,
			delta: document.Delta{MaxHistory: -1, Append: &document.AppendToArtifact{ID: "a", Base: -1, Parts: list(100)}},
		},
		{
			name: "append and replace fields", size: 97, artifacts: 2, messages: 3,
			delta: document.Delta{MaxHistory: -1, Append: &document.AppendToArtifact{
				ID: "a", Base: -1, Parts: list(5), Replace: true, Fields: make([]byte, 2),
			}},
		},
		{
			name: "append to unknown", want: backend.ErrArtifactUnknown,
			delta: document.Delta{MaxHistory: -1, Append: &document.AppendToArtifact{ID: "b", Base: -1}},
		},
		{
			name: "append to twice held", want: backend.ErrArtifactAmbiguous,
			delta: document.Delta{MaxHistory: -1, Append: &document.AppendToArtifact{ID: "twice", Base: -1}},
		},
		{
			name: "append to other base", want: backend.ErrBasePartsConflict,
			delta: document.Delta{MaxHistory: -1, Append: &document.AppendToArtifact{ID: "a", Base: 0}},
		},
		{name: "history", size: 109, artifacts: 2, messages: 5, delta: document.Delta{MaxHistory: -1, History: tail}},
		{name: "history, all kept", size: 109, artifacts: 2, messages: 5, delta: document.Delta{MaxHistory: 5, History: tail}},
		{name: "history, one trimmed", size: 99, artifacts: 2, messages: 4, trim: 1, delta: document.Delta{MaxHistory: 4, History: tail}},
		{name: "history, stored ones gone", size: 79, artifacts: 2, messages: 2, trim: 3, delta: document.Delta{MaxHistory: 2, History: tail}},
		{name: "history, new ones trimmed", size: 74, artifacts: 2, messages: 1, trim: 3, delta: document.Delta{MaxHistory: 1, History: tail}},
		{name: "history, none kept", size: 70, artifacts: 2, messages: 0, trim: 3, delta: document.Delta{MaxHistory: 0, History: tail}},
		{name: "history, only trimmed", size: 90, artifacts: 2, messages: 2, trim: 1, delta: document.Delta{MaxHistory: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			row := taskRow(working)
			req := &backend.SaveRequest{Key: key, Owner: alice, Delta: &tc.delta, Pre: backend.Precondition{Condition: backend.Present}}
			plan, err := backend.PlanSave(&row, req, fakeDocument{}, nil, backend.Limits{}, now)
			wantReason(t, err, tc.want)
			if tc.want == backend.ErrBasePartsConflict {
				wantMeta(t, err, "current_parts", 2)
				wantMeta(t, err, "current_version", 5)
			}
			if tc.want != "" {
				return
			}
			if r := plan.Row; r.Size != tc.size || r.Artifacts != tc.artifacts || r.Messages != tc.messages || plan.Change.Trim != tc.trim {
				t.Errorf("size %d, artifacts %d, messages %d, trim %d", r.Size, r.Artifacts, r.Messages, plan.Change.Trim)
			}
			c := plan.Change
			if c.Whole != nil || c.Artifacts != tc.delta.Artifacts || c.Put != tc.delta.Put || c.Append != tc.delta.Append {
				t.Errorf("the change is %+v", c)
			}
			if (c.Put != nil && c.PutAt != map[string]int{"new": -1, "a": 1}[c.Put.ID]) || (c.Append != nil && c.AppendAt != 1) {
				t.Errorf("put at %d, append at %d", c.PutAt, c.AppendAt)
			}
			if (c.Head != nil) != (tc.delta.Head != nil || tc.delta.Status != nil) {
				t.Errorf("the head is %x", c.Head)
			}
			// Exactly at the limit, and one byte more.
			_, err = backend.PlanSave(&row, req, fakeDocument{}, nil, backend.Limits{TaskBytes: tc.size}, now)
			wantReason(t, err, "")
			_, err = backend.PlanSave(&row, req, fakeDocument{}, nil, backend.Limits{TaskBytes: tc.size - 1}, now)
			wantReason(t, err, backend.ErrTaskTooLarge)
			wantMeta(t, err, "size", tc.size)
			wantMeta(t, err, "limit", tc.size-1)
		})
	}
}

// TestPlanSaveReadErrors: what the engine cannot read fails the plan.
func TestPlanSaveReadErrors(t *testing.T) {
	t.Parallel()
	row := taskRow(working)
	for i, d := range []*document.Delta{
		{MaxHistory: -1, Status: &document.Status{State: working}},
		{MaxHistory: -1, Head: &document.Task{ContextID: "ctx", State: working}},
		{MaxHistory: -1, Artifacts: &document.List{}},
		{MaxHistory: -1, Put: &document.Artifact{}},
		{MaxHistory: -1, Append: &document.AppendToArtifact{ID: "a", Base: -1}},
		{MaxHistory: 1},
	} {
		_, err := backend.PlanSave(&row, &backend.SaveRequest{
			Key: key, Owner: alice, Delta: d, Pre: backend.Precondition{Condition: backend.Any},
		}, fakeDocument{err: errDisk}, nil, backend.Limits{}, now)
		if !errors.Is(err, errDisk) {
			t.Errorf("delta %d: %v", i, err)
		}
	}
}
