package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func migrate(ctx context.Context, dsn string) error {
	_, err := postgres.Migrate(ctx, dsn, slog.New(slog.DiscardHandler))
	return err
}

// replicaOn serves a store on the database, with a client of its own, until the test ends.
func replicaOn(tb testing.TB, cfg postgres.Config) *remote {
	tb.Helper()
	store, err := postgres.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	r := serve(tb, store)
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// service is the service itself, without the retries of the client.
func (r *remote) service() pb.TaskStoreServiceClient {
	return pb.NewTaskStoreServiceClient(r.client.Conn())
}

// saveRequest saves a task with one event.
func saveRequest(id string) *pb.SaveRequest {
	return &pb.SaveRequest{
		Precondition: &pb.Precondition{Condition: &pb.Precondition_Any{Any: &emptypb.Empty{}}},
		Write: &pb.SaveRequest_Task{Task: &pb.Task{
			Id: id, ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING},
		}},
		Events: []*pb.EventInput{{Input: &pb.EventInput_Event{Event: statusUpdate(id)}}},
	}
}

func statusUpdate(id string) *pb.StreamResponse {
	return &pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{StatusUpdate: &pb.TaskStatusUpdateEvent{
		TaskId: id, ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING},
	}}}
}

// unaryCalls are all calls of the service that are not streams, on the task "id".
func unaryCalls(service pb.TaskStoreServiceClient) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Save": func(ctx context.Context) error {
			_, err := service.Save(ctx, saveRequest("id"))
			return err
		},
		"Get": func(ctx context.Context) error {
			_, err := service.Get(ctx, &pb.GetRequest{TaskId: "id"})
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := service.List(ctx, &pb.ListRequest{})
			return err
		},
		"Delete": func(ctx context.Context) error {
			_, err := service.Delete(ctx, &pb.DeleteRequest{TaskId: "another"})
			return err
		},
		"ClaimKey": func(ctx context.Context) error {
			_, err := service.ClaimKey(ctx, &pb.ClaimKeyRequest{
				Key: "k", MessageId: "m", TaskId: "id", Token: "token", Lease: durationpb.New(time.Minute), Ttl: durationpb.New(time.Hour),
			})
			return err
		},
		"ReleaseKey": func(ctx context.Context) error {
			_, err := service.ReleaseKey(ctx, &pb.ReleaseKeyRequest{Key: "k", Token: "token"})
			return err
		},
		"AppendEvent": func(ctx context.Context) error {
			_, err := service.AppendEvent(ctx, &pb.AppendEventRequest{TaskId: "id", Events: []*pb.StreamResponse{statusUpdate("id")}})
			return err
		},
	}
}

// TestPausedDatabase: while the database stands still, calls end at their deadlines, health says that the service is not
// ready, but says so at once and on the same connection, and a replica can be shut down. Then all goes on by itself.
func TestPausedDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t, pgtest.Options{})
	dsn := db.DSN("postgres")
	if err := migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	stays, leaves := replicaOn(t, postgres.Config{DSN: dsn, MaxConns: 4}), replicaOn(t, postgres.Config{DSN: dsn, MaxConns: 4})
	for _, r := range []*remote{stays, leaves} {
		for _, name := range []string{"Save", "Get", "AppendEvent"} { // which also open connections
			if err := unaryCalls(r.service())[name](t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	health := healthgrpc.NewHealthClient(stays.client.Conn())
	watch, err := health.Watch(ctx, &healthgrpc.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(want healthgrpc.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for {
			res, err := watch.Recv()
			if err != nil {
				t.Fatalf("waiting for %v: %v", want, err)
			}
			if res.GetStatus() == want {
				return
			}
		}
	}
	becomes(healthgrpc.HealthCheckResponse_SERVING)

	if err := db.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, r := range []*remote{stays, leaves} {
		for name, call := range unaryCalls(r.service()) {
			for range 4 { // more than there are connections
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
					defer cancel()
					if code := status.Code(call(ctx)); code != codes.Unavailable && code != codes.DeadlineExceeded {
						t.Errorf("%s ended with %v", name, code)
					}
				})
			}
		}
	}
	wg.Wait()
	becomes(healthgrpc.HealthCheckResponse_NOT_SERVING)
	alive, cancelAlive := context.WithTimeout(ctx, 2*time.Second)
	defer cancelAlive()
	res, err := health.Check(alive, &healthgrpc.HealthCheckRequest{})
	if err != nil || res.GetStatus() != healthgrpc.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health says %v, %v", res.GetStatus(), err)
	}
	// That callers have given up does not mean that their calls have ended; that Shutdown returns does.
	if err := leaves.replicas[0].server.Shutdown(ctx); err != nil {
		t.Errorf("shutting down: %v", err)
	}

	if err := db.Resume(); err != nil {
		t.Fatal(err)
	}
	becomes(healthgrpc.HealthCheckResponse_SERVING)
	for name, call := range unaryCalls(stays.service()) {
		if code := status.Code(call(ctx)); code != codes.OK && (name != "Delete" || code != codes.NotFound) {
			t.Errorf("%s afterwards: %v", name, code)
		}
	}
}

