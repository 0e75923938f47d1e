package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/observe"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/metrics"
)

// adminFlags configure what operators look at.
//
// The admin port asks for no credentials on any address: what it shows names no task, tenant, owner or principal. Only profiles
// are kept to loopback.
type adminFlags struct {
	AdminListen string `help:"TCP address of the admin port, which has /metrics, /livez and /readyz over plain HTTP and without credentials; empty: none." default:"127.0.0.1:7421"`
	Pprof       bool   `help:"Profiles of the process on the admin port, under /debug/pprof/. Needs a loopback address or --insecure."`
}

// check finds wrong configuration.
func (f *adminFlags) check(insecure bool) error {
	if err := checkAddress("--admin-listen", f.AdminListen); err != nil {
		return err
	}
	switch {
	case f.Pprof && f.AdminListen == "":
		return usagef("--pprof needs --admin-listen")
	case f.Pprof && isExposed(f.AdminListen) && !insecure:
		return usagef("--pprof: %s is not a loopback address: profiles slow the process down and show how it works; give --insecure if the network is trusted", f.AdminListen)
	}
	return nil
}

// adminPort is the HTTP server of the admin port. Without an address it is nil, and does nothing.
type adminPort struct {
	http     *http.Server
	address  string
	registry *prometheus.Registry
	server   atomic.Pointer[server.Server] // nil as long as the store is being opened
}

// start serves. The process is alive then, but not ready.
func (f *adminFlags) start(log *slog.Logger) (*adminPort, error) {
	if f.AdminListen == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", f.AdminListen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for --admin-listen: %w", err)
	}
	a := &adminPort{address: l.Addr().String(), registry: metrics.NewRegistry(version())}
	a.http = &http.Server{
		Handler:           a.handler(f.Pprof),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes as long as it is asked for
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := a.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logUnavailable(log, "the admin port", err)
		}
	}()
	return a, nil
}

func (a *adminPort) handler(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	// Alive is whoever answers: a restart brings no database back.
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, true) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := a.server.Load()
		answer(w, s != nil && s.Ready())
	})
	if profiles { // without cmdline, which may hold secrets
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// answer says what a probe asks.
func answer(w http.ResponseWriter, yes bool) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	text := "ok\n"
	if !yes {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = "not ready\n"
	}
	_, _ = w.Write([]byte(text)) // fails if nobody reads it any more
}

// observe makes a store, and the server of a configuration, show their metrics.
func (a *adminPort) observe(store backend.Store, cfg *server.Config) backend.Store {
	if a == nil {
		return store
	}
	cfg.Metrics = a.registry
	return observe.Wrap(store, a.registry)
}

// serves says whose readiness is meant.
func (a *adminPort) serves(s *server.Server, log *slog.Logger) {
	if a != nil {
		a.server.Store(s)
		log.Info("admin port", "address", a.address)
	}
}

func (a *adminPort) stop() {
	if a != nil {
		_ = a.http.Close() // of connections that nobody needs any more
	}
}
