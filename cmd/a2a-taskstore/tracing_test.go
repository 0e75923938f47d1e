package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestTracesWanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, false},
		{map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, false},
	} {
		if got := tracesWanted(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}

// A server that the environment asks for traces sends them, the last ones as it ends, in both protocols.
func TestServeExportsSpans(t *testing.T) {
	t.Parallel()
	for protocol, collect := range map[string]func(*testing.T, chan<- *collectorpb.ExportTraceServiceRequest) string{
		"http/protobuf": collectHTTP,
		"grpc":          collectGRPC,
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			received := make(chan *collectorpb.ExportTraceServiceRequest, 100)
			p := newProcess(t)
			p.env = []string{
				"OTEL_EXPORTER_OTLP_ENDPOINT=" + collect(t, received), "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol,
				"OTEL_SERVICE_NAME=store-of-the-test", "OTEL_EXPORTER_OTLP_HEADERS=authorization=%zzsecret",
			}
			p.start("--backend", "memory")
			conn := p.client()
			defer conn.Close()
			if _, err := conn.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err == nil {
				t.Fatal("found a task")
			}
			p.stop()
			wantSpan(t, received, "a2ataskstore.v1.TaskStoreService/Get", &p.log)
			// The SDK complains of the header that it cannot read.
			if !p.log.contains("tracing: escape header value") || p.log.contains("zzsecret") {
				t.Errorf("the log lacks a message of the SDK, or shows the header:\n%s", p.log.String())
			}
		})
	}
}

// wantSpan waits for a span of the name.
func wantSpan(t *testing.T, received <-chan *collectorpb.ExportTraceServiceRequest, name string, log *output) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case req := <-received:
			for _, r := range req.GetResourceSpans() {
				for _, a := range r.GetResource().GetAttributes() {
					if a.GetKey() == "service.name" && a.GetValue().GetStringValue() != "store-of-the-test" {
						t.Errorf("service.name is %v", a.GetValue())
					}
				}
				for _, s := range r.GetScopeSpans() {
					for _, span := range s.GetSpans() {
						if span.GetName() == name {
							return
						}
					}
				}
			}
		case <-deadline:
			t.Fatalf("no span %q; the server says:\n%s", name, log.String())
		}
	}
}

// collectHTTP is a collector that speaks OTLP over HTTP. It returns its endpoint.
func collectHTTP(t *testing.T, received chan<- *collectorpb.ExportTraceServiceRequest) string {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := &collectorpb.ExportTraceServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(body, req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		received <- req
	}))
	t.Cleanup(collector.Close)
	return collector.URL
}

// collectGRPC is a collector that speaks OTLP over gRPC. It returns its endpoint.
func collectGRPC(t *testing.T, received chan<- *collectorpb.ExportTraceServiceRequest) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(s, grpcCollector{received: received})
	go s.Serve(lis)
	t.Cleanup(s.Stop)
	return "http://" + lis.Addr().String()
}

type grpcCollector struct {
	collectorpb.UnimplementedTraceServiceServer
	received chan<- *collectorpb.ExportTraceServiceRequest
}

func (c grpcCollector) Export(
	_ context.Context, req *collectorpb.ExportTraceServiceRequest,
) (*collectorpb.ExportTraceServiceResponse, error) {
	c.received <- req
	return &collectorpb.ExportTraceServiceResponse{}, nil
}
