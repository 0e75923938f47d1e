// Package server is the task store's gRPC server over a backend.Store.
//
// It validates requests, stores payloads as the bytes that came, translates errors, and turns the pages that a backend reads
// into streams that replay a log and follow it. What a write does, it leaves to the backend.
//
// Next to the service it answers grpc.health.v1 (Check and Watch, for "" and for the service) and server reflection.
package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/follow"
	"github.com/a2a-taskstore/taskstore/server/metrics"
)

// Server serves one store. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	store  backend.Store
	grpc   *grpc.Server
	health *health.Server
	hub    *follow.Hub
	admit  *admission
	seen   *metrics.Server
	calls  *metrics.Calls // nil: not counted

	// serving is what the store last said, and leaving is set once a shutdown begins.
	serving, leaving atomic.Bool

	// draining ends when streams, and calls that wait, must end.
	draining context.Context
	drain    context.CancelCauseFunc

	// background ends the goroutines that tasks counts.
	background     context.Context
	stopBackground context.CancelFunc
	tasks          sync.WaitGroup

	mu      sync.Mutex
	started bool
	stopped bool
}

// streamWorkers is how many goroutines handle calls one after the other. Calls beyond these get one each; so do all once as
// many readers are open, at some 10 % more CPU time a call.
const streamWorkers = 64

// New returns a Server for the store, which the caller closes once Shutdown has returned. It serves nothing before Serve; a
// Server that is not used any more must be shut down in any case.
func New(store backend.Store, cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults(), store: store, health: health.NewServer()}
	s.seen = metrics.NewServer(s.cfg.Metrics)
	s.admit = newAdmission(&s.cfg, s.seen)
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.background, s.stopBackground = context.WithCancel(context.Background())
	s.hub = follow.NewHub(store, func(err error) {
		s.cfg.Logger.Error("polling for waiting readers fails, they may hear of changes late", "error", describe(err))
	})

	s.grpc = grpc.NewServer(
		grpc.Creds(s.cfg.credentials()),
		tracing(s.cfg.TracerProvider),
		// A handler that runs on a goroutine of its own grows its stack anew each time.
		grpc.NumStreamWorkers(streamWorkers),
		grpc.UnaryInterceptor(s.aroundUnary),
		grpc.StreamInterceptor(s.aroundStream),
		grpc.ForceServerCodecV2(newCodec(s.cfg.MaxMessageBytes)),
		// What is sent is bounded by what was accepted; a size that was lowered since then must not hide it.
		grpc.MaxRecvMsgSize(s.cfg.MaxMessageBytes+oversize),
		grpc.MaxConcurrentStreams(s.cfg.MaxConcurrentStreams),
		grpc.InTapHandle(s.admit.arrive),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge: s.cfg.Limits.ConnectionAge, MaxConnectionAgeGrace: s.cfg.Limits.ConnectionAgeGrace,
		}),
		// Clients that ping more often than the default of 5 minutes are cut off by gRPC. Common clients ping every 10 to 60 s,
		// also when idle.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	maxPayload := TaskBytes(s.cfg.MaxMessageBytes)
	s.grpc.RegisterService(&serviceDesc, &service{
		store: store,
		hub:   s.hub,
		reader: &follow.Reader{
			Store: store, Hub: s.hub, PageEvents: frameEvents, PageBytes: min(frameBytes, int(maxPayload)),
		},
		retention:  s.cfg.Retention,
		maxPayload: maxPayload,
		guarded:    s.cfg.Auth != nil,
		admit:      s.admit,
		audit:      s.cfg.Audit,
		seen:       s.seen,
		quotas:     newQuotas(store),
		draining:   s.draining.Done(),
	})
	s.setServing(false)
	healthgrpc.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	if s.cfg.Metrics != nil {
		s.calls = metrics.NewCalls(s.cfg.Metrics, s.grpc.GetServiceInfo())
		s.admit.counts = s.calls
		s.export(s.cfg.Metrics)
	}
	return s
}

// Serve accepts connections on the listeners until Shutdown begins to refuse them, then returns nil; Shutdown may return
// later. If one of the listeners fails, Serve stops serving on all and returns the error. It closes the listeners.
func (s *Server) Serve(listeners ...net.Listener) error {
	if len(listeners) == 0 {
		return errors.New("server: no listener")
	}
	s.start()
	results := make(chan error, len(listeners))
	for _, lis := range listeners {
		go func() { results <- s.grpc.Serve(s.admit.listener(lis)) }()
	}
	var first error
	for range listeners {
		if err := <-results; err != nil && first == nil {
			first = err
			s.grpc.Stop()
		}
	}
	return first
}

// Shutdown drains: health says NOT_SERVING; after Config.DrainDelay streams end with UNAVAILABLE and where to resume, new
// calls are refused, and those that run are awaited. When ctx ends first, they are cut off and its error is returned. No
// goroutine of the Server uses the store after Shutdown, except those of calls that were cut off, as they end.
func (s *Server) Shutdown(ctx context.Context) error {
	s.leaving.Store(true)
	s.health.Shutdown()
	if s.cfg.DrainDelay > 0 && s.draining.Err() == nil {
		timer := time.NewTimer(s.cfg.DrainDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	s.drain(errDraining(-1))
	s.stop()

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	var err error
	select {
	case <-stopped:
	case <-ctx.Done():
		err = ctx.Err()
		s.grpc.Stop()
		<-stopped
	}
	s.tasks.Wait()
	return err
}
