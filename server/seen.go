package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/a2a-taskstore/taskstore/server/metrics"
	"github.com/a2a-taskstore/taskstore/server/reload"
)

// Ready reports whether the server should be given calls: the store answered when it was last asked, and no shutdown has
// begun. It never asks the store itself.
func (s *Server) Ready() bool { return s.serving.Load() && !s.leaving.Load() }

// export registers what is looked up when it is asked for.
func (s *Server) export(reg prometheus.Registerer) {
	f := promauto.With(reg)
	gauge := func(name, help string, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: metrics.Namespace, Name: name, Help: help}, value)
	}
	gauge("ready", "1 if the store can serve, as health checks say before a shutdown.", func() float64 { return number01(s.serving.Load()) })
	gauge("draining", "1 once a shutdown has begun.", func() float64 { return number01(s.leaving.Load()) })

	gauge("calls", "Unary calls that are in hand, without Gets that wait.", func() float64 { return float64(s.admit.calls.Used()) })
	gauge("call_bytes", "Bytes of large requests and responses that are in hand.", func() float64 { return float64(s.admit.bytes.Used()) })
	gauge("streams", "Open streams, and Gets that wait.", func() float64 { return float64(s.admit.streams.Used()) })
	gauge("connections", "Open connections.", func() float64 { return float64(s.admit.connections.Used()) })
	gauge("stream_buffer_bytes", "Memory of the frames that readers have not taken yet.", func() float64 { return float64(s.admit.frames.Used()) })

	if tls := s.cfg.TLS; tls != nil {
		gauge("certificate_expiry_timestamp_seconds", "When the server's certificate expires.", func() float64 {
			return float64(tls.NotAfter().Unix())
		})
		exportReloads(reg, "certificates", tls.Stats)
	}
	if audit := s.cfg.Audit; audit != nil {
		gauge("audit_log_failing", "1 while the audit log cannot be written.", func() float64 { return number01(audit.Stats().Failing) })
		f.NewCounterFunc(prometheus.CounterOpts{
			Namespace: metrics.Namespace, Name: "audit_log_lines_total", Help: "Lines that were written to the audit log.",
		}, func() float64 { return float64(audit.Stats().Lines) })
		f.NewCounterFunc(prometheus.CounterOpts{
			Namespace: metrics.Namespace, Name: "audit_log_lost_lines_total",
			Help: "Lines that are missing in the audit log, because it could not be written for too long.",
		}, func() float64 { return float64(audit.Stats().Lost) })
	}
	if auth := s.cfg.Auth; auth != nil {
		gauge("principals", "Principals that the credentials file names.", func() float64 { return float64(auth.Principals()) })
		f.NewCounterFunc(prometheus.CounterOpts{
			Namespace: metrics.Namespace, Name: "revoked_calls_total",
			Help: "Open calls that were ended because their credentials did not allow them any more.",
		}, func() float64 { return float64(auth.Ended()) })
		exportReloads(reg, "credentials", auth.Stats)
	}
}

// exportReloads registers how the reading of files goes.
func exportReloads(reg prometheus.Registerer, files string, stats func() reload.Stats) {
	f := promauto.With(reg)
	labels := prometheus.Labels{"files": files}
	f.NewCounterFunc(prometheus.CounterOpts{
		Namespace: metrics.Namespace, Name: "reloads_total", ConstLabels: labels,
		Help: "How often changed files were read and are used now, the first time included.",
	}, func() float64 { return float64(stats().Loads) })
	f.NewCounterFunc(prometheus.CounterOpts{
		Namespace: metrics.Namespace, Name: "reload_failures_total", ConstLabels: labels,
		Help: "How often changed files could not be used.",
	}, func() float64 { return float64(stats().Failures) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: metrics.Namespace, Name: "reload_failing", ConstLabels: labels,
		Help: "1 while the files cannot be used, and what was read before them is.",
	}, func() float64 { return number01(stats().Failing) })
}

func number01(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
