package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// churners is how many callers update statuses.
const churners = 64

// runChurn compares pages of a store whose tasks were updated many times with those of one that was only loaded.
func runChurn(ctx context.Context, s *session, backend string) error {
	return s.inArena(func(a *arena) error {
		// Mixed, so that the newest tasks of both stores are anywhere among the ids, and all that differs is the updates.
		sd := &seed{Tasks: s.churnTasks, Size: seededSize, Mixed: true}
		fresh, err := a.service(ctx, "fresh", s.newPlace(backend), sd)
		if err != nil {
			return err
		}
		churned, err := a.service(ctx, "churn", s.newPlace(backend), sd)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.progress, "bench: churn, %s, making %d updates\n", backend, s.churn)
		_, err = driveCount(ctx, churners, s.churn, func(ctx context.Context, _, _ int) error {
			// The state stays, so that pages of both stores weigh the same.
			task := rand.IntN(s.churnTasks)
			status := status(seededState(task), time.Now())
			delta := &wirev1.TaskDelta{TaskId: taskName(task), Status: [][]byte{encode(status)}}
			return churned.save(ctx, churned.change(delta, statusEvent(taskName(task), contextOf(task), status)))
		})
		if err != nil {
			return err
		}
		for _, variant := range []string{pageFirst, pageStatus} {
			request := func() *taskstorev1.ListRequest {
				req := &taskstorev1.ListRequest{PageSize: proto.Int32(pageSize), SkipTotal: true}
				if variant == pageStatus {
					req.Status = working
				}
				return req
			}
			c := Case{Workload: "churn", Variant: variant, Backend: backend, Callers: 1, Tasks: s.churnTasks}
			err := s.compare(ctx, c, contestant{Service, s.paging(churned, request)}, contestant{Fresh, s.paging(fresh, request)})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
