package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// same compares figures; NaN is the same as NaN.
func same(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()},
		{[]float64{3}, 3},
		{[]float64{4, 1}, 2.5},
		{[]float64{9, 1, 5}, 5},
		{[]float64{8, 2, 4, 100}, 6},
	} {
		given := slices.Clone(tc.values)
		if got := median(given); !same(got, tc.want) {
			t.Errorf("median(%v) = %v, want %v", tc.values, got, tc.want)
		}
		if !slices.Equal(given, tc.values) {
			t.Errorf("median changed %v to %v", tc.values, given)
		}
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	for m, want := range map[Metric]float64{Throughput: 2, Written: 4} {
		r := result(Case{}, Service, m, 1, 2, 9)
		if got := r.figure(m); !same(got, want) {
			t.Errorf("%s: %v, want %v", m, got, want)
		}
		none := Result{}
		if got := none.figure(m); !math.IsNaN(got) {
			t.Errorf("%s of nothing: %v", m, got)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tc := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{nil, 50, 0},
		{hundred[:1], 1, 1},
		{hundred[:1], 99, 1},
		{hundred[:2], 50, 1},
		{hundred[:3], 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
		{hundred, 100, 100},
		{hundred, 0, 1},
	} {
		if got := percentile(tc.sorted, tc.p); got != tc.want {
			t.Errorf("percentile of %d values, %v = %v, want %v", len(tc.sorted), tc.p, got, tc.want)
		}
	}
}

func TestPercentileIsTheLeastThatEnoughValuesDoNotExceed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Map(rapid.Int64Range(0, 50), func(n int64) time.Duration { return time.Duration(n) }), 1, 60).Draw(t, "values")
		p := rapid.IntRange(1, 100).Draw(t, "p")
		slices.Sort(values)
		got := percentile(values, float64(p))
		below := func(v time.Duration) int {
			n, _ := slices.BinarySearch(values, v+1)
			return n
		}
		if !slices.Contains(values, got) || below(got)*100 < p*len(values) {
			t.Fatalf("%v: %d of %d values are at most that", got, below(got), len(values))
		}
		if below(got-1)*100 >= p*len(values) {
			t.Fatalf("%v: %d of %d values are less than that", got, below(got-1), len(values))
		}
	})
}

func TestRatio(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b []float64
		want float64
	}{
		{nil, nil, math.NaN()},
		{[]float64{1}, nil, math.NaN()},
		{[]float64{1, 8, 6}, []float64{2, 2, 2}, 3},
		// A machine that was ten times slower for one pair changes nothing.
		{[]float64{4, 0.4, 4}, []float64{2, 0.2, 2}, 2},
		{[]float64{4, 4, 100}, []float64{2, 2}, 2},
	} {
		if got := ratio(tc.a, tc.b); !same(got, tc.want) {
			t.Errorf("ratio(%v, %v) = %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestInTurn(t *testing.T) {
	t.Parallel()
	got := inTurn([]float64{20_000, 10}, []float64{20_000, 40, 7})
	if len(got) != 2 || !same(got[0], 10_000) || !same(got[1], 8) {
		t.Errorf("got %v", got)
	}
}

func TestMarginal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		costs []float64
		want  float64
	}{
		{"nothing", nil, math.NaN()},
		{"no middle", []float64{1, 1}, math.NaN()},
		{"constant", []float64{2, 2, 2, 2}, 1},
		{"linear in what came before", []float64{1, 2, 3, 4, 5}, 2.5},
		{"a dear start does not count", []float64{100, 2, 3, 3}, 1.5},
		{"the lowest of the middle counts", []float64{1, 9, 3, 12}, 4},
	} {
		if got := marginal(tc.costs); !same(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestStepCosts(t *testing.T) {
	t.Parallel()
	sample := func(costs ...float64) Sample {
		s := Sample{}
		for _, c := range costs {
			s.Steps = append(s.Steps, Step{Micros: c})
		}
		return s
	}
	got := stepCosts([]Sample{sample(1, 10), sample(3, 50), sample(2, 30)}, stepMicros)
	if !slices.Equal(got, []float64{2, 30}) {
		t.Errorf("got %v", got)
	}
	if got := stepCosts(nil, stepMicros); got != nil {
		t.Errorf("without samples: %v", got)
	}
}

func TestStepsCoverAllEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events, steps := rapid.IntRange(1, 2000).Draw(t, "events"), rapid.IntRange(1, 20).Draw(t, "steps")
		at := 0
		for _, s := range stepsOf(events, steps) {
			if s.first != at || s.Events <= at {
				t.Fatalf("a step of events %d to %d behind event %d", s.first, s.Events, at)
			}
			at = s.Events
		}
		if at != events {
			t.Fatalf("%d of %d events", at, events)
		}
	})
}
