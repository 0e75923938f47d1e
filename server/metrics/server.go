package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// Server are the metrics that a server writes as it works. All of it is safe for concurrent use.
type Server struct {
	Readers     prometheus.Gauge
	WaitingGets prometheus.Gauge
	lag         prometheus.Histogram

	refusals           *prometheus.CounterVec
	ConnectionsRefused prometheus.Counter
	ConnectionsCut     prometheus.Counter

	rounds, failures prometheus.Counter
	swept            [4]prometheus.Counter
	sweptAt          prometheus.Gauge
}

// NewServer returns the metrics of a server, and registers them unless reg is nil.
func NewServer(reg prometheus.Registerer) *Server {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: Namespace, Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Namespace: Namespace, Name: name, Help: help})
	}
	s := &Server{
		Readers:     gauge("readers", "Open streams of events."),
		WaitingGets: gauge("waiting_gets", "Gets that wait for a newer version."),
		lag: f.NewHistogram(prometheus.HistogramOpts{
			Namespace: Namespace, Name: "reader_lag_seconds",
			Help: "Age of events that came while their reader was there, by the store's clock, when the reader had taken them: " +
				"the oldest of each frame.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		refusals: f.NewCounterVec(prometheus.CounterOpts{
			Namespace: Namespace, Name: "limit_refusals_total",
			Help: "Calls and streams that a limit refused or ended, by the reason that the caller saw and whose limit it was.",
		}, []string{"reason", "scope"}),
		ConnectionsRefused: counter("connections_refused_total", "Connections that were closed because there were too many."),
		ConnectionsCut:     counter("connections_cut_total", "Connections that were closed because most of their calls were given up or broken as they began."),
		rounds:             counter("sweep_rounds_total", "Rounds of the sweeper that went well."),
		failures:           counter("sweep_failures_total", "Rounds of the sweeper that failed."),
		sweptAt: gauge("sweep_last_success_timestamp_seconds",
			"When a round of the sweeper last went well; before the first, when the server began."),
	}
	swept := f.NewCounterVec(prometheus.CounterOpts{
		Namespace: Namespace, Name: "swept_total", Help: "What the sweeper removed, by kind.",
	}, []string{"kind"})
	for i, kind := range [...]string{"task", "event", "key", "tombstone"} {
		s.swept[i] = swept.WithLabelValues(kind)
	}
	s.sweptAt.SetToCurrentTime()
	for reason, scopes := range map[backend.Reason][]limit.Scope{
		limit.ErrOverloaded: {limit.OfServer},
		limit.ErrRate:       {limit.OfPrincipal, limit.OfTenant},
		limit.ErrStreams:    {limit.OfServer, limit.OfConnection, limit.OfPrincipal, limit.OfTenant},
		limit.ErrTasks:      {limit.OfPrincipal, limit.OfTenant},
		limit.ErrStalled:    {limit.OfServer},
	} {
		for _, scope := range scopes {
			s.refusals.WithLabelValues(string(reason), string(scope)) // so that the first refusal is seen as one more
		}
	}
	return s
}

// Lag counts a frame that was handed to a reader since a time; created is when its oldest event came. What was there before the
// reader is no lag. The store's clock may be ahead of this process'.
func (s *Server) Lag(created, since time.Time) {
	if !created.Before(since) {
		s.lag.Observe(max(0, time.Since(created).Seconds()))
	}
}

// Refused counts a call that a limit refused.
func (s *Server) Refused(reason backend.Reason, scope limit.Scope) {
	s.refusals.WithLabelValues(string(reason), string(scope)).Inc()
}

// Removed counts a batch of the sweeper.
func (s *Server) Removed(res backend.SweepResult) {
	for i, n := range [...]int{res.Tasks, res.Events, res.Keys, res.Tombstones} {
		s.swept[i].Add(float64(n))
	}
}

// Swept counts a round of the sweeper.
func (s *Server) Swept(err error) {
	if err != nil {
		s.failures.Inc()
		return
	}
	s.rounds.Inc()
	s.sweptAt.SetToCurrentTime()
}
