package server

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// call makes a call by the name of its method, with any message, and returns its error; of a stream, that of the first frame.
func (f *fixture) call(ctx context.Context, method string, req any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	full := "/" + serviceName + "/" + method
	if method != "ReadEvents" {
		return f.conn.Invoke(ctx, full, req, &emptypb.Empty{})
	}
	stream, err := f.conn.NewStream(ctx, &pb.TaskStoreService_ServiceDesc.Streams[0], full)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(req); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(&emptypb.Empty{})
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	long, longer := strings.Repeat("é", 128)+"x", strings.Repeat("x", 65)
	task := encode(t, working("t"))
	event := encode(t, said("hi"))
	overwrite := &pb.Precondition{Condition: &pb.Precondition_Any{Any: &emptypb.Empty{}}}
	delta := func(d *wirev1.TaskDelta) *wirev1.SaveRequest {
		if d.TaskId == "" {
			d.TaskId = "t"
		}
		return &wirev1.SaveRequest{Delta: d, Precondition: overwrite}
	}
	save := func(task *pb.Task) *wirev1.SaveRequest {
		return &wirev1.SaveRequest{Task: [][]byte{encode(t, task)}, Precondition: overwrite}
	}
	wait := func(w *pb.Wait) *pb.GetRequest { return &pb.GetRequest{TaskId: "t", Wait: w} }

	for _, test := range []struct {
		method string
		req    proto.Message
		fields []string // of the violations
	}{
		{"Save", &wirev1.SaveRequest{}, []string{"task"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task, task}}, []string{"task"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Delta: &wirev1.TaskDelta{TaskId: "t"}}, []string{"delta"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{{0xff}}}, []string{"task"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{{}}}, []string{"task.id"}},
		{"Save", save(&pb.Task{}), []string{"task.id"}},
		{"Save", save(&pb.Task{Id: long}), []string{"task.id"}},
		{"Save", save(&pb.Task{Id: "a\x00b"}), []string{"task.id"}},
		{"Save", save(&pb.Task{Id: "t", ContextId: long}), []string{"task.context_id"}},
		{"Save", save(&pb.Task{Id: "t", ContextId: "\x00"}), []string{"task.context_id"}},
		{"Save", save(&pb.Task{Id: "t", Status: &pb.TaskStatus{Timestamp: &timestamppb.Timestamp{Nanos: -1}}}), []string{"task.status.timestamp"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, WriteId: longer, Origin: longer}, []string{"write_id", "origin"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Scope: &pb.Scope{Tenant: long, Owner: &long}}, []string{"scope.tenant", "scope.owner"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Claim: &pb.Claim{}}, []string{"claim.key", "claim.token"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Claim: &pb.Claim{Key: long, Token: longer}}, []string{"claim.key", "claim.token"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Precondition: &pb.Precondition{Condition: &pb.Precondition_Version{}}}, []string{"precondition.version"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Events: []*wirev1.EventInput{{}}}, []string{"events[0]"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Events: []*wirev1.EventInput{{Event: [][]byte{event}}, {Event: [][]byte{event, event}}}}, []string{"events[1].event"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Events: []*wirev1.EventInput{{Event: [][]byte{event}, Snapshot: &emptypb.Empty{}}}}, []string{"events[0]"}},
		{"Save", &wirev1.SaveRequest{Task: [][]byte{task}, Events: []*wirev1.EventInput{{Event: [][]byte{{}}}}}, []string{"events[0].event"}},
		{"Save", &wirev1.SaveRequest{Delta: &wirev1.TaskDelta{TaskId: "t"}}, []string{"precondition"}},
		{"Save", delta(&wirev1.TaskDelta{TaskId: long}), []string{"delta.task_id"}},
		{"Save", delta(&wirev1.TaskDelta{Head: [][]byte{task, task}}), []string{"delta.head"}},
		{"Save", delta(&wirev1.TaskDelta{Head: [][]byte{task}, Status: [][]byte{{}}}), []string{"delta.status"}},
		{"Save", delta(&wirev1.TaskDelta{Head: [][]byte{encode(t, working("other"))}}), []string{"delta.head.id"}},
		{"Save", delta(&wirev1.TaskDelta{Head: [][]byte{encode(t, &pb.Task{Id: "t", Artifacts: []*pb.Artifact{{}}})}}), []string{"delta.head"}},
		{"Save", delta(&wirev1.TaskDelta{Head: [][]byte{encode(t, &pb.Task{Id: "t", History: []*pb.Message{{}}})}}), []string{"delta.head"}},
		{"Save", delta(&wirev1.TaskDelta{Status: [][]byte{{}, {}}}), []string{"delta.status"}},
		{"Save", delta(&wirev1.TaskDelta{Status: [][]byte{{0x1a, 0x02, 0x10, 0xff}}}), []string{"delta.status.timestamp"}},
		{"Save", delta(&wirev1.TaskDelta{PutArtifact: [][]byte{{}, {}}}), []string{"delta.put_artifact"}},
		{"Save", delta(&wirev1.TaskDelta{PutArtifact: [][]byte{{}}, ReplaceArtifacts: &wirev1.ArtifactList{}}), []string{"delta"}},
		{"Save", delta(&wirev1.TaskDelta{PutArtifact: [][]byte{{}}, AppendParts: &wirev1.AppendParts{}}), []string{"delta"}},
		{"Save", delta(&wirev1.TaskDelta{ReplaceArtifacts: &wirev1.ArtifactList{Artifacts: [][]byte{{0xff}}}}), []string{"delta.replace_artifacts.artifacts"}},
		{"Save", delta(&wirev1.TaskDelta{AppendParts: &wirev1.AppendParts{Artifact: [][]byte{{}, {}}}}), []string{"delta.append_parts.artifact"}},
		{"Save", delta(&wirev1.TaskDelta{AppendParts: &wirev1.AppendParts{
			ArtifactId: "a", Artifact: [][]byte{encode(t, &pb.Artifact{ArtifactId: "b", Parts: []*pb.Part{{}}})}, BaseParts: proto.Int32(-1), Parts: [][]byte{{0xff}},
		}}), []string{
			"delta.append_parts.parts", "delta.append_parts.base_parts", "delta.append_parts.artifact.parts", "delta.append_parts.artifact.artifact_id",
		}},
		{"Save", delta(&wirev1.TaskDelta{AppendHistory: [][]byte{{0xff}}, MaxHistory: proto.Int32(-1)}), []string{"delta.append_history", "delta.max_history"}},

		{"Get", &pb.GetRequest{}, []string{"task_id"}},
		{"Get", &pb.GetRequest{TaskId: "t", View: 3}, []string{"view"}},
		{"Get", &pb.GetRequest{TaskId: "t", View: -1}, []string{"view"}},
		{"Get", &pb.GetRequest{TaskId: "t", HistoryLength: proto.Int32(-1)}, []string{"history_length"}},
		{"Get", wait(&pb.Wait{NewerThan: -1}), []string{"wait.newer_than"}},
		{"Get", wait(&pb.Wait{Timeout: durationpb.New(-1)}), []string{"wait.timeout"}},
		{"Get", wait(&pb.Wait{Timeout: durationpb.New(time.Minute + 1)}), []string{"wait.timeout"}},
		{"Get", wait(&pb.Wait{Timeout: &durationpb.Duration{Seconds: 1, Nanos: -1}}), []string{"wait.timeout"}},

		{"List", &pb.ListRequest{ContextId: long}, []string{"context_id"}},
		{"List", &pb.ListRequest{Status: 9}, []string{"status"}},
		{"List", &pb.ListRequest{Status: -1}, []string{"status"}},
		{"List", &pb.ListRequest{PageSize: proto.Int32(0)}, []string{"page_size"}},
		{"List", &pb.ListRequest{PageSize: proto.Int32(101)}, []string{"page_size"}},
		{"List", &pb.ListRequest{PageSize: proto.Int32(-1), HistoryLength: proto.Int32(-1)}, []string{"page_size", "history_length"}},
		{"List", &pb.ListRequest{StatusTimestampAfter: &timestamppb.Timestamp{Seconds: math.MaxInt64}}, []string{"status_timestamp_after"}},
		{"List", &pb.ListRequest{StatusTimestampAfter: &timestamppb.Timestamp{Nanos: 1e9}}, []string{"status_timestamp_after"}},
		{"List", &pb.ListRequest{PageToken: "x"}, []string{"page_token"}},

		{"Delete", &pb.DeleteRequest{TaskId: "t", Version: proto.Int64(0)}, []string{"version"}},
		{"Delete", &pb.DeleteRequest{Version: proto.Int64(-1)}, []string{"task_id", "version"}},

		{"ClaimKey", &pb.ClaimKeyRequest{}, []string{"message_id", "task_id", "key", "token"}},
		{"ClaimKey", &pb.ClaimKeyRequest{Key: "k", MessageId: "m", TaskId: "t", Token: "t", Lease: &durationpb.Duration{}, Ttl: durationpb.New(-1)}, []string{"lease", "ttl"}},
		{"ClaimKey", &pb.ClaimKeyRequest{Key: "k", MessageId: "m", TaskId: "t", Token: "t", Lease: durationpb.New(24*time.Hour + 1)}, []string{"lease"}},
		{"ClaimKey", &pb.ClaimKeyRequest{Key: "k", MessageId: "m", TaskId: "t", Token: "t", Ttl: &durationpb.Duration{Seconds: math.MaxInt64}}, []string{"ttl"}},
		{"ReleaseKey", &pb.ReleaseKeyRequest{}, []string{"key", "token"}},

		{"AppendEvent", &wirev1.AppendEventRequest{}, []string{"task_id", "events"}},
		{"AppendEvent", &wirev1.AppendEventRequest{TaskId: "t", Events: [][]byte{event, {0xff}}}, []string{"events[1]"}},
		{"AppendEvent", &wirev1.AppendEventRequest{TaskId: "t", Events: [][]byte{event}, Seq: proto.Int64(0)}, []string{"seq"}},
		{"AppendEvent", &wirev1.AppendEventRequest{TaskId: "t", Events: [][]byte{event}, Seq: proto.Int64(math.MaxInt64)}, []string{"seq"}},
		{"AppendEvent", &wirev1.AppendEventRequest{TaskId: "t", Events: [][]byte{event, event}, Seq: proto.Int64(1)}, []string{"seq"}},

		{"ReadEvents", &pb.ReadEventsRequest{}, []string{"task_id"}},
		{"ReadEvents", &pb.ReadEventsRequest{TaskId: "t", Until: 4}, []string{"until"}},
		{"ReadEvents", &pb.ReadEventsRequest{TaskId: "t", Limit: 1}, []string{"limit"}},
		{"ReadEvents", &pb.ReadEventsRequest{TaskId: "t", Limit: -1}, []string{"limit"}},
		{"ReadEvents", &pb.ReadEventsRequest{TaskId: "t", ExcludeOrigin: longer}, []string{"exclude_origin"}},
		{"ReadEvents", &pb.ReadEventsRequest{TaskId: "t", Start: &pb.ReadEventsRequest_AfterSeq{AfterSeq: -1}}, []string{"after_seq"}},
		{"ReadEvents", &pb.ReadEventsRequest{TaskId: "t", Start: &pb.ReadEventsRequest_AfterVersion{AfterVersion: -1}}, []string{"after_version"}},
	} {
		t.Run(test.method+" "+strings.Join(test.fields, ","), func(t *testing.T) {
			t.Parallel()
			f := start(t, newStore(t), Config{})
			f.mustSave(t, whole(working("t")))
			err := f.call(t.Context(), test.method, test.req)
			wantReason(t, err, backend.ErrInvalid)
			var fields []string
			for _, v := range detail[*errdetails.BadRequest](err).GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
			slices.Sort(fields)
			slices.Sort(test.fields)
			if !slices.Equal(fields, test.fields) {
				t.Errorf("violations of %q, want %q (%v)", fields, test.fields, err)
			}
			got, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
			if err != nil || got.GetVersion() != 1 || got.GetLastSeq() != 1 {
				t.Errorf("the stored task has changed: %v, %v", got, err)
			}
		})
	}
}

