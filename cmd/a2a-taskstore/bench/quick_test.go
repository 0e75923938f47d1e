package bench

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/server"
)

// quick runs a command on its smallest sizes and returns its report, read back from what it printed.
func quick(t *testing.T, c Command) *Report {
	t.Helper()
	c.Quick, c.Output, c.Dir = true, "json", t.TempDir()
	var out strings.Builder
	if err := c.Run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	r := &Report{}
	if err := json.Unmarshal([]byte(out.String()), r); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	left, err := os.ReadDir(c.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return r
}

// checkSane fails on figures that cannot be. It does not judge how good they are.
func checkSane(t *testing.T, r *Report) {
	t.Helper()
	for _, res := range r.Results {
		where := res.text() + ", " + res.System
		if len(res.Samples) != 1 {
			t.Errorf("%s: %d samples", where, len(res.Samples))
		}
		for _, s := range res.Samples {
			if len(s.Metrics) == 0 {
				t.Errorf("%s: no figures", where)
			}
			for m, v := range s.Metrics {
				if v < 0 && m != Memory || v != v {
					t.Errorf("%s: %s is %v", where, m, v)
				}
			}
			if s.Metrics[P99] < s.Metrics[P50] {
				t.Errorf("%s: p99 %v below p50 %v", where, s.Metrics[P99], s.Metrics[P50])
			}
			if res.System == Service && res.Workload != "w7" && res.Workload != "w9" && s.Metrics[Wire] == 0 {
				t.Errorf("%s: nothing on the wire", where)
			}
			at := 0
			for _, step := range s.Steps {
				if step.Events <= at || step.Micros <= 0 {
					t.Errorf("%s: step %+v behind event %d", where, step, at)
				}
				at = step.Events
			}
		}
	}
}

// systemsOf are the systems of a workload's cases.
func systemsOf(r *Report, workload string) []string {
	var systems []string
	for _, res := range r.Results {
		if res.Workload == workload && !slices.Contains(systems, res.System) {
			systems = append(systems, res.System)
		}
	}
	return systems
}

func TestQuickRunOfEveryWorkload(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"fsync": {Bare},
		"save":  {Service, Echo, Direct},
		"get":   {Service, Echo, Direct},
		"list":  {Service, Echo, Direct},
		"mix":   {Service, Echo, Direct},
		"w1":    {Service, Echo, Direct, DropIn, SDK},
		"w2w3":  {Service, Echo, Direct, Empty},
		"w4":    {Service, Echo, Direct},
		"w5":    {Service, Echo, Direct, SDK},
		"churn": {Service, Fresh},
		"w6":    {Service, Echo, Direct},
		"w7":    {Service, Quiet},
		"w8":    {Service, Quiet},
	}
	for _, w := range workloads {
		if w.durable {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			r := quick(t, Command{Workload: []string{w.name}, Backend: []string{"memory"}})
			checkSane(t, r)
			if got := systemsOf(r, w.name); !slices.Equal(got, want[w.name]) {
				t.Errorf("systems %v, want %v", got, want[w.name])
			}
		})
	}
}

func TestQuickRunOnDisk(t *testing.T) {
	t.Parallel()
	r := quick(t, Command{Workload: []string{"save", "w1", "w9"}, Backend: []string{"pebble"}})
	checkSane(t, r)
	for workload, want := range map[string][]string{
		"save": {Service, Echo, Direct, Bare},
		"w1":   {Service, Echo, Direct, Bare, DropIn, SDK},
		"w9":   {Service},
	} {
		if got := systemsOf(r, workload); !slices.Equal(got, want) {
			t.Errorf("%s: systems %v, want %v", workload, got, want)
		}
	}
	for _, res := range r.Results {
		if res.Workload == "save" && res.System != Echo && median(res.values(Written)) < 1024 {
			t.Errorf("%s, %s: %v bytes written for a task of 1 KiB", res.text(), res.System, median(res.values(Written)))
		}
	}
}

func TestQuickRunAgainstAnAddress(t *testing.T) {
	t.Parallel()
	store, err := memory.Open(memory.Config{MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(store, server.Config{Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()

	r := quick(t, Command{Address: listener.Addr().String(), Workload: []string{"save", "w1", "w5", "w6", "w7"}})
	checkSane(t, r)
	for workload, want := range map[string][]string{
		"save": {Service},
		"w1":   {Service, DropIn, SDK},
		"w5":   nil, // fills the store itself
		"w6":   {Service},
		"w7":   {Service, Quiet},
	} {
		if got := systemsOf(r, workload); !slices.Equal(got, want) {
			t.Errorf("%s: systems %v, want %v", workload, got, want)
		}
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunWritesFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	report, plots, profiles := filepath.Join(dir, "report.json"), filepath.Join(dir, "plots"), filepath.Join(dir, "profiles")
	quick(t, Command{
		Workload: []string{"get", "w1"}, Backend: []string{"memory"}, JSON: report, SVG: plots, Profile: profiles,
	})
	if _, err := loadReport(report); err != nil {
		t.Error(err)
	}
	for name, systems := range map[string]int{"throughput-get-memory-1024.svg": 3, "cost-per-event-memory-100.svg": 5} {
		svg, err := os.ReadFile(filepath.Join(plots, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, lines := svgTexts(t, svg); lines != systems {
			t.Errorf("%s: %d lines, want %d", name, lines, systems)
		}
	}
	for _, pattern := range []string{"get-memory-*.cpu.pprof", "get-memory-*.allocs.pprof", "w1-memory-*.cpu.pprof"} {
		found, err := filepath.Glob(filepath.Join(profiles, pattern))
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", pattern, found, err)
		}
	}
}

func TestRunReportsWhatItMeasuredBeforeItFailed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	c := Command{Quick: true, Output: "json", Workload: []string{"get", "w6"}, Backend: []string{"memory"}, Dir: t.TempDir()}
	err := c.Run(ctx, &out, writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "w6") {
			cancel()
		}
		return len(b), nil
	}))
	if err == nil {
		t.Error("no error")
	}
	r := &Report{}
	if err := json.Unmarshal([]byte(out.String()), r); err != nil {
		t.Fatal(err)
	}
	if len(systemsOf(r, "get")) == 0 || len(systemsOf(r, "w6")) != 0 {
		t.Errorf("get on %v, w6 on %v", systemsOf(r, "get"), systemsOf(r, "w6"))
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	c := Command{Workload: []string{"save"}, Backend: []string{"memory"}, Callers: []int{4}, Duration: time.Hour, Dir: dir}
	// The first line of progress is written when everything has been started.
	err := c.Run(ctx, io.Discard, writerFunc(func(b []byte) (int, error) {
		cancel()
		return len(b), nil
	}))
	if err == nil {
		t.Error("no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestRunSaysWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := start(t.Context(), &childConfig{Place: place{Backend: "pebble", Dir: filepath.Join(file, "below")}})
	if err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a server on a directory below a file: %v", err)
	}
}
