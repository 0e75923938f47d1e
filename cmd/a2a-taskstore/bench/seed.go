package bench

import (
	"context"
	"crypto/rand"
	"time"

	"golang.org/x/sync/errgroup"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// seed is what a store holds before it is measured.
type seed struct {
	Tasks int
	Size  int // bytes of a task
	// Mixed gives the tasks their times in another order than that of their ids, as use does it.
	Mixed bool
}

// at is the place of a task in the order of times, from 0.
func (s *seed) at(task int) int {
	if !s.Mixed {
		return task
	}
	const prime = 7_368_787 // larger than any number of tasks, so that this is a permutation
	return task * prime % s.Tasks
}

// tasksPerContext is how many seeded tasks share a context.
const tasksPerContext = 100

func contextOf(task int) string { return contextName(task / tasksPerContext) }

// seededState spreads the states: one task in ten is at work. None is terminal, so that all can be updated.
func seededState(task int) taskstorev1.TaskState {
	if task%10 == 0 {
		return working
	}
	return taskstorev1.TaskState_TASK_STATE_INPUT_REQUIRED
}

// seeders is how many write at once, so that they share commits.
const seeders = 64

// plant puts the seed into a store, in the tenant of the target.
func (s *seed) plant(ctx context.Context, t *target) error {
	body, began := body(s.Size), time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for first := range seeders {
		g.Go(func() error {
			for n := first; n < s.Tasks; n += seeders {
				at := began.Add(time.Duration(s.at(n)-s.Tasks) * time.Millisecond)
				if err := t.save(ctx, t.whole(taskName(n), contextOf(n), seededState(n), at, body)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// whole is the Save of a whole task, with the event of its status.
func (t *target) whole(id, contextID string, state taskstorev1.TaskState, at time.Time, body []byte) *wirev1.SaveRequest {
	return &wirev1.SaveRequest{
		Scope:        t.scope(),
		Task:         [][]byte{append(head(id, contextID, state, at), body...)},
		Precondition: anyVersion,
		Events:       []*wirev1.EventInput{{Event: [][]byte{statusEvent(id, contextID, status(state, at))}}},
		WriteId:      rand.Text(),
	}
}

// change is the Save of a delta, with an event.
func (t *target) change(delta *wirev1.TaskDelta, event []byte) *wirev1.SaveRequest {
	return &wirev1.SaveRequest{
		Scope: t.scope(), Delta: delta, Precondition: anyVersion,
		Events: []*wirev1.EventInput{{Event: [][]byte{event}}}, WriteId: rand.Text(),
	}
}
