package document_test

import (
	"cmp"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// The first and the last second of a google.protobuf.Timestamp.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

func TestTimestamps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		seconds int64
		nanos   int32
		valid   bool
	}{
		{0, 0, true}, {-1, 999999999, true}, {firstSecond, 0, true}, {lastSecond, 999999999, true},
		{firstSecond - 1, 0, false}, {lastSecond + 1, 0, false}, {0, -1, false}, {0, 1000000000, false},
		{-1 << 63, 0, false}, {1<<63 - 1, 0, false}, {0, -1 << 31, false}, {0, 1<<31 - 1, false},
	} {
		ts := &timestamppb.Timestamp{Seconds: tc.seconds, Nanos: tc.nanos}
		if ts.IsValid() != tc.valid {
			t.Fatalf("%v is valid: %v", ts, ts.IsValid())
		}
		want := document.Timestamp{Valid: true, Seconds: tc.seconds, Nanos: tc.nanos}
		got, err := document.NewTimestamp(tc.seconds, tc.nanos)
		if (err == nil) != tc.valid || (tc.valid && got != want) {
			t.Errorf("%v: %+v, %v", ts, got, err)
		}
		b, err := proto.Marshal(&pb.Task{Status: &pb.TaskStatus{Timestamp: ts}})
		if err != nil {
			t.Fatal(err)
		}
		task, err := document.ParseTask(b)
		if !tc.valid {
			refused(t, err, "status.timestamp", "out of range")
		} else if err != nil || task.Time != want {
			t.Errorf("%v: %+v, %v", ts, task, err)
		}
		if err := parseEvent(document.AppendSnapshot(nil, b)); (err == nil) != tc.valid {
			t.Errorf("event with %v: %v", ts, err)
		}
	}
}

func genTimestamp(t *rapid.T, name string) document.Timestamp {
	if rapid.IntRange(0, 4).Draw(t, name) == 0 {
		return document.Timestamp{}
	}
	seconds := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64Range(firstSecond, lastSecond)).Draw(t, name+" seconds")
	ts, err := document.NewTimestamp(seconds, rapid.Int32Range(0, 999999999).Draw(t, name+" nanos"))
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func TestTimestampsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genTimestamp(t, "a"), genTimestamp(t, "b")
		want := cmp.Compare(a.Seconds, b.Seconds)
		if a.Valid && b.Valid {
			want = time.Unix(a.Seconds, int64(a.Nanos)).Compare(time.Unix(b.Seconds, int64(b.Nanos)))
		} else if a.Valid != b.Valid {
			want = map[bool]int{true: 1, false: -1}[a.Valid]
		}
		if got := a.Compare(b); got != want || b.Compare(a) != -want || a.Compare(a) != 0 {
			t.Fatalf("%+v against %+v: %d, want %d", a, b, got, want)
		}
	})
}

// TestAppendState: the summary is a task that has what it was made of.
func TestAppendState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringN(1, 8, -1).Draw(t, "id")
		contextID := rapid.StringN(0, 8, -1).Draw(t, "context")
		state := rapid.OneOf(rapid.Int32Range(0, 9), rapid.Int32()).Draw(t, "state")
		ts := genTimestamp(t, "time")
		prefix := []byte("prefix")
		b := document.AppendState(prefix, id, contextID, state, ts)[len(prefix):]
		task, err := document.ParseTask(b)
		if err != nil || task.ID != id || task.ContextID != contextID || task.State != state || task.Time != ts {
			t.Fatalf("%+v, %v", task, err)
		}
		got := &pb.Task{}
		if err := proto.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		want := &pb.Task{Id: id, ContextId: contextID}
		if state != 0 || ts.Valid {
			want.Status = &pb.TaskStatus{State: pb.TaskState(state)}
		}
		if ts.Valid {
			want.Status.Timestamp = &timestamppb.Timestamp{Seconds: ts.Seconds, Nanos: ts.Nanos}
		}
		if !proto.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// TestInputsAreKept: pieces are slices of the input where they can be, and appending to one never writes into it.
func TestInputsAreKept(t *testing.T) {
	t.Parallel()
	b, err := proto.Marshal(&pb.Task{
		Id: "t", Artifacts: []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{}}}}, History: []*pb.Message{{MessageId: "m"}, {MessageId: "n"}},
		Status: &pb.TaskStatus{State: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	before := string(b)
	task, err := document.ParseTask(b)
	if err != nil {
		t.Fatal(err)
	}
	artifact := document.SplitArtifacts(task.Artifacts)[0]
	for _, piece := range [][]byte{
		task.Head, task.Artifacts.Bytes, task.History.Bytes, artifact.Fields, artifact.Parts.Bytes,
		document.SplitHistory(task.History)[0], document.LastEntries(task.History, 1).Bytes,
	} {
		if len(piece) == 0 {
			t.Error("an empty piece")
		}
		_ = append(piece, "overwritten"...)
	}
	if string(b) != before {
		t.Error("the input was overwritten")
	}
}
