package bench

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// call makes the n-th call of a caller on one of so many keys.
type call func(ctx context.Context, t *target, key, n int) error

func runSaves(ctx context.Context, s *session, backend string) error {
	return s.runCalls(ctx, "save", backend, func(size int) call {
		body := body(size)
		return func(ctx context.Context, t *target, key, _ int) error { return saveTask(ctx, t, key, body) }
	})
}

func runGets(ctx context.Context, s *session, backend string) error {
	return s.runCalls(ctx, "get", backend, func(int) call {
		return func(ctx context.Context, t *target, key, _ int) error { return getTask(ctx, t, key) }
	})
}

func runLists(ctx context.Context, s *session, backend string) error {
	return s.runCalls(ctx, "list", backend, func(int) call {
		return func(ctx context.Context, t *target, _, _ int) error { return listFirst(ctx, t) }
	})
}

func runMix(ctx context.Context, s *session, backend string) error {
	return s.runCalls(ctx, "mix", backend, func(size int) call {
		body := body(size)
		return func(ctx context.Context, t *target, key, n int) error {
			switch n % 10 {
			case 0:
				return listFirst(ctx, t)
			case 3, 6, 9:
				return saveTask(ctx, t, key, body)
			default:
				return getTask(ctx, t, key)
			}
		}
	})
}

func saveTask(ctx context.Context, t *target, key int, body []byte) error {
	return t.save(ctx, t.whole(taskName(key), contextOf(key), working, time.Now(), body))
}

func getTask(ctx context.Context, t *target, key int) error {
	return t.get(ctx, &taskstorev1.GetRequest{Scope: t.scope(), TaskId: taskName(key)})
}

// listFirst reads the first page as A2A's ListTasks does by default, without artifacts.
func listFirst(ctx context.Context, t *target) error {
	_, err := t.list(ctx, &taskstorev1.ListRequest{Scope: t.scope(), PageSize: proto.Int32(pageSize), SkipTotal: true})
	return err
}

const pageSize = 50

// runCalls compares calls of the service with the echo, the backend, and, for saves, the engine, at each size and number of
// callers.
func (s *session) runCalls(ctx context.Context, name, backend string, callOf func(size int) call) error {
	for _, size := range s.sizes {
		err := s.inArena(func(a *arena) error {
			call := callOf(size)
			open, err := a.open(ctx, name, backend, &seed{Tasks: s.keys, Size: size}, func(ctx context.Context, t *target) error {
				for n := range 10 { // every kind of call
					if err := call(ctx, t, 0, n); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			var floors []*openFloor
			if name == "save" {
				if floors, err = a.floors(ctx, backend); err != nil {
					return err
				}
			}
			for _, callers := range s.callers {
				contestants := open.contestants(func(t *target) func(context.Context) (Sample, error) {
					return s.calling(t, callers, call)
				})
				for _, f := range floors {
					contestants = append(contestants, contestant{f.system, s.putting(f, callers, size)})
				}
				c := Case{Workload: name, Backend: backend, Size: size, Callers: callers}
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

// calling samples calls, each caller going through its share of the keys.
func (s *session) calling(t *target, callers int, call call) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		return measured(ctx, t.meters, func() (load, error) {
			return drive(ctx, callers, s.duration, func(ctx context.Context, caller, n int) error {
				return call(ctx, t, (caller+n*callers)%s.keys, n)
			})
		})
	}
}

// putting samples bare writes of what saveTask writes.
func (s *session) putting(f *openFloor, callers, size int) func(context.Context) (Sample, error) {
	body := body(size)
	return func(ctx context.Context) (Sample, error) {
		return measured(ctx, []meter{f.count}, func() (load, error) {
			return drive(ctx, callers, s.duration, func(ctx context.Context, caller, i int) error {
				key, now := (caller+i*callers)%s.keys, time.Now()
				id, contextID := taskName(key), contextOf(key)
				return f.put(ctx, &bareWrite{
					key: key, n: f.writes.Add(1), at: now,
					task:  append(head(id, contextID, working, now), body...),
					event: statusEvent(id, contextID, status(working, now)),
				})
			})
		})
	}
}
