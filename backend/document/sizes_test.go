package document_test

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/a2a-taskstore/taskstore/backend/document"
)

// longField encodes a field with its tag and its length in more bytes than they need.
func longField(dst []byte, num protowire.Number, value string) []byte {
	dst = append(dst, byte(num<<3)|2|0x80, 0x80, 0x00)
	dst = append(dst, byte(len(value))|0x80, 0x00)
	return append(dst, value...)
}

func shortField(dst []byte, num protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), value)
}

// However a caller encodes tags and lengths: a task taken apart has the size of the whole.
func TestSizesOfItemsAddUpToTheList(t *testing.T) {
	t.Parallel()
	artifact := string(shortField(longField(shortField(nil, 1, "a"), 4, ""), 2, "name"))
	message := string(longField(shortField(nil, 1, "m"), 7, "x"))
	for name, field := range map[string]func([]byte, protowire.Number, string) []byte{
		"shortest": shortField, "longer": longField,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := shortField(nil, 1, "id")
			raw = field(raw, 4, artifact)
			raw = shortField(raw, 4, artifact)
			raw = field(raw, 5, message)
			raw = field(raw, 5, message)
			raw = shortField(raw, 4, artifact)
			task, err := document.ParseTask(raw)
			if err != nil {
				t.Fatal(err)
			}
			if task.Artifacts.Count != 3 || task.History.Count != 2 {
				t.Fatalf("%d artifacts, %d messages", task.Artifacts.Count, task.History.Count)
			}

			var artifacts, history []byte
			for _, a := range document.SplitArtifacts(task.Artifacts) {
				if a.ID != "a" || a.Parts.Count != 1 {
					t.Errorf("artifact %q with %d parts", a.ID, a.Parts.Count)
				}
				before := len(artifacts)
				artifacts = document.AppendArtifact(artifacts, &a)
				if a.Size() != len(artifacts)-before {
					t.Errorf("the artifact's size is %d, it takes %d", a.Size(), len(artifacts)-before)
				}
			}
			if len(artifacts) != len(task.Artifacts.Bytes) {
				t.Errorf("artifacts: %d bytes as a list, %d as items", len(task.Artifacts.Bytes), len(artifacts))
			}
			for _, m := range document.SplitHistory(task.History) {
				if string(m) != message {
					t.Errorf("message %x, want %x", m, message)
				}
				history = append(document.AppendMessageTag(history, len(m)), m...)
			}
			if !bytes.Equal(history, task.History.Bytes) {
				t.Errorf("history: %x as a list, %x as items", task.History.Bytes, history)
			}
		})
	}
}

func TestReplaceStatusTakesNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	large := string(shortField(nil, 9, string(make([]byte, 10_000))))
	head := shortField(shortField(shortField(nil, 1, "id"), 3, large), 2, "context")
	status := shortField(nil, 9, "small")
	got := document.ReplaceStatus(head, status)
	want := shortField(shortField(shortField(nil, 1, "id"), 2, "context"), 3, string(status))
	if !bytes.Equal(got, want) || cap(got) > len(got)+16 {
		t.Errorf("got %x with room for %d, want %x", got, cap(got), want)
	}
}

func TestSnapshotTagIsWhatPrecedesTheTask(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 127, 128, 70_000} {
		task := make([]byte, size)
		got := append(document.AppendSnapshotTag(nil, size), task...)
		if !bytes.Equal(got, document.AppendSnapshot(nil, task)) || len(got) != document.SnapshotSize(size) {
			t.Errorf("size %d: %d bytes", size, len(got))
		}
	}
}

func TestTaskIsMostOfItsInputOrKeepsNothingOfIt(t *testing.T) {
	t.Parallel()
	id, metadata := shortField(nil, 1, "id"), func(n int) []byte { return shortField(nil, 9, string(make([]byte, n))) }
	artifact := shortField(nil, 4, string(shortField(nil, 1, string(bytes.Repeat([]byte("a"), 1000)))))
	for name, tt := range map[string]struct {
		raw  []byte
		kept bool
	}{
		"in order":                       {slices.Concat(id, metadata(1000), artifact), true},
		"a little of the head is behind": {slices.Concat(id, artifact, metadata(10)), true},
		"much of the head is behind":     {slices.Concat(id, artifact, metadata(1000)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := bytes.Clone(tt.raw)
			task, err := document.ParseTask(raw)
			if err != nil {
				t.Fatal(err)
			}
			before := task.AppendTask(nil)
			for i := range raw {
				raw[i] ^= 0xff
			}
			if kept := !bytes.Equal(task.AppendTask(nil), before); kept != tt.kept {
				t.Errorf("the input is kept: %t", kept)
			}
		})
	}
}
