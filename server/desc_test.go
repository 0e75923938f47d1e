package server

import (
	"testing"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestServiceDescMatchesGenerated(t *testing.T) {
	t.Parallel()
	want := taskstorev1.TaskStoreService_ServiceDesc
	if serviceDesc.ServiceName != want.ServiceName || serviceDesc.Metadata != want.Metadata {
		t.Errorf("name %q, metadata %v", serviceDesc.ServiceName, serviceDesc.Metadata)
	}
	if len(serviceDesc.Methods) != len(want.Methods) || len(serviceDesc.Streams) != len(want.Streams) {
		t.Fatalf("%d methods and %d streams, want %d and %d",
			len(serviceDesc.Methods), len(serviceDesc.Streams), len(want.Methods), len(want.Streams))
	}
	for i, m := range want.Methods {
		if serviceDesc.Methods[i].MethodName != m.MethodName {
			t.Errorf("method %d is %s, want %s", i, serviceDesc.Methods[i].MethodName, m.MethodName)
		}
	}
	for i, m := range want.Streams {
		got := serviceDesc.Streams[i]
		if got.StreamName != m.StreamName || got.ServerStreams != m.ServerStreams || got.ClientStreams != m.ClientStreams {
			t.Errorf("stream %d is %+v, want %+v", i, got, m)
		}
	}
}
