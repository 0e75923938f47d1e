package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// envLong names a variable that, when it is set, has the tests under load run as long as an operator would watch them.
const envLong = "TASKSTORE_LONG"

// lasting returns how long a test puts a load on.
func lasting(usually, long time.Duration) time.Duration {
	if os.Getenv(envLong) != "" {
		return long
	}
	return usually
}

// TestRollingRestart restarts three replicas on one PostgreSQL, one after the other and again and again, under a load of every
// call. No call of a client fails, and no follower loses an event or sees one twice.
func TestRollingRestart(t *testing.T) {
	dsn := pgtest.Database(t, nil)
	args := []string{"--backend", "postgres", "--postgres-dsn", dsn, "--drain-delay", "200ms"}
	var replicas []*process
	var addresses []resolver.Address
	for range 3 {
		p := newProcess(t)
		p.start(args...)
		replicas = append(replicas, p)
		addresses = append(addresses, resolver.Address{Addr: p.address})
	}

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	enough := make(chan struct{})
	var load sync.WaitGroup
	var tasks, events, breaks atomic.Int64
	for i := range 6 {
		c := dialAll(t, addresses)
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-enough:
					return
				default:
				}
				w := &killWriter{t: t, id: fmt.Sprintf("task-%d-%d", i, n), conn: c}
				events.Add(w.mixed(ctx, &breaks))
				tasks.Add(1)
			}
		})
	}

	restarts := 0
	for deadline := time.Now().Add(lasting(6*time.Second, time.Minute)); time.Now().Before(deadline); restarts++ {
		p := replicas[restarts%len(replicas)]
		if code := p.stop(); code != 0 {
			t.Errorf("a replica exits with %d\n%s", code, p.log.String())
		}
		p.start(args...)
	}
	close(enough)
	load.Wait()
	if breaks.Load() == 0 {
		t.Error("no stream was ever interrupted: the load was not where the restarts were")
	}
	t.Logf("%d restarts under %d tasks with %d events, followed through %d interruptions", restarts, tasks.Load(), events.Load(), breaks.Load())
}

// dialAll returns a client of all replicas, as behind a name with several addresses.
func dialAll(t *testing.T, addresses []resolver.Address) *client.Client {
	t.Helper()
	names := manual.NewBuilderWithScheme("replicas")
	names.InitialState(resolver.State{Addresses: slices.Clone(addresses)})
	c, err := client.Dial("replicas:///", client.WithInsecure(), client.WithDialOptions(grpc.WithResolvers(names)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// mixed makes calls of every kind around one task, which it writes for a while and then completes, and returns how many events
// were written and followed.
func (w *killWriter) mixed(ctx context.Context, breaks *atomic.Int64) int64 {
	claim := &taskstorev1.ClaimKeyRequest{Key: "key-" + w.id, MessageId: "m", TaskId: w.id, Token: "token"}
	if _, err := w.conn.ClaimKey(ctx, claim); err != nil {
		w.t.Errorf("%s: claim: %v", w.id, err)
	}
	var follower sync.WaitGroup
	var events int64
	follower.Go(func() { events = w.follow(ctx, client.OnBreak(func(error) { breaks.Add(1) })) })
	follower.Go(func() {
		wait := &taskstorev1.Wait{NewerThan: 10, Timeout: durationpb.New(30 * time.Second)}
		if _, err := w.conn.Get(ctx, &taskstorev1.GetRequest{TaskId: w.id, Wait: wait}); err != nil {
			w.t.Errorf("%s: waiting get: %v", w.id, err)
		}
	})
	done := make(chan struct{})
	timer := time.AfterFunc(time.Second, func() { close(done) })
	defer timer.Stop()
	w.write(ctx, done)
	follower.Wait()
	if _, err := w.conn.List(ctx, &taskstorev1.ListRequest{}); err != nil {
		w.t.Errorf("%s: list: %v", w.id, err)
	}
	release := &taskstorev1.ReleaseKeyRequest{Key: claim.GetKey(), Token: claim.GetToken()}
	if _, err := w.conn.ReleaseKey(ctx, release); err != nil {
		w.t.Errorf("%s: release: %v", w.id, err)
	}
	return events
}

// TestSecondSignalExitsAtOnce has a call that would hold a drain up.
func TestSecondSignalExitsAtOnce(t *testing.T) {
	p := newProcess(t)
	p.start("--drain-delay", "10m", "--drain-timeout", "10m")
	began := time.Now()
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM} {
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		p.waitForLog("draining")
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	p.cmd = nil
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// waitForLog returns when the process has written a text.
func (p *process) waitForLog(text string) {
	p.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !p.log.contains(text) {
		select {
		case <-ticker.C:
		case <-deadline:
			p.t.Fatalf("the process does not say %q:\n%s", text, p.log.String())
		}
	}
}
