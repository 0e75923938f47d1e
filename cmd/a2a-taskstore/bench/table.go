package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// text describes a case in a line.
func (c Case) text() string {
	parts := []string{c.Workload, c.Backend}
	add := func(n int, unit string) {
		if n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+unit)
		}
	}
	if c.Variant != "" {
		parts = append(parts, c.Variant)
	}
	add(c.Size, "B")
	add(c.Callers, "callers")
	add(c.Tasks, "tasks")
	add(c.History, "messages")
	add(c.Readers, "readers")
	return strings.Join(parts, ", ")
}

// columns are the metrics that have one in the table; others stand behind them by name.
var columns = []struct {
	metric Metric
	title  string
}{
	{Throughput, "ops/s"}, {P50, "p50 µs"}, {P99, "p99 µs"}, {Wire, "wire B/op"}, {Written, "written B/op"},
	{Allocs, "allocs/op"}, {AllocBytes, "alloc B/op"}, {CPU, "cpu µs/op"},
}

var otherMetrics = []Metric{DeliverP50, DeliverP99, Memory, Ready}

// writeTable writes the figures of all results. The last column is the throughput of the service as a multiple of the row's, the median of the
// pairs.
func (r *Report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %d CPUs, %s; medians, of bytes written means\n", r.Started.Format("2006-01-02 15:04 MST"), r.GoVersion, r.CPUs, r.Platform)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range r.Results {
		result := &r.Results[i]
		if i == 0 || result.Case != r.Results[i-1].Case {
			titles := []string{}
			for _, c := range columns {
				titles = append(titles, c.title)
			}
			fmt.Fprintf(t, "\n%s\n\t%s\tservice is\n", result.Case.text(), strings.Join(titles, "\t"))
		}
		cells := []string{result.System}
		for _, c := range columns {
			cells = append(cells, cell(result.figure(c.metric)))
		}
		times := ratio(r.find(result.Case, Service).values(Throughput), result.values(Throughput))
		if result.System == Service || math.IsNaN(times) {
			cells = append(cells, "")
		} else {
			cells = append(cells, fmt.Sprintf("%.2f of it", times))
		}
		for _, m := range otherMetrics {
			if v := result.figure(m); !math.IsNaN(v) {
				cells = append(cells, string(m)+"="+cell(v))
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
		if i == len(r.Results)-1 || result.Case != r.Results[i+1].Case {
			r.writeSteps(t, result.Case)
		}
	}
	return t.Flush()
}

// writeSteps writes what an event costs in each step of the streams of a case.
func (r *Report) writeSteps(t io.Writer, c Case) {
	title := "µs per event, step by step"
	for i := range r.Results {
		result := &r.Results[i]
		costs := stepCosts(result.Samples, stepMicros)
		if result.Case != c || len(costs) == 0 {
			continue
		}
		cells := []string{result.System}
		for _, cost := range costs {
			cells = append(cells, cell(cost))
		}
		if title != "" {
			fmt.Fprintln(t, title)
			title = ""
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
}

// cell writes a figure with three digits that count, or more where it has more before the point.
func cell(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v == 0:
		return "0"
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}
