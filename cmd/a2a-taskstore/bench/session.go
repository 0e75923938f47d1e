package bench

import (
	"context"
	"fmt"
	"io"
	"maps"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var anyVersion = &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Any{Any: &emptypb.Empty{}}}

// session is one run of the benchmark.
type session struct {
	scale
	dir      string
	dsn      string
	external string // address of the store to measure; "": those that are started
	// connection says how to connect to it; otherwise, to none of those that are started.
	connection []grpc.DialOption
	profiles   string // directory; "": none
	progress   io.Writer
	report     *Report
	places     int
	tasks      int // numbers of tasks that streams have used
}

// contestant is a system in a comparison.
type contestant struct {
	system string
	sample func(context.Context) (Sample, error)
}

// compare samples the systems of a case in turn, again and again, so that what disturbs the machine disturbs all alike. A
// first round, which warms up, does not count, unless there is only one.
func (s *session) compare(ctx context.Context, c Case, contestants ...contestant) error {
	fmt.Fprintf(s.progress, "bench: %s\n", c.text())
	results := make([]Result, len(contestants))
	first := -1
	if s.repetitions == 1 {
		first = 0
	}
	for round := first; round < s.repetitions; round++ {
		for i, each := range contestants {
			sample, err := each.sample(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", each.system, err)
			}
			results[i].Case, results[i].System = c, each.system
			if round >= 0 {
				results[i].Samples = append(results[i].Samples, sample)
			}
		}
	}
	s.report.Results = append(s.report.Results, results...)
	return nil
}

// measured runs a load between two readings of the meters.
func measured(ctx context.Context, meters []meter, work func() (load, error)) (Sample, error) {
	before, err := read(ctx, meters)
	if err != nil {
		return Sample{}, err
	}
	l, err := work()
	if err != nil {
		return Sample{}, err
	}
	after, err := read(ctx, meters)
	if err != nil {
		return Sample{}, err
	}
	sample := Sample{Metrics: l.metrics()}
	maps.Copy(sample.Metrics, after.since(before, len(l.latencies)))
	return sample, nil
}
