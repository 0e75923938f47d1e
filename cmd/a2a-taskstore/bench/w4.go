package bench

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// historySteps is how many steps the appends are timed in: 100 each of 1,400.
const historySteps = 14

func runHistory(ctx context.Context, s *session, backend string) error {
	return s.inArena(func(a *arena) error {
		open, err := a.open(ctx, "w4", backend, nil, func(ctx context.Context, t *target) error {
			st := s.messages(t)
			if err := st.begin(ctx, 0); err != nil {
				return err
			}
			return st.event(ctx, 0, 1)
		})
		if err != nil {
			return err
		}
		contestants := open.contestants(func(t *target) func(context.Context) (Sample, error) {
			return s.streaming(s.messages(t))
		})
		return s.compare(ctx, Case{Workload: "w4", Backend: backend, Callers: 1, History: s.keptHistory}, contestants...)
	})
}

// messages is a stream of messages appended to a history, with the message as the event.
func (s *session) messages(t *target) *stream {
	return &stream{
		begin: func(ctx context.Context, task int) error { return saveTask(ctx, t, task, nil) },
		event: func(ctx context.Context, task, n int) error {
			m := message("message-"+strconv.Itoa(n), 100)
			delta := &wirev1.TaskDelta{
				TaskId: taskName(task), AppendHistory: [][]byte{encode(m)}, MaxHistory: proto.Int32(int32(s.keptHistory)),
			}
			event := encode(&taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_Message{Message: m}})
			return t.save(ctx, t.change(delta, event))
		},
		events: s.history, steps: historySteps, meters: t.meters,
	}
}
