package bench

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// load is what a number of callers did.
type load struct {
	latencies []time.Duration // sorted
	elapsed   time.Duration
}

// operation is one call. n counts the calls of this caller from 0.
type operation func(ctx context.Context, caller, n int) error

// drive has each caller repeat an operation, without a pause, until the time is over. The first error ends it.
func drive(ctx context.Context, callers int, d time.Duration, op operation) (load, error) {
	var over atomic.Bool
	timer := time.AfterFunc(d, func() { over.Store(true) })
	defer timer.Stop()
	return run(ctx, callers, func(n int) bool { return n > 0 && over.Load() }, op)
}

// driveCount is drive for so many operations in all, at least one a caller.
func driveCount(ctx context.Context, callers, ops int, op operation) (load, error) {
	each := max(ops/callers, 1)
	return run(ctx, callers, func(n int) bool { return n >= each }, op)
}

func run(ctx context.Context, callers int, done func(n int) bool, op operation) (load, error) {
	latencies := make([][]time.Duration, callers)
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for caller := range callers {
		g.Go(func() error {
			for n := 0; !done(n); n++ {
				start := time.Now()
				if err := op(ctx, caller, n); err != nil {
					return err
				}
				latencies[caller] = append(latencies[caller], time.Since(start))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return load{}, err
	}
	l := load{elapsed: time.Since(began), latencies: slices.Concat(latencies...)}
	slices.Sort(l.latencies)
	return l, nil
}

// metrics are the figures of a load; with the counters of a system around it, also those per operation.
func (l *load) metrics() map[Metric]float64 {
	return map[Metric]float64{
		Throughput: float64(len(l.latencies)) / l.elapsed.Seconds(),
		P50:        micros(percentile(l.latencies, 50)),
		P99:        micros(percentile(l.latencies, 99)),
	}
}
