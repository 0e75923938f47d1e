package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// The variants of deliveries: readers on the replica that is written to, or on another one.
const (
	oneReplica  = "one replica"
	twoReplicas = "two replicas"
)

// perReader is the room that the pace leaves for each reader: callers and server share a machine, and what is measured is the
// latency of one event, not a queue of them.
const perReader = 300 * time.Microsecond

// runDeliveries measures the way of an event to its readers, at a pace that leaves the machine idle in between. Beside it,
// the same appends without readers.
func runDeliveries(ctx context.Context, s *session, backend string) error {
	variants := []string{oneReplica}
	if e, ok := engineNamed(backend); ok && e.needsDSN {
		variants = append(variants, twoReplicas)
	}
	for _, variant := range variants {
		err := s.inArena(func(a *arena) error {
			place := s.newPlace(backend)
			writer, err := a.service(ctx, "w7", place, nil)
			if err != nil {
				return err
			}
			// Readers have a connection of their own, as other processes would.
			var reader *target
			if variant == twoReplicas {
				reader, err = a.service(ctx, "w7", place, nil)
			} else {
				reader, err = a.connect(writer.tenant, writer.address, writer.process)
			}
			if err != nil {
				return err
			}
			for _, readers := range s.readers {
				pace := max(s.pace, time.Duration(readers)*perReader)
				c := Case{Workload: "w7", Variant: variant, Backend: backend, Readers: readers}
				err := s.compare(ctx, c,
					contestant{Service, s.delivering(writer, reader, readers, pace)},
					contestant{Quiet, s.delivering(writer, reader, 0, pace)})
				if err != nil {
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

// delivering samples appends to a log with readers.
func (s *session) delivering(writer, reader *target, readers int, pace time.Duration) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		s.tasks++
		d := &delivery{task: taskName(s.tasks), started: make([]atomic.Int64, s.deliveries+1)}
		if err := saveTask(ctx, writer, s.tasks, nil); err != nil { // event 1
			return Sample{}, err
		}
		began := time.Now()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var open sync.WaitGroup
		g, ctx := errgroup.WithContext(ctx)
		open.Add(readers)
		for range readers {
			g.Go(func() error { return d.read(ctx, reader, began, open.Done) })
		}
		open.Wait()
		g.Go(func() error { return d.append(ctx, writer, began, pace) })
		if err := g.Wait(); err != nil {
			return Sample{}, err
		}
		slices.Sort(d.delivered)
		slices.Sort(d.appends)
		sample := Sample{Metrics: map[Metric]float64{
			P50: micros(percentile(d.appends, 50)), P99: micros(percentile(d.appends, 99)),
		}}
		if readers > 0 {
			sample.Metrics[DeliverP50] = micros(percentile(d.delivered, 50))
			sample.Metrics[DeliverP99] = micros(percentile(d.delivered, 99))
		}
		return sample, nil
	}
}

// delivery is the events of one log on their way. Event n+1 of the log is the n-th append.
type delivery struct {
	task    string
	started []atomic.Int64 // when, since the sample began
	appends []time.Duration

	mu        sync.Mutex
	delivered []time.Duration
}

// append makes the appends, one in each interval.
func (d *delivery) append(ctx context.Context, t *target, began time.Time, pace time.Duration) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	event := statusEvent(d.task, "", status(working, time.Now()))
	for n := 1; n < len(d.started); n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		start := time.Now()
		d.started[n].Store(int64(start.Sub(began)))
		req := &wirev1.AppendEventRequest{Scope: t.scope(), TaskId: d.task, Events: [][]byte{event}}
		if err := t.remote.invoke(ctx, "AppendEvent", req, &taskstorev1.AppendEventResponse{}); err != nil {
			return err
		}
		d.appends = append(d.appends, time.Since(start))
	}
	return nil
}

// read reads the log to its last event. It calls opened once, when the stream is open or has failed.
func (d *delivery) read(ctx context.Context, t *target, began time.Time, opened func()) error {
	stream, err := readEvents(ctx, t, d.task, 1)
	opened()
	if err != nil {
		return err
	}
	var latencies []time.Duration
	for next := int64(2); next <= int64(len(d.started)); {
		frame := &wirev1.ReadEventsResponse{}
		if err := stream.RecvMsg(frame); err != nil {
			return err
		}
		for _, e := range frame.GetEvents().GetEvents() {
			if e.GetSeq() != next {
				return fmt.Errorf("event %d came where %d was due", e.GetSeq(), next)
			}
			latencies = append(latencies, time.Since(began)-time.Duration(d.started[next-1].Load()))
			next++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delivered = append(d.delivered, latencies...)
	return nil
}

// readEvents opens a stream that follows a log behind a position, and returns when the server has opened it.
func readEvents(ctx context.Context, t *target, task string, after int64) (grpc.ClientStream, error) {
	stream, err := t.remote.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fullMethod("ReadEvents"))
	if err != nil {
		return nil, err
	}
	err = stream.SendMsg(&taskstorev1.ReadEventsRequest{
		Scope: t.scope(), TaskId: task, Start: &taskstorev1.ReadEventsRequest_AfterSeq{AfterSeq: after},
		Until: taskstorev1.ReadUntil_READ_UNTIL_FOREVER,
	})
	if err := errors.Join(err, stream.CloseSend()); err != nil {
		return nil, err
	}
	return stream, stream.RecvMsg(&wirev1.ReadEventsResponse{}) // opened
}
