package server

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// witnessScope is where the task lives that no fuzzed request may change.
var witnessScope = &pb.Scope{Tenant: "witness", Owner: proto.String("witness")}

// fuzzed is a server that is given requests of any bytes.
type fuzzed struct {
	*fixture
	methods []string
	witness *pb.GetResponse
}

func startFuzzed(t testing.TB) *fuzzed {
	f := &fuzzed{fixture: start(t, newStore(t), Config{}), methods: append(methods(), "ReadEvents")}
	req := whole(working("t"))
	req.Scope = witnessScope
	f.mustSave(t, req)
	f.witness = f.get(t)
	return f
}

func (f *fuzzed) get(t testing.TB) *pb.GetResponse {
	res, err := f.Get(context.Background(), &pb.GetRequest{Scope: witnessScope, TaskId: "t"})
	if err != nil {
		t.Fatal(err)
	}
	res.Now = nil
	return res
}

// allowed are the codes that a request can earn, whatever its bytes.
var allowed = map[codes.Code]bool{
	codes.OK: true, codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true, codes.Aborted: true,
	codes.FailedPrecondition: true, codes.OutOfRange: true, codes.ResourceExhausted: true,
	codes.DeadlineExceeded: true, // a Get may wait longer than the test does
}

// fatal is what tests and fuzz targets have in common.
type fatal interface {
	Fatalf(format string, args ...any)
}

// check makes the call and judges what comes back.
func (f *fuzzed) check(t fatal, method string, body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	target := targetOf(method, body)
	before := f.state(t, target)
	answer, err := f.callRaw(ctx, method, body)
	st := status.Convert(err)
	if err != nil && ctx.Err() == nil && !proto.Equal(f.state(t, target), before) {
		t.Fatalf("%s %x: refused, and %v has changed: %v", method, body, target, err)
	}
	if !allowed[st.Code()] {
		t.Fatalf("%s %x: %v", method, body, err)
	}
	if size := proto.Size(st.Proto()); size > 2<<10 || !utf8.ValidString(st.Message()) {
		t.Fatalf("%s %x: a status of %d bytes: %q", method, body, size, st.Message())
	}
	if method != "Save" || err != nil {
		return
	}
	// What was accepted must be what a parser of the public messages reads.
	var req pb.SaveRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		t.Fatalf("accepted, but not a SaveRequest: %x: %v", body, err)
	}
	var resp pb.SaveResponse
	if err := proto.Unmarshal(answer, &resp); err != nil {
		t.Fatalf("%x: the answer is no SaveResponse: %x: %v", body, answer, err)
	}
	// A replay is of the write that came first under the write_id, whatever the bytes are now.
	if task := req.GetTask(); task != nil && !resp.GetReplayed() {
		res, err := f.Get(context.Background(), &pb.GetRequest{Scope: req.GetScope(), TaskId: task.GetId()})
		if err != nil || !proto.Equal(res.GetTask(), task) {
			t.Fatalf("saved %v, got %v, %v", task, res.GetTask(), err)
		}
	}
}

// targetOf is the task that a request names, or that it named before its bytes were changed.
func targetOf(method string, body []byte) *pb.GetRequest {
	type naming interface {
		proto.Message
		GetScope() *pb.Scope
		GetTaskId() string
	}
	target := &pb.GetRequest{TaskId: "t"}
	var req naming
	switch method {
	case "Save":
		var save pb.SaveRequest
		if proto.Unmarshal(body, &save) == nil {
			target.Scope, target.TaskId = save.GetScope(), save.GetTask().GetId()+save.GetDelta().GetTaskId()
		}
		return target
	case "Delete":
		req = &pb.DeleteRequest{}
	case "AppendEvent":
		req = &pb.AppendEventRequest{}
	default:
		return target
	}
	if proto.Unmarshal(body, req) == nil {
		target.Scope, target.TaskId = req.GetScope(), req.GetTaskId()
	}
	return target
}

// state is the task as it is stored, nil if there is none.
func (f *fuzzed) state(t fatal, target *pb.GetRequest) *pb.GetResponse {
	res, err := f.Get(context.Background(), target)
	switch status.Code(err) {
	case codes.OK:
		res.Now = nil
		return res
	case codes.NotFound, codes.InvalidArgument:
		return nil
	}
	t.Fatalf("get: %v", err)
	return nil
}

