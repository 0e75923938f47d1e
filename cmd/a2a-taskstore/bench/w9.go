package bench

import (
	"context"
	"fmt"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// The variants of starts: what the process before came to.
const (
	afterStop = "after stop"
	afterKill = "after kill -9"
)

// runStarts starts a server on what another one left, until its health service says SERVING.
func runStarts(ctx context.Context, s *session, backend string) error {
	place := s.newPlace(backend)
	child, err := start(ctx, &childConfig{Place: *place, Seed: &seed{Tasks: s.startedTasks, Size: seededSize}})
	if err != nil {
		return err
	}
	for _, variant := range []string{afterStop, afterKill} {
		starting := func(ctx context.Context) (Sample, error) {
			end := child.stop
			if variant == afterKill {
				end = child.kill
			}
			if err := end(); err != nil {
				return Sample{}, err
			}
			began := time.Now()
			next, err := start(ctx, &childConfig{Place: *place})
			if err != nil {
				return Sample{}, err
			}
			child = next
			if err := awaitServing(ctx, child.address); err != nil {
				return Sample{}, err
			}
			ready := float64(time.Since(began)) / float64(time.Millisecond)
			return Sample{Metrics: map[Metric]float64{Ready: ready}}, s.touch(ctx, place.Tenant, child.address)
		}
		c := Case{Workload: "w9", Variant: variant, Backend: backend, Tasks: s.startedTasks}
		if err := s.compare(ctx, c, contestant{Service, starting}); err != nil {
			child.kill()
			return err
		}
	}
	return child.stop()
}

// awaitServing returns when the server says that it serves.
func awaitServing(ctx context.Context, address string) error {
	r, err := dial(address)
	if err != nil {
		return err
	}
	defer r.conn.Close()
	stream, err := healthpb.NewHealthClient(r.conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("waiting for health: %w", err)
		}
		if resp.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return nil
		}
	}
}

// touched is how many tasks are written between two starts, so that there is a log to read back.
const touched = 1000

func (s *session) touch(ctx context.Context, tenant, address string) error {
	r, err := dial(address)
	if err != nil {
		return err
	}
	defer r.conn.Close()
	t := &target{api: r, tenant: tenant}
	body := body(seededSize)
	_, err = driveCount(ctx, seeders, min(touched, s.startedTasks), func(ctx context.Context, caller, n int) error {
		return saveTask(ctx, t, (caller+n*seeders)%s.startedTasks, body)
	})
	return err
}
