package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
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

// A server that the environment asks for traces sends them, the last ones as it ends.
func TestServeExportsSpans(t *testing.T) {
	t.Parallel()
	received := make(chan *collectorpb.ExportTraceServiceRequest, 100)
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
	defer collector.Close()
	p := newProcess(t)
	p.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_SERVICE_NAME=store-of-the-test"}
	p.start("--backend", "memory")
	conn := p.client()
	defer conn.Close()
	if _, err := conn.Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err == nil {
		t.Fatal("found a task")
	}
	p.stop()
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
						if span.GetName() == "a2ataskstore.v1.TaskStoreService/Get" {
							return
						}
					}
				}
			}
		case <-deadline:
			t.Fatalf("no span of the call; the server says:\n%s", p.log.String())
		}
	}
}