// seeds are good requests of each method.
func seeds(t testing.TB) map[string][][]byte {
	task := completed("t")
	task.Status.Timestamp = timestamppb.New(time.Unix(1, 2))
	task.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue("v")}}
	task.Artifacts = []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "x"}}}}}
	task.History = []*pb.Message{said("hi").GetMessage()}
	save := whole(task)
	save.Events = append(save.Events, &pb.EventInput{Input: &pb.EventInput_Event{Event: said("x")}})
	delta := &pb.SaveRequest{
		Scope:        &pb.Scope{Tenant: "x", Owner: proto.String("")},
		Precondition: &pb.Precondition{Condition: &pb.Precondition_Present{Present: &emptypb.Empty{}}},
		Write: &pb.SaveRequest_Delta{Delta: &pb.TaskDelta{
			TaskId:         "t",
			HeadChange:     &pb.TaskDelta_Status{Status: task.GetStatus()},
			ArtifactChange: &pb.TaskDelta_AppendParts{AppendParts: &pb.AppendParts{ArtifactId: "a", Parts: task.Artifacts[0].Parts, BaseParts: proto.Int32(1)}},
			AppendHistory:  task.GetHistory(), MaxHistory: proto.Int32(3),
		}},
		WriteId: "w", Origin: "o", Claim: &pb.Claim{Key: "k", Token: "t"},
	}
	list := &pb.ListRequest{ContextId: "c", Status: 3, StatusTimestampAfter: timestamppb.New(time.Unix(0, 0)), PageSize: proto.Int32(2), PageToken: "AAAA"}
	read := afterSeq(reading(head), 1)
	return map[string][][]byte{
		"Save":        {encode(t, save), encode(t, delta)},
		"Get":         {encode(t, &pb.GetRequest{TaskId: "t", View: 2, HistoryLength: proto.Int32(1)})},
		"List":        {encode(t, list)},
		"Delete":      {encode(t, &pb.DeleteRequest{TaskId: "t", Version: proto.Int64(1)})},
		"ClaimKey":    {encode(t, &pb.ClaimKeyRequest{Key: "k", MessageId: "m", TaskId: "t", Token: "t"})},
		"ReleaseKey":  {encode(t, &pb.ReleaseKeyRequest{Key: "k", Token: "t"})},
		"AppendEvent": {encode(t, &pb.AppendEventRequest{TaskId: "t", Events: []*pb.StreamResponse{said("x")}, Seq: proto.Int64(1)})},
		"ReadEvents":  {encode(t, read)},
	}
}

// FuzzRequests sends any bytes as the request of any method.
func FuzzRequests(f *testing.F) {
	server := startFuzzed(f)
	for i, method := range server.methods {
		for _, body := range seeds(f)[method] {
			f.Add(uint8(i), body)
		}
	}
	f.Fuzz(func(t *testing.T, method uint8, body []byte) {
		server.check(t, server.methods[int(method)%len(server.methods)], body)
		if got := server.get(t); !proto.Equal(got, server.witness) {
			t.Fatalf("the witness has changed: %v", got)
		}
	})
}

// TestChangedRequests sends good requests with some bytes changed, and garbage.
func TestChangedRequests(t *testing.T) {
	t.Parallel()
	server := startFuzzed(t)
	good := seeds(t)
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom(server.methods).Draw(t, "method")
		for range 50 {
			seed := rapid.Uint64().Draw(t, "seed")
			server.check(t, method, change(rand.New(rand.NewPCG(seed, 1)), good[method]))
		}
	})
	if got := server.get(t); !proto.Equal(got, server.witness) {
		t.Errorf("the witness has changed: %v", got)
	}
}

// change returns a body made from good ones.
func change(r *rand.Rand, good [][]byte) []byte {
	body := append([]byte(nil), good[r.IntN(len(good))]...)
	for range 1 + r.IntN(4) {
		if len(body) == 0 {
			break
		}
		i := r.IntN(len(body))
		switch r.IntN(5) {
		case 0:
			body[i] = byte(r.Uint32())
		case 1:
			body = body[:i]
		case 2: // a piece occurs twice
			body = append(body, body[i:]...)
		case 3: // two requests in one
			body = append(body, good[r.IntN(len(good))]...)
		default:
			body[i] ^= 1 << r.IntN(8)
		}
	}
	return body
}