// TestLimitsAreInclusive sends what is just within bounds.
func TestLimitsAreInclusive(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	id, token := strings.Repeat("é", 128), strings.Repeat("x", 64)
	scope := &pb.Scope{Tenant: id, Owner: &id}
	if _, err := f.ClaimKey(t.Context(), &pb.ClaimKeyRequest{
		Scope: scope, Key: id, MessageId: id, TaskId: id, Token: token, Lease: durationpb.New(maxLease), Ttl: durationpb.New(maxTTL),
	}); err != nil {
		t.Fatal(err)
	}
	req := whole(&pb.Task{Id: id, ContextId: id})
	req.Scope, req.WriteId, req.Origin, req.Claim = scope, token, token, &pb.Claim{Key: id, Token: token}
	f.mustSave(t, req)
	if _, err := f.Get(t.Context(), &pb.GetRequest{
		Scope: scope, TaskId: id, HistoryLength: proto.Int32(0), Wait: &pb.Wait{Timeout: durationpb.New(time.Minute)},
	}); err != nil {
		t.Error(err)
	}
	if _, err := f.List(t.Context(), &pb.ListRequest{Scope: scope, ContextId: id, PageSize: proto.Int32(100)}); err != nil {
		t.Error(err)
	}
	if _, err := f.AppendEvent(t.Context(), &pb.AppendEventRequest{
		Scope: scope, TaskId: id, Events: []*pb.StreamResponse{said("")}, Seq: proto.Int64(maxSeq),
	}); err != nil {
		t.Error(err)
	}
}

func TestUndecodableRequests(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	badText := &rawMessage{0x0a, 0x03, 0x0a, 0x01, 0xff} // scope { tenant: "\xff" }
	for _, m := range append(methods(), "ReadEvents") {
		for _, req := range []*rawMessage{{0xff}, {0x0a, 0x05, 0x01}, badText} {
			_, err := f.callRaw(t.Context(), m, *req)
			wantReason(t, err, backend.ErrInvalid)
		}
	}
}
