package bench

import (
	"cmp"
	"time"
)

// scale is how large the workloads are.
type scale struct {
	repetitions int
	// duration is the length of a sample of a workload that runs for a time.
	duration time.Duration
	// keys is how many tasks save, get, list and mix work on.
	keys    int
	sizes   []int
	callers []int

	// A stream is chunks events, timed in steps; a sample is so many streams.
	streams     int
	chunks      int
	chunkSizes  []int
	statusRuns  []statusRun
	history     int // appends
	keptHistory int // of them

	pageTasks  []int
	churnTasks int
	churn      int // status updates
	pages      int // per sample

	claimers     []int
	claimRounds  int
	readers      []int
	deliveries   int
	pace         time.Duration
	idleReaders  int
	startedTasks int
	syncs        int
}

// statusRun is so many status changes on a task with so many messages.
type statusRun struct{ changes, history int }

func (c *Command) scale() scale {
	s := scale{
		repetitions: 5, duration: time.Second,
		keys: 1024, sizes: []int{1 << 10, 64 << 10}, callers: []int{1, 16, 64, 256},
		streams: 4, chunks: 500, chunkSizes: []int{100, 1000},
		statusRuns: []statusRun{{100, 200}, {512, 1}, {512, 200}, {512, 600}},
		history:    1400, keptHistory: 1024,
		pageTasks: []int{1_000, 100_000, 1_000_000}, churnTasks: 100_000, churn: 1_000_000, pages: 200,
		claimers: []int{16, 64, 256}, claimRounds: 100,
		readers: []int{1, 100, 1000}, deliveries: 50, pace: 50 * time.Millisecond,
		idleReaders: 10_000, startedTasks: 100_000, syncs: 500,
	}
	if c.Quick {
		s = scale{
			repetitions: 1, duration: 50 * time.Millisecond,
			keys: 64, sizes: []int{1 << 10}, callers: []int{1, 16},
			streams: 1, chunks: 50, chunkSizes: []int{100},
			statusRuns: []statusRun{{20, 50}}, history: 60, keptHistory: 40,
			pageTasks: []int{200}, churnTasks: 200, churn: 400, pages: 10,
			claimers: []int{16}, claimRounds: 5,
			readers: []int{1, 10}, deliveries: 5, pace: 2 * time.Millisecond,
			idleReaders: 50, startedTasks: 200, syncs: 20,
		}
	}
	s.repetitions = cmp.Or(c.Repetitions, s.repetitions)
	s.duration = cmp.Or(c.Duration, s.duration)
	if len(c.Size) > 0 {
		s.sizes = c.Size
	}
	if len(c.Callers) > 0 {
		s.callers, s.claimers = c.Callers, c.Callers
	}
	if len(c.Tasks) > 0 {
		s.pageTasks, s.churnTasks, s.startedTasks = c.Tasks, c.Tasks[0], c.Tasks[0]
	}
	return s
}
