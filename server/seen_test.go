package server

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2a-taskstore/taskstore/backend/observe"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// seen returns the value of the metric with the labels, of a histogram the count.
func seen(t *testing.T, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := make(map[string]bool)
			for _, l := range m.GetLabel() {
				has[l.GetValue()] = true
			}
			all := true
			for _, l := range labels {
				all = all && has[l]
			}
			if all {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("no %s %q", name, labels)
	return 0
}

// shows waits until a metric has a value: a call's end is counted when its caller may already know.
func shows(t *testing.T, reg *prometheus.Registry, want float64, name string, labels ...string) {
	t.Helper()
	got, ticker := 0.0, time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-ticker.C {
		if got = seen(t, reg, name, labels...); got == want {
			return
		}
	}
	t.Errorf("%s %q is %v, want %v", name, labels, got, want)
}

func startSeen(t *testing.T, cfg Config) (*fixture, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	cfg.Metrics = reg
	return start(t, observe.Wrap(newStore(t), reg), cfg), reg
}

func TestReadersAreSeen(t *testing.T) {
	t.Parallel()
	f, reg := startSeen(t, Config{})
	f.mustSave(t, whole(working("t")))
	stream, err := f.ReadEvents(t.Context(), &pb.ReadEventsRequest{TaskId: "t"})
	if err != nil {
		t.Fatal(err)
	}
	receive := func() *pb.ReadEventsResponse {
		frame, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return frame
	}
	receive() // opened
	receive() // what was there before
	shows(t, reg, 1, "a2a_taskstore_readers")
	shows(t, reg, 0, "a2a_taskstore_reader_lag_seconds")
	f.mustSave(t, whole(completed("t")))
	receive()
	receive() // the end
	shows(t, reg, 1, "a2a_taskstore_reader_lag_seconds")
	shows(t, reg, 0, "a2a_taskstore_readers")
	shows(t, reg, 2, "a2a_taskstore_events_appended_total")
	shows(t, reg, 1, "grpc_server_started_total", "ReadEvents")
}

func TestRefusalsAndWaitsAreSeen(t *testing.T) {
	t.Parallel()
	f, reg := startSeen(t, Config{Limits: Limits{Streams: 1}})
	wait := &pb.GetRequest{TaskId: "t", Wait: &pb.Wait{Timeout: durationpb.New(30 * time.Second)}}
	waited := make(chan error, 1)
	go func() {
		_, err := f.Get(t.Context(), wait)
		waited <- err
	}()
	shows(t, reg, 1, "a2a_taskstore_waiting_gets")
	if _, err := f.Get(t.Context(), wait); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second one: %v", err)
	}
	shows(t, reg, 1, "a2a_taskstore_limit_refusals_total", "TOO_MANY_STREAMS", "server")
	shows(t, reg, 1, "grpc_server_handled_total", "Get", "ResourceExhausted")
	f.mustSave(t, whole(working("t")))
	if err := <-waited; err != nil {
		t.Error(err)
	}
	shows(t, reg, 0, "a2a_taskstore_waiting_gets")
	shows(t, reg, 1, "grpc_server_handled_total", "Get", "OK")
}

func TestSweepsAreSeen(t *testing.T) {
	t.Parallel()
	f, reg := startSeen(t, Config{SweepInterval: -1})
	f.mustSave(t, whole(working("t")))
	f.server.cfg.Retention.LogEvents = 1
	f.mustSave(t, whole(working("t")))
	err := f.server.sweep(t.Context())
	f.server.seen.Swept(err)
	if err != nil {
		t.Fatal(err)
	}
	shows(t, reg, 1, "a2a_taskstore_sweep_rounds_total")
	shows(t, reg, 1, "a2a_taskstore_swept_total", "event")
}
