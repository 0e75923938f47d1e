package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

const mib = 1 << 20

// TestOverload puts ten times as many callers on a server as it takes, beside idle readers, readers that take nothing, tasks
// that are large, and connections that flood it with what costs them little. Whoever is refused is told so properly, health
// answers, memory stays within its bound, and afterwards all is well. With TASKSTORE_LONG it has 10,000 idle readers, and
// prints latencies.
func TestOverload(t *testing.T) {
	const (
		slots   = 32
		callers = 10 * slots
		stalled = 40
		// What GOMEMLIMIT has the runtime aim at, and what Pebble keeps beside it.
		bound = (1024 + 256) * mib
	)
	idle := 500
	if os.Getenv(envLong) != "" {
		idle = 10_000
	}
	p := newProcess(t)
	p.env = []string{"GOMEMLIMIT=1GiB"}
	p.start("--max-concurrent-calls", strconv.Itoa(slots), "--max-call-bytes", "64MiB", "--stream-buffer-bytes", "64MiB",
		"--max-message-bytes", "16MiB", "--stall-timeout", "5s")
	o := &overload{t: t, address: p.address}

	normal := o.callers(slots, lasting(time.Second, 10*time.Second))
	if normal.refused > 0 || normal.other != nil {
		t.Errorf("as many callers as are taken: %d refused, %v", normal.refused, normal.other)
	}

	many := o.callers(callers, lasting(time.Second, 10*time.Second))
	if many.other != nil {
		t.Errorf("ten times as many: %v", many.other)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.read(ctx, idle, 4, "idle", nil)
	o.appendLarge(ctx, "large", 24, 4*mib)
	o.read(ctx, stalled, stalled, "large", []grpc.DialOption{grpc.WithInitialWindowSize(64 << 10), grpc.WithInitialConnWindowSize(64 << 10)})

	var beside sync.WaitGroup
	floodCtx, stop := context.WithCancel(ctx)
	beside.Go(func() { o.saveLarge(floodCtx, 8, 8*mib) })
	for _, flood := range []func(*rawConn) error{resetStreams, continueHeaders, tinyFrames, hugeFrame} {
		beside.Go(func() { o.flood(floodCtx, flood) })
	}
	beside.Go(func() { o.health(floodCtx) })
	over := o.callers(callers, lasting(3*time.Second, 30*time.Second))
	stop()
	beside.Wait()
	if over.refused == 0 || over.other != nil || over.served() == 0 {
		t.Errorf("%d callers: %d served, %d refused, %v", callers, over.served(), over.refused, over.other)
	}

	ended := time.Now()
	for o.callers(slots, 100*time.Millisecond).refused > 0 {
		if time.Since(ended) > time.Minute {
			t.Fatal("the server does not recover")
		}
	}
	recovered := time.Since(ended)
	if peak := peakMemory(t, p.cmd.Process.Pid); peak > bound {
		t.Errorf("the server took %d MiB, the bound is %d MiB", peak/mib, bound/mib)
	} else {
		t.Logf("peak memory %d MiB of %d MiB; %d of %d calls refused; recovery %v", peak/mib, bound/mib, over.refused, over.refused+over.served(), recovered)
	}
	for name, r := range map[string]*outcome{"as many callers as are taken": normal, "ten times as many": many, "with all else": over} {
		t.Logf("%s: p50 %v, p99 %v, %d served, %d refused", name, r.quantile(0.5), r.quantile(0.99), r.served(), r.refused)
	}
	t.Logf("slowest health check, with all else: %v", time.Duration(o.slowestHealth.Load()))
}

type overload struct {
	t             *testing.T
	address       string
	slowestHealth atomic.Int64
}

func (o *overload) connect(options ...grpc.DialOption) *grpc.ClientConn {
	o.t.Helper()
	conn, err := grpc.NewClient(o.address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { conn.Close() })
	return conn
}

// outcome is what came of the calls of many callers.
type outcome struct {
	latencies []time.Duration // of the calls that were served
	refused   int             // with the reason and when to try again
	other     error           // anything else, which should not be
}

func (r *outcome) served() int { return len(r.latencies) }

func (r *outcome) quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	slices.Sort(r.latencies)
	return r.latencies[int(q*float64(len(r.latencies)-1))]
}

