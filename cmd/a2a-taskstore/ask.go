package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

const defaultAddress = "127.0.0.1:7420"

// askFlags are those of the commands that call a store.
type askFlags struct {
	Address string        `help:"Where the store listens: host:port, or unix:///path." default:"${address}"`
	Timeout time.Duration `help:"How long to wait for an answer." default:"10s"`
	connectFlags
}

func (f *askFlags) dial(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	connect, err := f.options(ctx)
	if err != nil {
		return nil, err
	}
	opts = append(connect, opts...)
	c, err := client.Dial(f.Address, append(opts, client.WithRetryBudget(f.Timeout))...)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// scopeFlags say whose tasks are meant.
type scopeFlags struct {
	Tenant string  `help:"The tenant."`
	Owner  *string `help:"The owner; without it, any owner of the tenant."`
}

func (f *scopeFlags) option() client.Option {
	return client.WithScope(&taskstorev1.Scope{Tenant: f.Tenant, Owner: f.Owner})
}

type healthcheckCmd struct {
	askFlags
}

// Run asks once: an orchestrator repeats it.
func (c *healthcheckCmd) Run(e *env) error {
	conn, err := c.dial(e.ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := contextWithTimeout(e.ctx, c.Timeout)
	defer cancel()
	reply, err := healthpb.NewHealthClient(conn.Conn()).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("the store at %s does not answer: %s", c.Address, status.Convert(err).Message())
	}
	if reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("the store at %s is %s", c.Address, reply.GetStatus())
	}
	_, err = fmt.Fprintln(e.stdout, reply.GetStatus())
	return err
}

type getCmd struct {
	askFlags
	scopeFlags
	outputFlags
	TaskID string `arg:"" help:"The task."`
}

func (c *getCmd) Run(e *env) error {
	conn, err := c.dial(e.ctx, c.option())
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := conn.Get(e.ctx, &taskstorev1.GetRequest{TaskId: c.TaskID})
	if err != nil {
		return err
	}
	if c.json() {
		return writeJSON(e.stdout, reply)
	}
	return writeTask(e.stdout, reply)
}

type listCmd struct {
	askFlags
	scopeFlags
	outputFlags
	Context string     `help:"Only tasks of this context."`
	Status  taskState  `help:"Only tasks in this state, such as working."`
	Since   *time.Time `help:"Only tasks whose status is of this time or later (RFC 3339)." format:"2006-01-02T15:04:05Z07:00"`
	Limit   int        `help:"How many tasks at most; 0: all." default:"100"`
}

func (c *listCmd) Run(e *env) error {
	conn, err := c.dial(e.ctx, c.option())
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.Limit < 0 {
		return usagef("--limit must not be negative")
	}
	none := int32(0)
	req := &taskstorev1.ListRequest{
		ContextId: c.Context, Status: taskstorev1.TaskState(c.Status), HistoryLength: &none, SkipTotal: true,
	}
	if c.Since != nil {
		req.StatusTimestampAfter = timestamppb.New(*c.Since)
	}
	out := c.rows(e.stdout, "TASK", "VERSION", "STATE", "STATUS TIME", "CONTEXT", "OWNER")
	for left := c.Limit; ; {
		size := int32(100)
		if c.Limit > 0 {
			size = int32(min(left, 100))
		}
		req.PageSize = &size
		page, err := conn.List(e.ctx, req)
		if err != nil {
			return errors.Join(out.flush(), err)
		}
		for _, row := range page.GetTasks() {
			if err := out.task(row); err != nil {
				return err
			}
		}
		left -= len(page.GetTasks())
		req.PageToken = page.GetNextPageToken()
		if req.PageToken == "" || c.Limit > 0 && left <= 0 {
			return out.flush()
		}
	}
}

type eventsCmd struct {
	askFlags
	scopeFlags
	outputFlags
	TaskID   string `arg:"" help:"The task."`
	Follow   bool   `help:"Go on with the events that come, until the task is terminal." short:"f"`
	AfterSeq int64  `help:"Start behind this seq."`
	FromNow  bool   `help:"With --follow: only the events that come."`
}

func (c *eventsCmd) Run(e *env) error {
	conn, err := c.dial(e.ctx, c.option())
	if err != nil {
		return err
	}
	defer conn.Close()
	req := &taskstorev1.ReadEventsRequest{
		TaskId: c.TaskID,
		Until:  taskstorev1.ReadUntil_READ_UNTIL_HEAD,
		Start:  &taskstorev1.ReadEventsRequest_AfterSeq{AfterSeq: c.AfterSeq},
	}
	if c.FromNow {
		if !c.Follow || c.AfterSeq != 0 {
			return usagef("--from-now goes with --follow, and without --after-seq")
		}
		req.Start = &taskstorev1.ReadEventsRequest_FromNow{FromNow: &emptypb.Empty{}}
	}
	if c.Follow {
		req.Until = taskstorev1.ReadUntil_READ_UNTIL_TERMINAL
	}
	out := c.rows(e.stdout, "SEQ", "VERSION", "TIME", "EVENT", "DETAIL")
	said := false
	outage := client.OnBreak(func(err error) {
		if !said { // an outage breaks many attempts
			fmt.Fprintf(e.stderr, "a2a-taskstore: the stream broke and is opened again until it holds: %s\n", oneLine(err))
		}
		said = true
	})
	for event, err := range conn.Follow(e.ctx, req, outage) {
		said = false
		if err != nil {
			if c.Follow && e.ctx.Err() != nil {
				return out.flush() // interrupted: how a person ends it
			}
			return errors.Join(out.flush(), err)
		}
		if err := out.event(event); err != nil {
			return err
		}
		if c.Follow {
			if err := out.flush(); err != nil {
				return err
			}
		}
	}
	return out.flush()
}

type deleteCmd struct {
	askFlags
	scopeFlags
	TaskID    string `arg:"" help:"The task."`
	IfVersion *int64 `help:"Only if the task has this version."`
}

func (c *deleteCmd) Run(e *env) error {
	conn, err := c.dial(e.ctx, c.option())
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := conn.Delete(e.ctx, &taskstorev1.DeleteRequest{TaskId: c.TaskID, Version: c.IfVersion})
	if err != nil {
		return err
	}
	text := "deleted"
	if !reply.GetDeleted() {
		text = "there was nothing to delete"
	}
	_, err = fmt.Fprintln(e.stdout, text)
	return err
}
