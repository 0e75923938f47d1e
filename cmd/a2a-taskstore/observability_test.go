package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

//go:generate go test -run ^TestMetrics$ -update

// metricsList is what operators, and the dashboard and the alerts, count on.
const metricsList = "../../deploy/metrics.md"

// secretName is the task, tenant, owner, key and origin of the traffic below; no metric may name it.
const secretName = "nobodys-business"

// TestMetrics looks at what a server shows after some traffic, on each backend, with certificates and credentials.
func TestMetrics(t *testing.T) {
	families := make(map[string]*dto.MetricFamily)
	on := make(map[string][]string) // backends by family
	for _, backend := range []string{"memory", "pebble", "postgres"} {
		args := []string{"--backend", backend}
		if backend == "postgres" {
			args = append(args, "--postgres-dsn", pgtest.Database(t, nil))
		}
		text := scrapeAfterTraffic(t, args...)
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", backend, p.Metric, p.Text)
		}
		if strings.Contains(text, secretName) {
			t.Errorf("%s: the metrics name the task, or whose it is", backend)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		found, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for name, family := range found {
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
				families[name] = family
				on[name] = append(on[name], backend)
				checkLabels(t, family)
			}
		}
	}
	want := describeMetrics(families, on)
	if *update {
		if err := os.WriteFile(metricsList, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(metricsList)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what is exported: go generate ./cmd/a2a-taskstore; want\n%s", metricsList, want)
	}
}

// boundedLabels are those that have few values, which callers do not choose.
var boundedLabels = []string{
	"grpc_type", "grpc_service", "grpc_method", "grpc_code", "files", "goversion", "kind", "level", "operation", "outcome", "pool",
	"reason", "scope", "version",
}

func checkLabels(t *testing.T, family *dto.MetricFamily) {
	t.Helper()
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if !slices.Contains(boundedLabels, l.GetName()) {
				t.Errorf("%s has the label %s", family.GetName(), l.GetName())
				return
			}
		}
	}
}

// describeMetrics writes the list.
func describeMetrics(families map[string]*dto.MetricFamily, on map[string][]string) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nWhat `/metrics` on the admin port shows, next to `go_*` and `process_*`. Generated from what servers with TLS, credentials\n" +
		"and an audit log export: `go generate ./cmd/a2a-taskstore`. Times are in seconds.\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		meaning := strings.ReplaceAll(f.GetHelp(), "|", `\|`)
		if len(on[name]) < 3 {
			meaning += " Only on " + strings.Join(on[name], " and ") + "."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), meaning)
	}
	return b.String()
}

// scrapeAfterTraffic starts a store with TLS and credentials, calls it, and returns what it shows then.
func scrapeAfterTraffic(t *testing.T, args ...string) string {
	t.Helper()
	p := newProcess(t)
	s := p.secure(secretName, "    tenants: [\"*\"]\n")
	p.start(append(append(args, s.serve...), "--admin-listen", "127.0.0.1:0", "--audit-log", s.path("audit.log"))...)

	c, owner := p.client(), secretName
	scope := &taskstorev1.Scope{Tenant: secretName, Owner: &owner}
	save := func() error {
		_, err := c.Save(t.Context(), &taskstorev1.SaveRequest{
			Scope: scope, Origin: secretName,
			Write: &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{
				Id: secretName, ContextId: secretName, Status: &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_WORKING},
			}},
			Events: []*taskstorev1.EventInput{{Input: &taskstorev1.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}}},
		})
		return err
	}
	if err := save(); err != nil {
		t.Fatal(err)
	}
	if err := save(); !errors.Is(err, client.ErrAlreadyExists) {
		t.Fatalf("the second insert: %v", err)
	}
	if _, err := c.Get(t.Context(), &taskstorev1.GetRequest{Scope: scope, TaskId: secretName}); err != nil {
		t.Fatal(err)
	}
	_, err := c.ClaimKey(t.Context(), &taskstorev1.ClaimKeyRequest{
		Scope: scope, Key: secretName, MessageId: secretName, TaskId: secretName, Token: secretName,
		Lease: durationpb.New(time.Minute), Ttl: durationpb.New(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := taskstorev1.NewTaskStoreServiceClient(c.Conn()).ReadEvents(t.Context(), &taskstorev1.ReadEventsRequest{
		Scope: scope, TaskId: secretName, Until: taskstorev1.ReadUntil_READ_UNTIL_HEAD,
	})
	for err == nil {
		_, err = stream.Recv()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	code, text := p.http(t, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics: %d", code)
	}
	for _, line := range []string{
		`a2a_taskstore_ready 1`,
		`a2a_taskstore_readers 0`,
		`a2a_taskstore_audit_log_failing 0`,
		`a2a_taskstore_audit_log_lost_lines_total 0`,
		`a2a_taskstore_events_appended_total 1`,
		`a2a_taskstore_conflicts_total{reason="TASK_EXISTS"} 1`,
		`a2a_taskstore_claims_total{outcome="claimed"} 1`,
		`a2a_taskstore_backend_operation_seconds_count{operation="save",outcome="ok"} 1`,
		`a2a_taskstore_backend_operation_seconds_count{operation="save",outcome="refused"} 1`,
		`grpc_server_started_total{grpc_method="Save",grpc_service="a2ataskstore.v1.TaskStoreService",grpc_type="unary"} 2`,
		`grpc_server_handled_total{grpc_code="AlreadyExists",grpc_method="Save",grpc_service="a2ataskstore.v1.TaskStoreService",grpc_type="unary"} 1`,
		`grpc_server_handled_total{grpc_code="OK",grpc_method="ReadEvents",grpc_service="a2ataskstore.v1.TaskStoreService",grpc_type="server_stream"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%v: no %s", args, line)
		}
	}
	return text
}

// http asks the admin port.
func (p *process) http(t *testing.T, path string) (code int, body string) {
	t.Helper()
	var address string
	for line := range strings.Lines(p.log.String()) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "admin port" {
			address = entry.Address
		}
	}
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatalf("the admin port: %v\n%s", err, p.log.String())
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// The admin port from start to end: it says when to send no more calls, and goes on saying how the process does.
func TestAdminPort(t *testing.T) {
	p := newProcess(t)
	p.start("--admin-listen", "127.0.0.1:0", "--drain-delay", "3s")
	expect := func(path string, want int) {
		t.Helper()
		if code, body := p.http(t, path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
	expect("/livez", http.StatusOK)
	expect("/readyz", http.StatusOK)
	expect("/debug/pprof/", http.StatusNotFound)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if code, _ := p.http(t, "/readyz"); code == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("ready while it drains")
		}
	}
	expect("/livez", http.StatusOK)
	if _, text := p.http(t, "/metrics"); !strings.Contains(text, "\na2a_taskstore_draining 1\n") {
		t.Error("the metrics do not say that it drains")
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, p.log.String())
	}
}

func TestProfilesAndTakenAdminPort(t *testing.T) {
	p := newProcess(t)
	p.start("--admin-listen", "127.0.0.1:0", "--pprof")
	for path, want := range map[string]int{
		"/debug/pprof/heap": http.StatusOK, "/debug/pprof/cmdline": http.StatusNotFound,
	} {
		if code, _ := p.http(t, path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	code, _, stderr := command(t, "serve", "--listen", "127.0.0.1:0", "--admin-listen", taken.Addr().String(), "--data-dir", t.TempDir())
	if code != exitFailed || !strings.Contains(stderr, "--admin-listen") {
		t.Errorf("a taken port: exit code %d, %s", code, stderr)
	}
}
