package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// goal is a bound that each of its findings must keep.
type goal struct {
	name  string
	limit float64
	least bool // the limit is the least value that is reached; else the greatest
	find  func(*Report) []finding
}

// finding is what a report says about a goal in one place.
type finding struct {
	where string
	value float64
}

func (g *goal) reached(v float64) bool {
	if g.least {
		return v >= g.limit
	}
	return v <= g.limit
}

func (g *goal) bound() string {
	if g.least {
		return "≥ " + cell(g.limit)
	}
	return "≤ " + cell(g.limit)
}

// checkFiles writes what reports say about each goal. It returns ErrMissed if one is missed. What was not measured is said,
// and is not missed.
func checkFiles(paths []string, w io.Writer) error {
	all := &Report{}
	for _, path := range paths {
		r, err := loadReport(path)
		if err != nil {
			return err
		}
		all.Results = append(all.Results, r.Results...)
	}
	return all.check(w)
}

func (r *Report) check(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	missed := false
	for _, g := range goals {
		found := slices.DeleteFunc(g.find(r), func(f finding) bool { return math.IsNaN(f.value) })
		if len(found) == 0 {
			fmt.Fprintf(t, "not measured\t%s\t\t%s\n", g.name, g.bound())
		}
		for _, f := range found {
			verdict := "reached"
			if !g.reached(f.value) {
				verdict, missed = "MISSED", true
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", verdict, g.name, cell(f.value), g.bound(), f.where)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if missed {
		return ErrMissed
	}
	return nil
}

// each evaluates the cases in which a system was measured.
func each(system string, match func(Case) bool, value func(r *Report, result *Result) float64) func(*Report) []finding {
	return func(r *Report) []finding {
		var out []finding
		for i := range r.Results {
			if res := &r.Results[i]; res.System == system && match(res.Case) {
				out = append(out, finding{res.text() + ", " + res.System, value(r, res)})
			}
		}
		return out
	}
}

// both concatenates the findings of two.
func both(a, b func(*Report) []finding) func(*Report) []finding {
	return func(r *Report) []finding { return append(a(r), b(r)...) }
}

// in matches cases of a workload, and of a backend unless it is "".
func in(workload, backend string, more ...func(Case) bool) func(Case) bool {
	return func(c Case) bool {
		return c.Workload == workload && (backend == "" || c.Backend == backend) &&
			!slices.ContainsFunc(more, func(match func(Case) bool) bool { return !match(c) })
	}
}

func callers(counts ...int) func(Case) bool {
	return func(c Case) bool { return slices.Contains(counts, c.Callers) }
}

func sized(bytes int) func(Case) bool { return func(c Case) bool { return c.Size == bytes } }

func variant(name string) func(Case) bool { return func(c Case) bool { return c.Variant == name } }

// against is a metric of the result as a multiple of another system's.
func against(system string, m Metric) func(*Report, *Result) float64 {
	return func(r *Report, res *Result) float64 { return ratio(res.values(m), r.find(res.Case, system).values(m)) }
}

// costAgainst is the time of all operations as a multiple of another system's.
func costAgainst(system string) func(*Report, *Result) float64 {
	return func(r *Report, res *Result) float64 {
		return ratio(r.find(res.Case, system).values(Throughput), res.values(Throughput))
	}
}

// ofFloor is the throughput as a share of the floor: the costs of an echo and of the engine in turn.
func ofFloor(engine string) func(*Report, *Result) float64 {
	return func(r *Report, res *Result) float64 {
		floor := inTurn(r.find(res.Case, Echo).values(Throughput), r.find(res.Case, engine).values(Throughput))
		return ratio(res.values(Throughput), floor)
	}
}

func value(m Metric) func(*Report, *Result) float64 {
	return func(_ *Report, res *Result) float64 { return res.figure(m) }
}

func stepMicros(s Step) float64 { return s.Micros }

func stepP50(s Step) float64 { return s.P50 }

func stepWritten(s Step) float64 {
	if s.Written == nil || *s.Written == 0 {
		return math.NaN()
	}
	return *s.Written
}

// lastOfFirst is the cost of an event in the last step as a multiple of that in the first.
func lastOfFirst(cost func(Step) float64) func(*Report, *Result) float64 {
	return func(_ *Report, res *Result) float64 {
		costs := stepCosts(res.Samples, cost)
		if len(costs) < 2 {
			return math.NaN()
		}
		return costs[len(costs)-1] / costs[0]
	}
}

func gate(_ *Report, res *Result) float64 { return marginal(stepCosts(res.Samples, stepMicros)) }

// overRPC is how much later than the reply an event is at its readers, at the median.
func overRPC(_ *Report, res *Result) float64 {
	return median(res.values(DeliverP50)) - median(res.values(P50))
}
