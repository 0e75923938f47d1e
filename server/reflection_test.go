package server

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"google.golang.org/grpc"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	reflectgrpc "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// stranger knows nothing of the service but what reflection tells, as grpcurl does.
type stranger struct {
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[reflectgrpc.ServerReflectionRequest, reflectgrpc.ServerReflectionResponse]
	files  map[string]*descriptorpb.FileDescriptorProto
}

func (s *stranger) ask(t *testing.T, req *reflectgrpc.ServerReflectionRequest) *reflectgrpc.ServerReflectionResponse {
	t.Helper()
	if err := s.stream.Send(req); err != nil {
		t.Fatal(err)
	}
	res, err := s.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if e := res.GetErrorResponse(); e != nil {
		t.Fatal(e)
	}
	return res
}

// learn takes the files of an answer, and asks for those that they import.
func (s *stranger) learn(t *testing.T, res *reflectgrpc.ServerReflectionResponse) {
	t.Helper()
	for _, b := range res.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		if s.files[file.GetName()] != nil {
			continue
		}
		s.files[file.GetName()] = &file
		for _, name := range file.GetDependency() {
			s.learn(t, s.ask(t, &reflectgrpc.ServerReflectionRequest{
				MessageRequest: &reflectgrpc.ServerReflectionRequest_FileByFilename{FileByFilename: name},
			}))
		}
	}
}

// call makes a call with JSON, and returns the answer as JSON.
func (s *stranger) call(ctx context.Context, t *testing.T, files *protoregistry.Files, method, request string) map[string]any {
	t.Helper()
	d, err := files.FindDescriptorByName(protoreflect.FullName("a2ataskstore.v1.TaskStoreService." + method))
	if err != nil {
		t.Fatal(err)
	}
	m := d.(protoreflect.MethodDescriptor)
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Invoke(ctx, "/a2ataskstore.v1.TaskStoreService/"+method, in, out); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	b, err := protojson.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(b, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestReflectionIsEnough(t *testing.T) {
	t.Parallel()
	f := start(t, newStore(t), Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectgrpc.NewServerReflectionClient(f.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{conn: f.conn, stream: stream, files: map[string]*descriptorpb.FileDescriptorProto{}}

	var services []string
	for _, service := range s.ask(t, &reflectgrpc.ServerReflectionRequest{
		MessageRequest: &reflectgrpc.ServerReflectionRequest_ListServices{},
	}).GetListServicesResponse().GetService() {
		services = append(services, service.GetName())
	}
	for _, want := range []string{"a2ataskstore.v1.TaskStoreService", healthgrpc.Health_ServiceDesc.ServiceName} {
		if !slices.Contains(services, want) {
			t.Errorf("services %q, want %s among them", services, want)
		}
	}
	s.learn(t, s.ask(t, &reflectgrpc.ServerReflectionRequest{
		MessageRequest: &reflectgrpc.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "a2ataskstore.v1.TaskStoreService"},
	}))
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range s.files {
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}

	const task = `{
		"id": "task-1", "contextId": "ctx-1",
		"status": {"state": "TASK_STATE_WORKING", "timestamp": "2025-01-01T00:00:00.123456789Z"},
		"artifacts": [{"artifactId": "a", "parts": [{"text": "hello"}, {"data": {"n": [1, null]}}]}],
		"metadata": {"key": "value"}
	}`
	saved := s.call(ctx, t, files, "Save", `{"task": `+task+`, "events": [{"snapshot": {}}]}`)
	if saved["version"] != "1" || saved["seq"] != "1" {
		t.Errorf("saved %v", saved)
	}
	got := s.call(ctx, t, files, "Get", `{"taskId": "task-1"}`)
	var want map[string]any
	if err := json.Unmarshal([]byte(task), &want); err != nil {
		t.Fatal(err)
	}
	gotTask, _ := json.Marshal(got["task"])
	wantTask, _ := json.Marshal(want)
	if string(gotTask) != string(wantTask) {
		t.Errorf("got %s\nwant %s", gotTask, wantTask)
	}
}
