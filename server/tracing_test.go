package server

import (
	"testing"

	"google.golang.org/grpc"
)

// Without a provider gRPC has nobody to tell of calls.
func TestTracingOffInstallsNothing(t *testing.T) {
	t.Parallel()
	if _, ok := tracing(nil).(grpc.EmptyServerOption); !ok {
		t.Error("an option of gRPC is set although nothing is traced")
	}
}
