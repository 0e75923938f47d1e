package bench

import (
	"context"
	"fmt"
	"time"

	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

func runStatuses(ctx context.Context, s *session, backend string) error {
	return s.inArena(func(a *arena) error {
		open, err := a.open(ctx, "w2w3", backend, nil, func(ctx context.Context, t *target) error {
			st := s.statuses(t, statusRun{1, 1})
			if err := st.begin(ctx, 0); err != nil {
				return err
			}
			return st.event(ctx, 0, 1)
		})
		if err != nil {
			return err
		}
		for _, run := range s.statusRuns {
			contestants := open.contestants(func(t *target) func(context.Context) (Sample, error) {
				return s.streaming(s.statuses(t, run))
			})
			empty := statusRun{changes: run.changes}
			contestants = append(contestants, contestant{Empty, s.streaming(s.statuses(open.service, empty))})
			c := Case{
				Workload: "w2w3", Variant: fmt.Sprintf("%d changes", run.changes), Backend: backend, Callers: 1, History: run.history,
			}
			if err := s.compare(ctx, c, contestants...); err != nil {
				return err
			}
		}
		return nil
	})
}

// statuses is a stream of status changes, each with a message of the agent.
func (s *session) statuses(t *target, run statusRun) *stream {
	return &stream{
		begin: func(ctx context.Context, task int) error {
			req := t.whole(taskName(task), contextOf(task), working, time.Now(), nil)
			req.Task[0] = historyOf(taskName(task), contextOf(task), run.history)
			return t.save(ctx, req)
		},
		event: func(ctx context.Context, task, n int) error {
			id, status := taskName(task), status(working, time.Now())
			status.Message = message("status", 100)
			delta := &wirev1.TaskDelta{TaskId: id, Status: [][]byte{encode(status)}}
			return t.save(ctx, t.change(delta, statusEvent(id, contextOf(task), status)))
		},
		events: run.changes, steps: streamSteps, meters: t.meters,
	}
}
