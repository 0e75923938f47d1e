package server

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// invoke makes a unary call with messages of the wire twin.
func invoke[Resp any](ctx context.Context, f *fixture, method string, req proto.Message, resp *Resp) error {
	return f.conn.Invoke(ctx, "/"+serviceName+"/"+method, req, resp)
}

// TestBytesStayAsTheyAre stores payloads that a parser would not write again as they are.
func TestBytesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	// Unknown fields, an unknown state, a text with U+0000, fields in an unusual order, a varint longer than it need be.
	var odd []byte
	odd = protowire.AppendBytes(protowire.AppendTag(odd, 99, protowire.BytesType), []byte("later"))
	odd = protowire.AppendBytes(protowire.AppendTag(odd, 3, protowire.BytesType), []byte{0x08, 0xff, 0x80, 0x00})
	odd = protowire.AppendVarint(protowire.AppendTag(odd, 100, protowire.VarintType), 7)
	odd = protowire.AppendString(protowire.AppendTag(odd, 1, protowire.BytesType), "t")
	event := encode(t, said("a\x00b"))
	event = protowire.AppendBytes(protowire.AppendTag(event, 50, protowire.BytesType), []byte("later"))

	res := &pb.SaveResponse{}
	if err := invoke(t.Context(), f, "Save", &wirev1.SaveRequest{
		Task:   [][]byte{odd},
		Events: []*wirev1.EventInput{{Event: [][]byte{event}}, {Snapshot: &emptypb.Empty{}}},
	}, res); err != nil {
		t.Fatal(err)
	}
	var got wirev1.GetResponse
	if err := invoke(t.Context(), f, "Get", &pb.GetRequest{TaskId: "t"}, &got); err != nil || !bytes.Equal(got.GetTask(), odd) {
		t.Errorf("task %x, %v, want %x", got.GetTask(), err, odd)
	}
	var list wirev1.ListResponse
	if err := invoke(t.Context(), f, "List", &pb.ListRequest{}, &list); err != nil || len(list.GetTasks()) != 1 || !bytes.Equal(list.GetTasks()[0].GetTask(), odd) {
		t.Errorf("list %v, %v", &list, err)
	}

	stream, err := f.conn.NewStream(t.Context(), &pb.TaskStoreService_ServiceDesc.Streams[0], "/"+serviceName+"/ReadEvents")
	if err != nil {
		t.Fatal(err)
	}
	req := reading(head)
	req.IncludeTask = true
	if err := stream.SendMsg(req); err != nil {
		t.Fatal(err)
	}
	var frame wirev1.ReadEventsResponse
	if err := stream.RecvMsg(&frame); err != nil || !bytes.Equal(frame.GetOpened().GetTask().GetTask(), odd) {
		t.Errorf("opened %v, %v", &frame, err)
	}
	if err := stream.RecvMsg(&frame); err != nil {
		t.Fatal(err)
	}
	snapshot := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), odd)
	for i, want := range [][]byte{event, snapshot} {
		if e := frame.GetEvents().GetEvents()[i]; !bytes.Equal(e.GetEvent(), want) {
			t.Errorf("event %x, want %x", e.GetEvent(), want)
		}
	}
}

