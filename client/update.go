package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Pauses between rounds of an Update stay short: the less time lies between its read and its write, the likelier it wins.
const (
	updateFirstPause = 4 * time.Millisecond
	updateMaxPause   = 100 * time.Millisecond
)

// UpdateOption configures one [Client.Update].
type UpdateOption func(*updateOptions)

type updateOptions struct {
	events func(*taskstorev1.Task) []*taskstorev1.EventInput
	call   []grpc.CallOption
}

// UpdateEvents calls f with the task as changed, in each round, and appends what it returns in the same step as the write.
func UpdateEvents(f func(*taskstorev1.Task) []*taskstorev1.EventInput) UpdateOption {
	return func(o *updateOptions) { o.events = f }
}

// UpdateCallOptions passes options to each of the calls, for example credentials.
func UpdateCallOptions(opts ...grpc.CallOption) UpdateOption {
	return func(o *updateOptions) { o.call = append(o.call, opts...) }
}

// Update changes a stored task: it reads it, lets change alter it in place, and saves it under the condition that nobody
// else wrote in between. If somebody did, it does all of that again, after a short random pause, until the context ends: a
// context without deadline lets it try for ever. A nil scope means [WithScope]. It returns the task as written and the
// reply of its Save.
//
// change may be called several times, each time with the task as it is now; it should decide by what it sees there and do
// nothing else. After a lost reply it can meet its own earlier change. An error that it returns ends the update and is
// returned as it is.
//
// Errors: [ErrNotFound], [ErrTerminalState] if change leaves a terminal state, and the others of Get and Save except
// [ErrVersionConflict].
func (c *Client) Update(ctx context.Context, scope *taskstorev1.Scope, taskID string, change func(*taskstorev1.Task) error,
	opts ...UpdateOption,
) (*taskstorev1.Task, *taskstorev1.SaveResponse, error) {
	var o updateOptions
	for _, opt := range opts {
		opt(&o)
	}
	limit := updateFirstPause
	for round := 1; ; round++ {
		got, err := c.Get(ctx, &taskstorev1.GetRequest{Scope: scope, TaskId: taskID}, o.call...)
		if err != nil {
			return nil, nil, err
		}
		task := got.GetTask()
		if err := change(task); err != nil {
			return nil, nil, err
		}
		req := &taskstorev1.SaveRequest{
			Scope:        scope,
			Write:        &taskstorev1.SaveRequest_Task{Task: task},
			Precondition: &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Version{Version: got.GetVersion()}},
		}
		if o.events != nil {
			req.Events = o.events(task)
		}
		saved, err := c.Save(ctx, req, o.call...)
		if err == nil {
			return task, saved, nil
		}
		if !errors.Is(err, ErrVersionConflict) {
			return nil, nil, err
		}
		var conflict *Error
		errors.As(err, &conflict)
		if !c.sleep(ctx, rand.N(limit)) {
			return nil, nil, c.interruption(ctx, "Update", round, conflict)
		}
		limit = min(2*limit, updateMaxPause)
	}
}
