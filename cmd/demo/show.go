package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// show runs the store, two replicas and their client.
func show(ctx context.Context) error {
	say("Building and starting the store: a2a-taskstore serve")
	store, err := newStoreProcess(ctx)
	if err != nil {
		return err
	}
	defer store.cleanUp()
	if err := store.start(ctx); err != nil {
		return err
	}
	tell("process %d listens on %s, data in %s", store.pid(), store.address, store.dataDir)

	say("Starting two replicas of the agent, each with a2asrv.WithTaskStore(store)")
	a, err := newReplica(ctx, "A", store.address)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := newReplica(ctx, "B", store.address)
	if err != nil {
		return err
	}
	defer b.close()
	tell("A on %s, B on %s (JSON-RPC)", a.url, b.url)

	if err := streamAcrossKill(ctx, store, a, b); err != nil {
		return err
	}
	return cancelThroughOther(ctx, a, b)
}

// streamAcrossKill streams an answer through a while the store is killed and started again.
func streamAcrossKill(ctx context.Context, store *storeProcess, a, b *replica) error {
	say("Asking A for an answer of %d chunks, streamed", len(verses))
	var task a2a.TaskID
	var streamed []string
	var followed <-chan followResult
	for event, err := range a.client.SendStreamingMessage(ctx, request("write")) {
		if err != nil {
			return fmt.Errorf("the stream through A broke after %d chunks: %w", len(streamed), err)
		}
		if task == "" {
			task = event.TaskInfo().TaskID
			tell("task %s", task)
			followed = follow(ctx, store.address, task)
		}
		update, ok := event.(*a2a.TaskArtifactUpdateEvent)
		if !ok {
			continue
		}
		streamed = append(streamed, texts(update.Artifact.Parts)...)
		switch len(streamed) {
		case len(verses) / 3:
			if err := readThrough(ctx, b, task, len(streamed)); err != nil {
				return err
			}
		case len(verses) / 2:
			tell("after %d chunks: kill -9 %d", len(streamed), store.pid())
			if err := store.kill(); err != nil {
				return err
			}
			go func() { // the agent goes on meanwhile: its writes wait for the store
				select {
				case <-time.After(time.Second):
					if err := store.start(ctx); err != nil {
						tell("%v", err)
						return
					}
					tell("the store is back as process %d", store.pid())
				case <-ctx.Done():
				}
			}()
		}
	}
	if task == "" {
		return errors.New("the stream through A brought nothing")
	}
	tell("the stream through A ended with all %d chunks", len(streamed))

	got, err := b.client.GetTask(ctx, &a2a.GetTaskRequest{ID: task})
	if err != nil {
		return fmt.Errorf("get through B: %w", err)
	}
	log := <-followed
	if log.err != nil {
		return fmt.Errorf("follow the log: %w", log.err)
	}
	tell("B reads it: %s, %d chunks; the log holds %d events, seq 1 to %d, each once", got.Status.State, len(got.Artifacts[0].Parts), log.events, log.last)
	stored := texts(got.Artifacts[0].Parts)
	switch {
	case !slices.Equal(streamed, verses):
		return fmt.Errorf("A streamed %q", streamed)
	case !slices.Equal(stored, verses):
		return fmt.Errorf("B reads %q", stored)
	case !slices.Equal(log.chunks, verses):
		return fmt.Errorf("the log holds %q", log.chunks)
	case got.Status.State != a2a.TaskStateCompleted:
		return fmt.Errorf("B reads state %s", got.Status.State)
	}
	return nil
}

// readThrough reads and lists a task that runs on another replica.
func readThrough(ctx context.Context, r *replica, id a2a.TaskID, chunks int) error {
	got, err := r.client.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
	if err != nil {
		return fmt.Errorf("get through %s: %w", r.name, err)
	}
	list, err := r.client.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: got.ContextID})
	if err != nil {
		return fmt.Errorf("list through %s: %w", r.name, err)
	}
	have := len(got.Artifacts[0].Parts)
	tell("meanwhile %s reads it: %s, %d chunks so far; it lists %d task in the context", r.name, got.Status.State, have, len(list.Tasks))
	if have < chunks || len(list.Tasks) != 1 || list.Tasks[0].ID != id {
		return fmt.Errorf("%s reads %d chunks of at least %d, and lists %d tasks", r.name, have, chunks, len(list.Tasks))
	}
	return nil
}

// cancelThroughOther starts a task on a and cancels it through b.
func cancelThroughOther(ctx context.Context, a, b *replica) error {
	say("Asking A again, and canceling through B")
	var last a2a.TaskState
	var task a2a.TaskID
	chunks := 0
	for event, err := range a.client.SendStreamingMessage(ctx, request("write")) {
		if err != nil {
			return fmt.Errorf("the stream through A: %w", err)
		}
		switch e := event.(type) {
		case *a2a.Task:
			task, last = e.ID, e.Status.State
		case *a2a.TaskStatusUpdateEvent:
			last = e.Status.State
		case *a2a.TaskArtifactUpdateEvent:
			chunks++
		}
		if chunks == 5 {
			chunks++
			canceled, err := b.client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task})
			if err != nil {
				return fmt.Errorf("cancel through B: %w", err)
			}
			tell("B says: %s", canceled.Status.State)
		}
	}
	got, err := a.client.GetTask(ctx, &a2a.GetTaskRequest{ID: task})
	if err != nil {
		return fmt.Errorf("get through A: %w", err)
	}
	tell("A's stream ended with %s after %d chunks; A reads %s", last, len(got.Artifacts[0].Parts), got.Status.State)
	if last != a2a.TaskStateCanceled || got.Status.State != a2a.TaskStateCanceled {
		return errors.New("the task is not canceled")
	}
	return nil
}

type followResult struct {
	events int
	last   int64
	chunks []string
	err    error
}

// follow reads the task's log until the task is terminal, across the death of the store.
func follow(ctx context.Context, address string, task a2a.TaskID) <-chan followResult {
	out := make(chan followResult, 1)
	go func() {
		var r followResult
		defer func() { out <- r }()
		c, err := client.Dial(address)
		if err != nil {
			r.err = err
			return
		}
		defer c.Close()
		owner := user
		req := &taskstorev1.ReadEventsRequest{Scope: &taskstorev1.Scope{Owner: &owner}, TaskId: string(task)}
		for event, err := range c.Follow(ctx, req) {
			if err != nil {
				r.err = err
				return
			}
			if event.GetSeq() != r.last+1 {
				r.err = fmt.Errorf("seq %d follows %d", event.GetSeq(), r.last)
				return
			}
			r.events, r.last = r.events+1, event.GetSeq()
			for _, p := range event.GetEvent().GetArtifactUpdate().GetArtifact().GetParts() {
				r.chunks = append(r.chunks, p.GetText())
			}
		}
	}()
	return out
}

func request(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

func texts(parts a2a.ContentParts) []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Text())
	}
	return out
}

func say(format string, args ...any) { fmt.Printf("\n"+format+"\n", args...) }

func tell(format string, args ...any) {
	fmt.Println("  " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}