// TestIdleReaders: readers that wait hold no connections. With hundreds of them on two replicas of four connections each,
// unary calls succeed; and each reader hears of what is appended through the other replica.
func TestIdleReaders(t *testing.T) {
	t.Parallel()
	const readers, maxConns, callers, rounds = 300, 4, 64, 10
	dsn := pgtest.Database(t, migrate)
	replicas := []*remote{
		replicaOn(t, postgres.Config{DSN: dsn, MaxConns: maxConns}), replicaOn(t, postgres.Config{DSN: dsn, MaxConns: maxConns}),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	log := func(i int) string { return fmt.Sprint("log-", i) }

	parallel(readers, func(i int) {
		if _, err := replicas[i%2].service().Save(ctx, saveRequest(log(i))); err != nil {
			t.Error(err)
		}
	})
	streams := make([]pb.TaskStoreService_ReadEventsClient, readers)
	parallel(readers, func(i int) {
		var err error
		streams[i], err = replicas[i%2].service().ReadEvents(ctx, &pb.ReadEventsRequest{
			TaskId: log(i), Start: &pb.ReadEventsRequest_AfterSeq{AfterSeq: 1}, Until: pb.ReadUntil_READ_UNTIL_FOREVER,
		})
		if err != nil {
			t.Error(err)
			return
		}
		if frame, err := streams[i].Recv(); err != nil || frame.GetOpened().GetLastSeq() != 1 {
			t.Errorf("opening %s: %v, %v", log(i), frame, err)
		}
	})
	if t.Failed() {
		return
	}

	var calls atomic.Int64
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		parallel(callers, func(i int) {
			service := replicas[i%2].service()
			for range rounds {
				if _, err := service.Save(ctx, saveRequest(fmt.Sprint("other-", i))); err != nil {
					t.Error(err)
				}
				if _, err := service.Get(ctx, &pb.GetRequest{TaskId: log(i)}); err != nil {
					t.Error(err)
				}
				calls.Add(2)
			}
		})
	}()
	most := connections(ctx, t, dsn, saved)
	if most < 2 || most > len(replicas)*maxConns {
		t.Errorf("%d connections of %d replicas of at most %d", most, len(replicas), maxConns)
	}
	if n := calls.Load(); n != 2*callers*rounds {
		t.Errorf("%d calls", n)
	}

	parallel(readers, func(i int) {
		_, err := replicas[(i+1)%2].service().AppendEvent(ctx, &pb.AppendEventRequest{
			TaskId: log(i), Events: []*pb.StreamResponse{statusUpdate(log(i))},
		})
		if err != nil {
			t.Error(err)
		}
	})
	parallel(readers, func(i int) {
		frame, err := streams[i].Recv()
		if events := frame.GetEvents().GetEvents(); err != nil || len(events) != 1 || events[0].GetSeq() != 2 {
			t.Errorf("%s: %v, %v, want event 2", log(i), frame, err)
		}
	})
}

// parallel calls fn with 0 to n-1, all at once, and waits.
func parallel(n int, fn func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

// connections counts those of the database, but for its own, until done, and returns the largest number.
func connections(ctx context.Context, t *testing.T, dsn string, done <-chan struct{}) int {
	t.Helper()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for most := 0; ; {
		var n int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
		select {
		case <-done:
			return most
		case <-tick.C:
		}
	}
}
