package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// outcome is what came of the calls of many callers.
type outcome struct {
	latencies []time.Duration // of the calls that were served
	refused   int             // with the reason and when to try again
	other     error           // anything else, which should not be
}

func (r *outcome) served() int { return len(r.latencies) }

// add counts a call, and returns when to try again if it was refused.
func (r *outcome) add(took time.Duration, err error) (wait time.Duration) {
	switch wait = refusal(err); {
	case err == nil:
		r.latencies = append(r.latencies, took)
	case wait > 0:
		r.refused++
	default:
		r.other = err
	}
	return wait
}

func (r *outcome) String() string {
	slices.Sort(r.latencies)
	at := func(q float64) time.Duration {
		if len(r.latencies) == 0 {
			return 0
		}
		return r.latencies[int(q*float64(len(r.latencies)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, slowest %v (%d served, %d refused)", at(0.5), at(0.99), at(1), r.served(), r.refused)
}

// crowd has callers save small tasks for a time, without retries, one call after the other. Who is refused waits as it was
// told.
func (o *overload) crowd(n int, d time.Duration) *outcome {
	stop := time.Now().Add(d)
	return o.callers(n, func(i int, rpc taskstorev1.TaskStoreServiceClient, mine *outcome) {
		for k := 0; time.Now().Before(stop); k++ {
			began := time.Now()
			_, err := rpc.Save(o.t.Context(), small(fmt.Sprintf("task-%d-%d", i, k%100)))
			if wait := mine.add(time.Since(began), err); wait > 0 {
				<-time.After(wait)
			}
		}
	})
}

// paced has few callers save and get small tasks for a time, at a rate that leaves the server room.
func (o *overload) paced(d time.Duration) (saves, gets *outcome) {
	const callers, interval = 8, 20 * time.Millisecond
	began := time.Now()
	run := func(offset time.Duration, call func(rpc taskstorev1.TaskStoreServiceClient, id string) error) *outcome {
		return o.callers(callers, func(i int, rpc taskstorev1.TaskStoreServiceClient, mine *outcome) {
			due := began.Add(offset + time.Duration(i)*2*interval/callers)
			for k := 0; due.Sub(began) < d; k++ {
				<-time.After(time.Until(due))
				at := time.Now()
				err := call(rpc, fmt.Sprintf("task-%d-%d", i, k%100))
				mine.add(time.Since(at), err)
				due = due.Add(2 * interval)
				if now := time.Now(); due.Before(now) {
					due = now
				}
			}
		})
	}
	var both sync.WaitGroup
	both.Go(func() {
		saves = run(0, func(rpc taskstorev1.TaskStoreServiceClient, id string) error {
			_, err := rpc.Save(o.t.Context(), small(id))
			return err
		})
	})
	both.Go(func() {
		gets = run(interval, func(rpc taskstorev1.TaskStoreServiceClient, id string) error {
			_, err := rpc.Get(o.t.Context(), &taskstorev1.GetRequest{TaskId: id})
			if status.Code(err) == codes.NotFound { // it comes with the first Save
				err = nil
			}
			return err
		})
	})
	both.Wait()
	return saves, gets
}

// callers runs n callers, sixteen on a connection, and sums up what came of their calls.
func (o *overload) callers(n int, run func(i int, rpc taskstorev1.TaskStoreServiceClient, mine *outcome)) *outcome {
	o.t.Helper()
	var mu sync.Mutex
	var callers sync.WaitGroup
	sum := &outcome{}
	var conn *grpc.ClientConn
	for i := range n {
		if i%16 == 0 {
			conn = o.connect()
			defer conn.Close()
		}
		rpc := taskstorev1.NewTaskStoreServiceClient(conn)
		callers.Go(func() {
			mine := &outcome{}
			run(i, rpc, mine)
			mu.Lock()
			defer mu.Unlock()
			sum.latencies = append(sum.latencies, mine.latencies...)
			sum.refused += mine.refused
			sum.other = errors.Join(sum.other, mine.other)
		})
	}
	callers.Wait()
	return sum
}

// health asks for the health of the server until ctx ends. It must always answer.
func (o *overload) health(ctx context.Context) *outcome {
	conn := o.connect()
	defer conn.Close()
	checks := &outcome{}
	for ctx.Err() == nil && checks.other == nil {
		began := time.Now()
		limited, cancel := context.WithTimeout(o.t.Context(), time.Minute)
		reply, err := healthpb.NewHealthClient(conn).Check(limited, &healthpb.HealthCheckRequest{})
		cancel()
		if err == nil && reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			err = fmt.Errorf("health says %v", reply.GetStatus())
		}
		checks.add(time.Since(began), err)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return checks
}

func (o *overload) connect() *grpc.ClientConn {
	o.t.Helper()
	conn, err := dial(o.address)
	if err != nil {
		o.t.Fatal(err)
	}
	return conn
}
