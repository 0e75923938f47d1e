package document_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// seedTasks are encoded tasks of many kinds.
func seedTasks(f testing.TB) [][]byte {
	f.Helper()
	part := &pb.Part{Content: &pb.Part_Data{Data: structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{{}}})}}
	full := &pb.Task{
		Id: "t", ContextId: "c",
		Status:    &pb.TaskStatus{State: 77, Message: &pb.Message{MessageId: "m"}, Timestamp: &timestamppb.Timestamp{Seconds: -1, Nanos: 1}},
		Artifacts: []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{part, {}}}, {}, {ArtifactId: "a", Name: "n"}},
		History:   []*pb.Message{{Parts: []*pb.Part{part}, Extensions: []string{"", "x"}}, {}},
		Metadata:  &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue("\x00")}},
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(full)
	if err != nil {
		f.Fatal(err)
	}
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), []byte("x"))
	group := []byte("\xa3\x01\x08\x05\xa4\x01") // field 20
	return [][]byte{
		nil, b, append(bytes.Clone(b), unknown...), bytes.Join([][]byte{group, b, group}, nil), append(bytes.Clone(b), b...),
		[]byte("\x22\x02\x0a\x00\x2a\x00\x22\x00\x0a\x01t\x2a\x00"), []byte("\xa2\x00\x83\x00\x0a\x01a"), []byte("\x20\x05\x1d\x00\x00\x00\x00"),
		[]byte("\x1a\x04\x08\x03\x08\x01"), []byte("\x1a\x02\x1a\x00"), []byte("\x1a\x06\x1a\x04\x08\x80\x80\x02"), []byte("\x1a\x00\x1a\x00"),
	}
}

// FuzzParseTask: what is accepted is what every parser reads, and its pieces are the whole.
func FuzzParseTask(f *testing.F) {
	for _, b := range seedTasks(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		input := bytes.Clone(b)
		task, err := document.ParseTask(b)
		want := &pb.Task{}
		uErr := proto.Unmarshal(input, want)
		refusedFairly(t, err, uErr)
		if err != nil {
			return
		}
		if task.ID != want.Id || task.ContextID != want.ContextId || task.State != int32(want.GetStatus().GetState()) ||
			task.Artifacts.Count != len(want.Artifacts) || task.History.Count != len(want.History) {
			t.Fatalf("%+v is not %v", task, want)
		}
		if ts := want.GetStatus().GetTimestamp(); task.Time.Valid != (ts != nil) || task.Time.Seconds != ts.GetSeconds() ||
			task.Time.Nanos != ts.GetNanos() || (ts != nil && ts.CheckValid() != nil) {
			t.Fatalf("time %+v is not %v", task.Time, ts)
		}
		whole := task.AppendTask(nil)
		if task.Size() != len(whole) {
			t.Fatalf("size %d of %d bytes", task.Size(), len(whole))
		}
		sameTask(t, whole, want)
		if again, err := document.ParseTask(whole); err != nil || !bytes.Equal(again.AppendTask(nil), whole) {
			t.Fatalf("parsed again: %+v, %v", again, err)
		}

		// Taken apart and put together, each artifact with its parts behind its other fields.
		rebuilt := bytes.Clone(task.Head)
		size := 0
		for i, a := range document.SplitArtifacts(task.Artifacts) {
			if a.ID != want.Artifacts[i].ArtifactId || a.Parts.Count != len(want.Artifacts[i].Parts) {
				t.Fatalf("artifact %d: %q, %d parts", i, a.ID, a.Parts.Count)
			}
			size += a.Size()
			rebuilt = document.AppendArtifact(rebuilt, &a)
		}
		if size != len(task.Artifacts.Bytes) {
			t.Fatalf("artifacts of %d bytes add up to %d", len(task.Artifacts.Bytes), size)
		}
		for n := range task.History.Count + 2 {
			if got, want := document.LastEntries(task.History, n), min(n, task.History.Count); got.Count != want ||
				len(document.SplitHistory(got)) != want || !bytes.HasSuffix(task.History.Bytes, got.Bytes) {
				t.Fatalf("the last %d messages: %+v", n, got)
			}
		}
		for _, m := range document.SplitHistory(task.History) {
			rebuilt = append(document.AppendMessageTag(rebuilt, len(m)), m...)
		}
		sameTask(t, rebuilt, want)
		if !bytes.Equal(b, input) {
			t.Fatal("the input was changed")
		}

		status := &pb.TaskStatus{State: 3, Timestamp: &timestamppb.Timestamp{Seconds: 9}}
		encoded, err := proto.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		replaced := document.ReplaceStatus(task.Head, encoded)
		want.Status = status
		sameTask(t, bytes.Join([][]byte{replaced, task.Artifacts.Bytes, task.History.Bytes}, nil), want)

		snapshot := document.AppendSnapshot(nil, whole)
		if len(snapshot) != document.SnapshotSize(len(whole)) {
			t.Fatalf("a snapshot of %d bytes takes %d", len(whole), len(snapshot))
		}
	})
}

