package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// startStore stands for a store that is already running somewhere.
func startStore() (target string, stop func()) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	f, stop := serve(lis)
	f.readEvents = play(turn{frames: []*taskstorev1.ReadEventsResponse{
		opened(1, 2), frame(1, 2), end(taskstorev1.EndReason_END_REASON_TERMINAL, 2),
	}})
	return lis.Addr().String(), stop
}

// A task is created, changed, read and followed.
func Example() {
	target, stop := startStore()
	defer stop()

	c, err := client.Dial(target, client.WithScope(&taskstorev1.Scope{Tenant: "acme"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx := context.Background()

	// Without a precondition a Save is an insert. The snapshot is the event that tells followers of it.
	create := &taskstorev1.SaveRequest{
		Write: &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{
			Id:     "task-1",
			Status: &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_SUBMITTED},
		}},
		Events: []*taskstorev1.EventInput{{Input: &taskstorev1.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}}},
	}
	saved, err := c.Save(ctx, create)
	fmt.Println("created, version", saved.GetVersion(), err)

	_, err = c.Save(ctx, create)
	fmt.Println("exists:", errors.Is(err, client.ErrAlreadyExists))

	// Update reads, changes and saves, again if somebody else was faster.
	task, saved, err := c.Update(ctx, nil, "task-1", func(task *taskstorev1.Task) error {
		task.Status = &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_COMPLETED}
		return nil
	})
	fmt.Println(task.GetStatus().GetState(), "version", saved.GetVersion(), err)

	for event, err := range c.Follow(ctx, &taskstorev1.ReadEventsRequest{TaskId: "task-1"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("event", event.GetSeq())
	}

	// Output:
	// created, version 1 <nil>
	// exists: true
	// TASK_STATE_COMPLETED version 2 <nil>
	// event 1
	// event 2
}

// The store's answer is an *Error behind the sentinel.
func ExampleError() {
	target, stop := startStore()
	defer stop()
	c, err := client.Dial(target)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Save(context.Background(), &taskstorev1.SaveRequest{
		Write:        &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{Id: "task-1"}},
		Precondition: &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Version{Version: 7}},
	})
	var e *client.Error
	if errors.Is(err, client.ErrVersionConflict) && errors.As(err, &e) {
		version, _ := e.CurrentVersion()
		fmt.Println(e.Reason, version)
	}
	// Output: VERSION_CONFLICT 0
}