// callers save small tasks for a time, without retries, one call after the other. Who is refused waits as it was told.
func (o *overload) callers(n int, d time.Duration) *outcome {
	var mu sync.Mutex
	var callers sync.WaitGroup
	sum := &outcome{}
	stop := time.Now().Add(d)
	var conn *grpc.ClientConn
	for i := range n {
		if i%16 == 0 {
			conn = o.connect()
		}
		rpc := taskstorev1.NewTaskStoreServiceClient(conn)
		callers.Go(func() {
			mine := outcome{}
			for k := 0; time.Now().Before(stop); k++ {
				began := time.Now()
				req := small(fmt.Sprintf("task-%d-%d", i, k%100))
				_, err := rpc.Save(o.t.Context(), req)
				switch wait := refusal(err); {
				case err == nil:
					mine.latencies = append(mine.latencies, time.Since(began))
				case wait > 0:
					mine.refused++
					<-time.After(wait)
				default:
					mine.other = err
				}
			}
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

// refusal is when a call may be tried again that was refused for overload, or 0.
func refusal(err error) time.Duration {
	overloaded, wait := false, time.Duration(0)
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			overloaded = d.GetReason() == "OVERLOADED"
		case *errdetails.RetryInfo:
			wait = d.GetRetryDelay().AsDuration()
		}
	}
	if !overloaded || status.Code(err) != codes.ResourceExhausted {
		return 0
	}
	return wait
}

func small(id string) *taskstorev1.SaveRequest { return saveOf(id, 100) }

func saveOf(id string, size int) *taskstorev1.SaveRequest {
	return &taskstorev1.SaveRequest{
		Write: &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{
			Id: id, Status: &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_WORKING},
			Artifacts: []*taskstorev1.Artifact{{ArtifactId: "a", Parts: []*taskstorev1.Part{text(size)}}},
		}},
		Precondition: &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Any{Any: &emptypb.Empty{}}},
	}
}

func text(size int) *taskstorev1.Part {
	return &taskstorev1.Part{Content: &taskstorev1.Part_Text{Text: strings.Repeat("x", size)}}
}

// read opens readers on some connections, which take their first frame and no more.
func (o *overload) read(ctx context.Context, readers, connections int, id string, options []grpc.DialOption) {
	o.t.Helper()
	var opening sync.WaitGroup
	for range connections {
		rpc := taskstorev1.NewTaskStoreServiceClient(o.connect(options...))
		opening.Go(func() {
			for range readers / connections {
				stream, err := rpc.ReadEvents(ctx, &taskstorev1.ReadEventsRequest{TaskId: id})
				if err == nil {
					_, err = stream.Recv()
				}
				if err != nil {
					o.t.Errorf("a reader: %v", err)
					return
				}
			}
		})
	}
	opening.Wait()
}

func (o *overload) appendLarge(ctx context.Context, id string, events, size int) {
	o.t.Helper()
	rpc := taskstorev1.NewTaskStoreServiceClient(o.connect())
	event := &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_Message{Message: &taskstorev1.Message{
		MessageId: "m", Role: taskstorev1.Role_ROLE_AGENT, Parts: []*taskstorev1.Part{text(size)},
	}}}
	for range events {
		if _, err := rpc.AppendEvent(ctx, &taskstorev1.AppendEventRequest{TaskId: id, Events: []*taskstorev1.StreamResponse{event}}); err != nil {
			o.t.Fatal(err)
		}
	}
}

// saveLarge saves large tasks until ctx ends.
func (o *overload) saveLarge(ctx context.Context, callers, size int) {
	var saving sync.WaitGroup
	for i := range callers {
		rpc := taskstorev1.NewTaskStoreServiceClient(o.connect())
		saving.Go(func() {
			for ctx.Err() == nil {
				_, err := rpc.Save(ctx, saveOf(fmt.Sprint("large-", i), size))
				if err != nil && ctx.Err() == nil && refusal(err) == 0 {
					o.t.Errorf("a large save: %v", err)
				}
			}
		})
	}
	saving.Wait()
}

// health asks for the health of the server until ctx ends. It must always answer.
func (o *overload) health(ctx context.Context) {
	health := healthpb.NewHealthClient(o.connect())
	for ctx.Err() == nil {
		began := time.Now()
		limited, cancel := context.WithTimeout(o.t.Context(), 10*time.Second)
		reply, err := health.Check(limited, &healthpb.HealthCheckRequest{})
		cancel()
		if err != nil || reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			o.t.Errorf("health: %v, %v", reply, err)
			return
		}
		o.slowestHealth.Store(max(o.slowestHealth.Load(), int64(time.Since(began))))
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// peakMemory is the most memory that a process ever had resident, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