// TestLargestPayloads stores the largest task and event that are accepted, with the longest ids, and reads them with a client
// that accepts no larger message than the server does.
func TestLargestPayloads(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	store, err := memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: backend.Limits{TaskBytes: TaskBytes(size)}})
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, store, Config{MaxMessageBytes: size},
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(size), grpc.MaxCallSendMsgSize(2*size)))
	id, origin := strings.Repeat("i", 256), strings.Repeat("o", 64)
	scope := &pb.Scope{Tenant: id, Owner: &id}
	filled := func(total int) *pb.Task {
		task := &pb.Task{Id: id, ContextId: id, Status: &pb.TaskStatus{Message: &pb.Message{MessageId: "x"}}}
		task.Status.Message.MessageId = strings.Repeat("x", total-proto.Size(task)-8)
		for proto.Size(task) < total {
			task.Status.Message.MessageId += "x"
		}
		return task
	}
	most := int(TaskBytes(size))
	req := &pb.SaveRequest{
		Write: &pb.SaveRequest_Task{Task: filled(most)}, Scope: scope,
		Events: []*pb.EventInput{{Input: &pb.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}}},
		Origin: origin,
	}
	f.mustSave(t, req)

	if _, err := f.Get(t.Context(), &pb.GetRequest{Scope: scope, TaskId: id}); err != nil {
		t.Errorf("get: %v", err)
	}
	other := filled(1000)
	other.Id = strings.Repeat("a", 256) // behind the large one, so that there is a next page
	f.mustSave(t, &pb.SaveRequest{Write: &pb.SaveRequest_Task{Task: other}, Scope: scope})
	list, err := f.List(t.Context(), &pb.ListRequest{Scope: scope})
	if err != nil || len(list.GetTasks()) != 1 || list.GetNextPageToken() == "" {
		t.Errorf("list: %d rows, token %q, %v", len(list.GetTasks()), list.GetNextPageToken(), err)
	}
	r, err := f.readAll(t.Context(), &pb.ReadEventsRequest{Scope: scope, TaskId: id, Until: head, IncludeTask: true})
	if err != nil || len(r.events) != 1 {
		t.Errorf("events: %v", err)
	}

	req.Write = &pb.SaveRequest_Task{Task: filled(most + 1)}
	req.Precondition = &pb.Precondition{Condition: &pb.Precondition_Any{}}
	_, err = f.Save(t.Context(), req)
	wantReason(t, err, backend.ErrTaskTooLarge)

	event := func(total int) *pb.StreamResponse {
		e := said("")
		e.GetMessage().GetParts()[0].Content = &pb.Part_Text{Text: strings.Repeat("x", total-proto.Size(e)-12)}
		for proto.Size(e) < total {
			e.GetMessage().MessageId += "x"
		}
		return e
	}
	appending := &pb.AppendEventRequest{Scope: scope, TaskId: id, Events: []*pb.StreamResponse{event(most)}, Origin: origin}
	if _, err := f.AppendEvent(t.Context(), appending); err != nil {
		t.Errorf("append: %v", err)
	}
	if r, err := f.readAll(t.Context(), &pb.ReadEventsRequest{Scope: scope, TaskId: id, Until: head}); err != nil || len(r.events) != 2 {
		t.Errorf("events: %v", err)
	}
	appending.Events = []*pb.StreamResponse{event(most + 1)}
	_, err = f.AppendEvent(t.Context(), appending)
	wantReason(t, err, reasonEventTooLarge)

	_, err = f.AppendEvent(t.Context(), &pb.AppendEventRequest{TaskId: id, Events: []*pb.StreamResponse{event(size)}})
	wantReason(t, err, reasonMessageTooLarge)
	_, err = f.AppendEvent(t.Context(), &pb.AppendEventRequest{TaskId: id, Events: []*pb.StreamResponse{event(size + oversize)}})
	wantCode(t, err, codes.ResourceExhausted) // gRPC's own
}

// TestListPagesEndEarly walks over tasks of which few fit a page.
func TestListPagesEndEarly(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	const tasks = 12
	for i := range tasks {
		task := working(string(rune('a' + i)))
		task.Artifacts = []*pb.Artifact{{Description: strings.Repeat("x", 1<<20-100)}}
		f.mustSave(t, whole(task))
	}
	seen, pages := 0, 0
	req := &pb.ListRequest{IncludeArtifacts: true}
	for {
		page, err := f.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(page); size > pageBytes {
			t.Errorf("a page of %d bytes", size)
		}
		if page.GetPageSize() != 50 || page.GetTotalSize() != tasks {
			t.Errorf("page size %d, total %d", page.GetPageSize(), page.GetTotalSize())
		}
		seen += len(page.GetTasks())
		pages++
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if seen != tasks || pages < 4 {
		t.Errorf("%d tasks on %d pages", seen, pages)
	}
	req.PageToken = ""
	first, err := f.List(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.List(t.Context(), &pb.ListRequest{PageToken: first.GetNextPageToken(), ContextId: "c"})
	wantReason(t, err, backend.ErrInvalid)
	other, err := f.List(t.Context(), &pb.ListRequest{PageToken: first.GetNextPageToken(), PageSize: proto.Int32(100), SkipTotal: true, HistoryLength: proto.Int32(1)})
	if err != nil || len(other.GetTasks()) != tasks-len(first.GetTasks()) || other.GetTotalSize() != 0 {
		t.Errorf("%d rows, total %d, %v", len(other.GetTasks()), other.GetTotalSize(), err)
	}
}

// TestWriteIDs shows that the caller's is kept for its retries, and that none of the server's repeats.
func TestWriteIDs(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	req := whole(working("t"))
	req.WriteId = "mine"
	f.mustSave(t, req)
	if again := f.mustSave(t, req); !again.GetReplayed() || again.GetVersion() != 1 || again.GetSeq() != 1 {
		t.Errorf("retry: %v", again)
	}
	req.WriteId = ""
	for range 2 {
		if res := f.mustSave(t, req); res.GetReplayed() {
			t.Errorf("a write without an id is a replay: %v", res)
		}
	}
	for range 2 {
		if res := f.mustAppend(t, "t", "same"); res.GetReplayed() {
			t.Errorf("an append without an id is a replay: %v", res)
		}
	}
}