func sameTask(t *testing.T, got []byte, want *pb.Task) {
	t.Helper()
	m := &pb.Task{}
	if err := proto.Unmarshal(got, m); err != nil || !proto.Equal(m, want) {
		t.Fatalf("%v is not %v: %v", m, want, err)
	}
}

// refusedFairly: nothing is taken that a strict parser refuses, and what one takes is refused for a few reasons only.
func refusedFairly(t *testing.T, err, strict error) {
	t.Helper()
	if err == nil && strict != nil {
		t.Fatalf("taken, though it does not parse: %v", strict)
	}
	if err != nil && strict == nil {
		for _, reason := range []string{
			"occurs twice", "nested deeper", "timestamp out of range", "one payload", "no payload", "invalid field number",
		} {
			if strings.Contains(err.Error(), reason) {
				return
			}
		}
		t.Fatalf("refused, though it parses: %v", err)
	}
}

// FuzzParseOthers does the same for everything else that callers send.
func FuzzParseOthers(f *testing.F) {
	for _, b := range seedTasks(f) {
		f.Add(b)
		f.Add(document.AppendSnapshot(nil, b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		event, err := document.ParseEvent(b)
		response := &pb.StreamResponse{}
		refusedFairly(t, err, proto.Unmarshal(b, response))
		if err == nil {
			task, contextID := "", ""
			switch p := response.Payload.(type) {
			case *pb.StreamResponse_Task:
				task, contextID = p.Task.Id, p.Task.ContextId
			case *pb.StreamResponse_Message:
				task, contextID = p.Message.TaskId, p.Message.ContextId
			case *pb.StreamResponse_StatusUpdate:
				task, contextID = p.StatusUpdate.TaskId, p.StatusUpdate.ContextId
			case *pb.StreamResponse_ArtifactUpdate:
				task, contextID = p.ArtifactUpdate.TaskId, p.ArtifactUpdate.ContextId
			}
			if event.TaskID != task || event.ContextID != contextID || !bytes.Equal(event.Bytes, b) {
				t.Fatalf("%+v is not %v", event, response)
			}
		}

		status, err := document.ParseStatus(b)
		wantStatus := &pb.TaskStatus{}
		refusedFairly(t, err, proto.Unmarshal(b, wantStatus))
		if err == nil && (status.State != int32(wantStatus.State) || status.Time.Valid != (wantStatus.Timestamp != nil) ||
			status.Time.Seconds != wantStatus.GetTimestamp().GetSeconds() || status.Time.Nanos != wantStatus.GetTimestamp().GetNanos()) {
			t.Fatalf("%+v is not %v", status, wantStatus)
		}

		artifact, err := document.ParseArtifact(b)
		wantArtifact := &pb.Artifact{}
		refusedFairly(t, err, proto.Unmarshal(b, wantArtifact))
		if err == nil {
			got := &pb.Artifact{}
			if err := proto.Unmarshal(append(bytes.Clone(artifact.Fields), artifact.Parts.Bytes...), got); err != nil ||
				!proto.Equal(got, wantArtifact) || artifact.ID != wantArtifact.ArtifactId || artifact.Parts.Count != len(wantArtifact.Parts) {
				t.Fatalf("%+v is not %v: %v", artifact, wantArtifact, err)
			}
		}

		for _, list := range []struct {
			parse func([][]byte) (document.List, error)
			one   proto.Message
			whole proto.Message
		}{
			{document.ParseHistory, &pb.Message{}, &pb.Task{}},
			{document.ParseArtifacts, &pb.Artifact{}, &pb.Task{}},
			{document.ParseParts, &pb.Part{}, &pb.Artifact{}},
		} {
			l, err := list.parse([][]byte{b, {}, b})
			refusedFairly(t, err, proto.Unmarshal(b, list.one))
			if err != nil {
				continue
			}
			if err := proto.Unmarshal(l.Bytes, list.whole); err != nil || l.Count != 3 {
				t.Fatalf("%+v: %v", l, err)
			}
		}
	})
}
