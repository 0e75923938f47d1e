package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

var services = map[string]grpc.ServiceInfo{"s.v1.S": {Methods: []grpc.MethodInfo{
	{Name: "Unary"}, {Name: "Down", IsServerStream: true}, {Name: "Up", IsClientStream: true},
	{Name: "Both", IsClientStream: true, IsServerStream: true},
}}}

func TestCalls(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	calls := NewCalls(reg, services)
	for _, c := range []struct {
		method     string
		code       codes.Code
		kind, name string
		wantCode   string
	}{
		{"/s.v1.S/Unary", codes.OK, "unary", "Unary", "OK"},
		{"/s.v1.S/Down", codes.Aborted, "server_stream", "Down", "Aborted"},
		{"/s.v1.S/Up", codes.Canceled, "client_stream", "Up", "Canceled"},
		{"/s.v1.S/Both", 999, "bidi_stream", "Both", "Unknown"},
		{"/made/up", codes.OK, "unary", "unknown", "OK"},
	} {
		calls.Begin(c.method).End(c.code, time.Now())
		want := map[string]string{"grpc_type": c.kind, "grpc_method": c.name}
		if got := value(t, reg, "grpc_server_started_total", want); got != 1 {
			t.Errorf("%s began %v times", c.method, got)
		}
		want["grpc_code"] = c.wantCode
		if got := value(t, reg, "grpc_server_handled_total", want); got != 1 {
			t.Errorf("%s ended %v times with %s", c.method, got, c.wantCode)
		}
	}
	calls.Begin("/another/one")
	if got := value(t, reg, "grpc_server_started_total", map[string]string{"grpc_method": "unknown"}); got != 2 {
		t.Errorf("unknown methods began %v times", got)
	}
}

// value returns the counter that has the labels, among others.
func value(t *testing.T, reg *prometheus.Registry, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			same := 0
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == l.GetValue() {
					same++
				}
			}
			if f.GetName() == name && same == len(labels) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s with %v", name, labels)
	return 0
}

// What counting costs a call.
func TestCallsAllocateNothing(t *testing.T) {
	calls, began := NewCalls(prometheus.NewRegistry(), services), time.Now()
	if n := testing.AllocsPerRun(100, func() { calls.Begin("/s.v1.S/Unary").End(codes.OK, began) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var off *Calls
	if n := testing.AllocsPerRun(100, func() { off.Begin("/s.v1.S/Unary").End(codes.OK, began) }); n > 0 {
		t.Errorf("%v allocations without metrics", n)
	}
}

func BenchmarkCall(b *testing.B) {
	calls := NewCalls(prometheus.NewRegistry(), services)
	for b.Loop() {
		calls.Begin("/s.v1.S/Unary").End(codes.OK, time.Now())
	}
}
