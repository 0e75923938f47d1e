package bench

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// result makes a result with one metric.
func result(c Case, system string, m Metric, values ...float64) Result {
	r := Result{Case: c, System: system}
	for _, v := range values {
		r.Samples = append(r.Samples, Sample{Metrics: map[Metric]float64{m: v}})
	}
	return r
}

// stepped makes a result of a stream with one sample, of which each step cost so much.
func stepped(c Case, system string, costs ...float64) Result {
	s := Sample{}
	for i, cost := range costs {
		written := 10 * cost
		s.Steps = append(s.Steps, Step{Events: 50 * (i + 1), Micros: cost, P50: cost, Written: &written})
	}
	return Result{Case: c, System: system, Samples: []Sample{s}}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	save := Case{Workload: "save", Backend: "memory", Size: 1024, Callers: 64}
	pebble, alone := save, save
	pebble.Backend, alone.Callers = "pebble", 1
	w1 := Case{Workload: "w1", Backend: "memory", Size: 100, Callers: 1}
	page := func(variant string, tasks int) Case {
		return Case{Workload: "w5", Variant: variant, Backend: "pebble", Callers: 1, Tasks: tasks}
	}
	readers := Case{Workload: "w7", Variant: oneReplica, Backend: "memory", Readers: 1000}
	delivered := result(readers, Service, DeliverP50, 900, 1500, 1200)
	for i := range delivered.Samples {
		delivered.Samples[i].Metrics[P50] = 300
	}
	for _, tc := range []struct {
		goal    string
		results []Result
		want    []float64
	}{
		{"save on memory, of the echo", nil, nil},
		{
			"save on memory, of the echo",
			[]Result{result(save, Service, Throughput, 80, 90, 45), result(save, Echo, Throughput, 100, 100, 50)},
			[]float64{0.9},
		},
		{
			"save on memory, of the echo", // other callers and backends do not count
			[]Result{
				result(alone, Service, Throughput, 1), result(alone, Echo, Throughput, 1),
				result(pebble, Service, Throughput, 1), result(pebble, Echo, Throughput, 1),
			},
			nil,
		},
		{
			"save on pebble, of the floor",
			[]Result{
				result(pebble, Service, Throughput, 9), result(pebble, Echo, Throughput, 20), result(pebble, Bare, Throughput, 20),
			},
			[]float64{0.9},
		},
		{
			"w1, cost of an event at the end, of the beginning",
			[]Result{stepped(w1, Service, 10, 11, 12), stepped(w1, DropIn, 10, 50, 100)},
			[]float64{1.2, 10},
		},
		{
			"w1, bytes written for an event at the end, of the beginning",
			[]Result{stepped(w1, Service, 10, 11, 12)},
			[]float64{1.2},
		},
		{"linear: w1", []Result{stepped(w1, Service, 30, 10, 20, 40)}, []float64{4}},
		{
			"w1 of 100 B on memory, drop-in, time of a2a-go's store",
			[]Result{result(w1, DropIn, Throughput, 40), result(w1, SDK, Throughput, 10)},
			[]float64{0.25},
		},
		{
			"w5: page of the largest store, of the smallest",
			[]Result{
				result(page(pageFirst, 1000), Service, P50, 100), result(page(pageTotal, 1000), Service, P50, 100),
				result(page(pageFirst, 1_000_000), Service, P50, 130), result(page(pageTotal, 1_000_000), Service, P50, 9999),
			},
			[]float64{1.3},
		},
		{
			"w5: deep page, of the first",
			[]Result{
				result(page(pageFirst, 1000), Service, P50, 100), result(page(pageDeep, 1000), Service, P50, 110),
				result(page(pageDeep, 1000), Direct, P50, 1), result(page(pageFirst, 5), Service, P50, 1),
			},
			[]float64{1.1},
		},
		{"w7: µs to readers over the RPC, one replica", []Result{delivered}, []float64{900}},
		{
			"w7: cost of an append with 1,000 readers, of one without",
			[]Result{result(readers, Service, P50, 330, 300), result(readers, Quiet, P50, 300, 300)},
			[]float64{1.05},
		},
	} {
		i := slices.IndexFunc(goals, func(g goal) bool { return g.name == tc.goal })
		if i < 0 {
			t.Errorf("there is no goal %q", tc.goal)
			continue
		}
		var got []float64
		for _, f := range goals[i].find(&Report{Results: tc.results}) {
			if f.value == f.value { // not NaN
				got = append(got, f.value)
			}
		}
		if !slices.EqualFunc(got, tc.want, same) {
			t.Errorf("%s: got %v, want %v", tc.goal, got, tc.want)
		}
	}
}

func TestGoalNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range goals {
		if seen[g.name] {
			t.Errorf("%q twice", g.name)
		}
		seen[g.name] = true
	}
}

func TestCheckSaysWhatIsReached(t *testing.T) {
	t.Parallel()
	c := Case{Workload: "w9", Variant: afterStop, Backend: "pebble", Tasks: 100_000}
	for _, tc := range []struct {
		ready float64
		line  string
		want  error
	}{
		{300, "reached", nil},
		{301, "MISSED", ErrMissed},
	} {
		r := &Report{Results: []Result{result(c, Service, Ready, tc.ready)}}
		path := filepath.Join(t.TempDir(), "report.json")
		if err := r.save(path); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		command := Command{Check: []string{path}}
		if err := command.Run(t.Context(), &out, os.Stderr); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%v ms: error %v, want %v", tc.ready, err, tc.want)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(goals) {
			t.Errorf("%d lines for %d goals", len(lines), len(goals))
		}
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "after a clean stop") })
		if i < 0 || !strings.HasPrefix(lines[i], tc.line) {
			t.Errorf("%v ms: no line that says %s in\n%s", tc.ready, tc.line, out.String())
		}
	}
}

func TestCheckRefusesWhatIsNoReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, []byte("ops/s 17"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkFiles([]string{path}, os.Stderr); err == nil || errors.Is(err, ErrMissed) {
		t.Errorf("got %v", err)
	}
}
