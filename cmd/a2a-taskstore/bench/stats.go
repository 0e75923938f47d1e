package bench

import (
	"math"
	"slices"
	"time"
)

// median returns the middle value, or the mean of the two in the middle; NaN without values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// mean returns the average; NaN without values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// percentile returns the smallest of the sorted values that p percent of them do not exceed (nearest rank).
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// ratio is the median of a[i] / b[i]: pairs were measured one after the other, so what slowed one slowed the other. NaN if
// there is nothing to compare.
func ratio(a, b []float64) float64 {
	n := min(len(a), len(b))
	ratios := make([]float64, n)
	for i := range n {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

// inTurn is the rate of an operation that pays two costs one after the other, each measured as a rate.
func inTurn(a, b []float64) []float64 {
	rates := make([]float64, min(len(a), len(b)))
	for i := range rates {
		rates[i] = 1 / (1/a[i] + 1/b[i])
	}
	return rates
}

// stepCosts are the medians over the samples of what an event costs in each step.
func stepCosts(samples []Sample, cost func(Step) float64) []float64 {
	if len(samples) == 0 {
		return nil
	}
	costs := make([]float64, len(samples[0].Steps))
	for i := range costs {
		var values []float64
		for _, s := range samples {
			if i < len(s.Steps) {
				values = append(values, cost(s.Steps[i]))
			}
		}
		costs[i] = median(values)
	}
	return costs
}

// marginal is the cost of an event in the last step as a multiple of the lowest of the middle ones, all but the first and
// the last: about 1 if the cost does not depend on what came before, about the number of steps if it grows with it. NaN
// below three steps.
func marginal(costs []float64) float64 {
	if len(costs) < 3 {
		return math.NaN()
	}
	return costs[len(costs)-1] / slices.Min(costs[1:len(costs)-1])
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
