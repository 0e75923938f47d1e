package bench

import (
	"context"
	"maps"
	"slices"
	"time"
)

// stream is a sequence of writes of one task, by one caller.
type stream struct {
	// begin makes the task.
	begin func(ctx context.Context, task int) error
	// event makes the n-th write, from 1.
	event  func(ctx context.Context, task, n int) error
	events int
	steps  int
	meters []meter
}

// streaming samples so many streams, one after the other, and reports what an event costs in each step of them.
func (s *session) streaming(st *stream) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		steps := stepsOf(st.events, st.steps)
		latencies := make([][]time.Duration, len(steps))
		totals := counters{}
		var all load
		for range s.streams {
			s.tasks++
			if err := st.begin(ctx, s.tasks); err != nil {
				return Sample{}, err
			}
			n := 0
			for i := range steps {
				before, err := read(ctx, st.meters)
				if err != nil {
					return Sample{}, err
				}
				began := time.Now()
				for n < steps[i].Events {
					n++
					start := time.Now()
					if err := st.event(ctx, s.tasks, n); err != nil {
						return Sample{}, err
					}
					latencies[i] = append(latencies[i], time.Since(start))
				}
				took := time.Since(began)
				all.elapsed += took
				after, err := read(ctx, st.meters)
				if err != nil {
					return Sample{}, err
				}
				steps[i].add(took, after.since(before, 1), s.streams)
				for m, v := range after.since(before, s.streams*st.events) {
					totals[m] += v
				}
			}
		}
		for i := range steps {
			slices.Sort(latencies[i])
			steps[i].P50 = micros(percentile(latencies[i], 50))
		}
		all.latencies = slices.Concat(latencies...)
		slices.Sort(all.latencies)
		sample := Sample{Metrics: all.metrics(), Steps: steps}
		maps.Copy(sample.Metrics, totals)
		return sample, nil
	}
}

// stepsOf divides events into steps of about the same length.
func stepsOf(events, steps int) []Step {
	out := make([]Step, min(events, steps))
	for i := range out {
		out[i].Events = events * (i + 1) / len(out)
		out[i].first = events * i / len(out)
	}
	return out
}

// add adds what one of so many streams spent in the step.
func (st *Step) add(took time.Duration, counted map[Metric]float64, streams int) {
	events := float64(streams * (st.Events - st.first))
	st.Micros += micros(took) / events
	if w, ok := counted[Written]; ok {
		if st.Written == nil {
			st.Written = new(float64)
		}
		*st.Written += w / events
	}
}
