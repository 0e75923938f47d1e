package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string // in the error; "": none
	}{
		{nil, ""},
		{[]string{"--quick", "-w", "save", "-w", "w1", "-b", "memory", "--callers", "1,16"}, ""},
		{[]string{"--postgres", "dsn", "-b", "postgres"}, ""},
		{[]string{"--address", "127.0.0.1:7420", "-w", "get"}, ""},
		{[]string{"-w", "w10"}, `no workload "w10"`},
		{[]string{"-b", "mongo"}, `no backend "mongo"`},
		{[]string{"-b", "postgres"}, "needs --postgres"},
		{[]string{"--callers", "0"}, "must be positive"},
		{[]string{"--size=-1"}, "must be positive"},
		{[]string{"--repetitions=-1"}, "must not be negative"},
		{[]string{"--duration=-1s"}, "must not be negative"},
		{[]string{"--address", "x:1", "-b", "memory"}, "leave --backend out"},
		{[]string{"-o", "yaml"}, "must be one of"},
		{[]string{"--check", "no such file"}, "no such file"},
	} {
		var cl struct {
			Bench Command `cmd:""`
		}
		parser, err := kong.New(&cl, kong.Name("test"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse(append([]string{"bench"}, tc.args...))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: error %v, want one with %q", tc.args, err, tc.want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := (&Command{List: true}).Run(t.Context(), &out, os.Stderr); err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads {
		if !strings.Contains(out.String(), w.name) {
			t.Errorf("%s is not in the list", w.name)
		}
	}
}

func TestReportRoundTrip(t *testing.T) {
	t.Parallel()
	want := newReport()
	want.Results = []Result{
		result(Case{Workload: "save", Backend: "memory", Size: 7, Callers: 3}, Echo, Throughput, 1.5, 2.5),
		stepped(Case{Workload: "w1", Variant: "v", Backend: "pebble", Tasks: 1, History: 2, Readers: 3}, Service, 3, 4),
	}
	path := filepath.Join(t.TempDir(), "report.json")
	if err := want.save(path); err != nil {
		t.Fatal(err)
	}
	got, err := loadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Step{})); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
}

func TestTableShowsPairs(t *testing.T) {
	t.Parallel()
	c := Case{Workload: "save", Backend: "memory", Size: 1024, Callers: 64}
	r := &Report{Results: []Result{
		result(c, Service, Throughput, 100, 300, 200), result(c, Echo, Throughput, 200, 400, 400),
		result(Case{Workload: "w9", Backend: "pebble"}, Service, Ready, 41.26),
		stepped(Case{Workload: "w1", Backend: "pebble"}, Service, 10, 20),
	}}
	var out strings.Builder
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"save, memory, 1024 B, 64 callers", "200", "400", "0.50 of it", "ready_ms=41.3", "step by step\nservice  10.0  20.0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
