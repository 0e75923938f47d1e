package bench

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// seededSize is the size of tasks where only their number matters.
const seededSize = 256

// The variants of pages.
const (
	pageFirst   = "first"
	pageDeep    = "deep"
	pageContext = "context"
	pageStatus  = "status"
	pageTotal   = "total"
)

// runPages compares pages at each number of tasks. a2a-go's store always counts, so it stands beside first and total.
func runPages(ctx context.Context, s *session, backend string) error {
	for _, tasks := range s.pageTasks {
		err := s.inArena(func(a *arena) error {
			open, err := a.open(ctx, "w5", backend, &seed{Tasks: tasks, Size: seededSize}, listFirst)
			if err != nil {
				return err
			}
			token, err := deepToken(ctx, open.service, tasks)
			if err != nil {
				return err
			}
			var sdk *taskstore.InMemory
			if tasks <= sdkTasks {
				if sdk, err = seededSDK(ctx, tasks); err != nil {
					return err
				}
			}
			middle := contextOf(tasks / 2)
			for _, variant := range []string{pageFirst, pageDeep, pageContext, pageStatus, pageTotal} {
				request := func() *taskstorev1.ListRequest {
					req := &taskstorev1.ListRequest{PageSize: proto.Int32(pageSize), SkipTotal: true}
					switch variant {
					case pageDeep:
						req.PageToken = token
					case pageContext:
						req.ContextId = middle
					case pageStatus:
						req.Status = working
					case pageTotal:
						req.SkipTotal = false
					}
					return req
				}
				sides := open
				if variant == pageDeep {
					sides.direct = nil // it has no tokens
				}
				contestants := sides.contestants(func(t *target) func(context.Context) (Sample, error) {
					return s.paging(t, request)
				})
				if sdk != nil && (variant == pageFirst || variant == pageTotal) {
					contestants = append(contestants, contestant{SDK, s.pagingSDK(sdk)})
				}
				c := Case{Workload: "w5", Variant: variant, Backend: backend, Callers: 1, Tasks: tasks}
				if err := s.compare(ctx, c, contestants...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// paging samples one page again and again.
func (s *session) paging(t *target, request func() *taskstorev1.ListRequest) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		return measured(ctx, t.meters, func() (load, error) {
			return driveCount(ctx, 1, s.pages, func(ctx context.Context, _, _ int) error {
				req := request()
				req.Scope = t.scope()
				_, err := t.list(ctx, req)
				return err
			})
		})
	}
}

// deepToken walks to the middle of a list.
func deepToken(ctx context.Context, t *target, tasks int) (string, error) {
	token := ""
	for walked := 0; walked < tasks/2; {
		resp, err := t.list(ctx, &taskstorev1.ListRequest{
			Scope: t.scope(), PageSize: proto.Int32(100), PageToken: token, SkipTotal: true,
		})
		if err != nil || resp.GetNextPageToken() == "" {
			return token, err
		}
		walked += len(resp.GetTasks())
		token = resp.GetNextPageToken()
	}
	return token, nil
}

// sdkTasks bounds what a2a-go's store is asked to sort for a page.
const sdkTasks = 100_000

func seededSDK(ctx context.Context, tasks int) (*taskstore.InMemory, error) {
	store, now := newSDKStore(), time.Now()
	for n := range tasks {
		at := now.Add(time.Duration(n-tasks) * time.Millisecond)
		_, err := store.Create(ctx, &a2a.Task{
			ID: a2a.TaskID(taskName(n)), ContextID: contextOf(n),
			Status:    a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: &at},
			Artifacts: []*a2a.Artifact{{ID: artifactID, Parts: a2a.ContentParts{a2a.NewTextPart(text(seededSize/2, 0))}}},
		})
		if err != nil {
			return nil, err
		}
	}
	return store, nil
}

func (s *session) pagingSDK(store *taskstore.InMemory) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		return measured(ctx, []meter{ownProcess}, func() (load, error) {
			return driveCount(ctx, 1, max(s.pages/20, 1), func(ctx context.Context, _, _ int) error {
				_, err := store.List(ctx, &a2a.ListTasksRequest{PageSize: pageSize})
				return err
			})
		})
	}
}
