package server

import (
	"context"
	"time"

	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/a2a-taskstore/taskstore/backend"
)

// start starts what runs beside the calls, once.
func (s *Server) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.stopped {
		return
	}
	s.started = true
	s.tasks.Go(func() { s.hub.Poll(s.background) })
	s.tasks.Go(func() { s.watchStore(s.background) })
	if s.cfg.TLS != nil {
		s.tasks.Go(func() { s.cfg.TLS.Run(s.background, s.cfg.ReloadInterval) })
	}
	if s.cfg.Auth != nil {
		s.tasks.Go(func() { s.cfg.Auth.Run(s.background, s.cfg.ReloadInterval) })
	}
	if s.cfg.SweepInterval > 0 {
		s.tasks.Go(func() { s.sweepForever(s.background) })
	}
}

// stop ends what start has started, and keeps it from starting.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		s.stopBackground()
		s.hub.Close()
	}
}

// watchStore keeps the health service's answer to whether the store can serve.
func (s *Server) watchStore(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.PingInterval)
	defer ticker.Stop()
	for known, serving := false, false; ; {
		err := s.ping(ctx)
		if ctx.Err() != nil {
			return
		}
		if ok := err == nil; !known || ok != serving {
			known, serving = true, ok
			s.setServing(ok)
			if ok {
				s.cfg.Logger.InfoContext(ctx, "the store is ready")
			} else {
				s.cfg.Logger.ErrorContext(ctx, "the store is not ready", "error", describe(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pingTimeout is when a store that does not answer counts as not ready.
const pingTimeout = 5 * time.Second

func (s *Server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return s.store.Ping(ctx)
}

func (s *Server) setServing(ok bool) {
	s.serving.Store(ok)
	status := healthgrpc.HealthCheckResponse_NOT_SERVING
	if ok {
		status = healthgrpc.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(serviceName, status)
}

// sweepForever removes what retention does not keep, in rounds.
func (s *Server) sweepForever(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.SweepInterval)
	defer ticker.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.sweep(ctx)
		if ctx.Err() != nil {
			return
		}
		s.seen.Swept(err)
		if err != nil && !failing {
			s.cfg.Logger.ErrorContext(ctx, "the sweeper fails, it goes on trying", "error", describe(err))
		}
		failing = err != nil
	}
}

// sweep makes one round. Between batches it rests as long as the batch took, so that it never has more than half of the
// store's attention.
func (s *Server) sweep(ctx context.Context) error {
	req := &backend.SweepRequest{Retention: s.cfg.Retention, Batch: s.cfg.SweepBatch}
	var sum backend.SweepResult
	for {
		began := time.Now()
		res, err := s.store.Sweep(ctx, req)
		if err != nil {
			return err
		}
		s.seen.Removed(res)
		sum.Tasks += res.Tasks
		sum.Events += res.Events
		sum.Keys += res.Keys
		sum.Tombstones += res.Tombstones
		if res.Cursor == nil {
			break
		}
		req.Cursor = res.Cursor
		rest := time.NewTimer(time.Since(began))
		select {
		case <-ctx.Done():
			rest.Stop()
			return ctx.Err()
		case <-rest.C:
		}
	}
	if sum.Tasks+sum.Events+sum.Keys+sum.Tombstones > 0 {
		s.cfg.Logger.InfoContext(ctx, "swept",
			"tasks", sum.Tasks, "events", sum.Events, "keys", sum.Keys, "tombstones", sum.Tombstones)
	}
	return nil
}

// describe returns the text of an error with its cause.
func describe(err error) string {
	text, cause := err.Error(), causeOf(err)
	if cause == "" || cause == text {
		return text
	}
	return text + ": " + cause
}
