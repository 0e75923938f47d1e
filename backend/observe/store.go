// Package observe counts and times what stores do, for Prometheus. The metrics of one process go by the namespace and the rules
// of package server/metrics.
package observe

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/a2a-taskstore/taskstore/backend"
)

const namespace = "a2a_taskstore"

// store is a backend.Store that is watched. What it does not time is the Store's own.
type store struct {
	backend.Store

	save, get, list, remove, claim, release, append, readLog, heads, sweep, ping operation

	conflicts  map[backend.Reason]prometheus.Counter // not changed any more
	claims     [backend.Conflict + 1]prometheus.Counter
	events     prometheus.Counter
	eventBytes prometheus.Counter
}

// conflictReasons are those for which a write lost against another one, or against the holder of a key.
var conflictReasons = []backend.Reason{
	backend.ErrTaskExists, backend.ErrVersionConflict, backend.ErrBasePartsConflict, backend.ErrSeqConflict, backend.ErrTerminalState,
	backend.ErrClaimLost, backend.ErrClaimTaskMismatch, backend.ErrKeyBound,
}

// Wrap returns a Store that does what s does, and registers what it counts, with what engines of this module show of
// themselves. A registerer takes one Store.
func Wrap(s backend.Store, reg prometheus.Registerer) backend.Store {
	f := promauto.With(reg)
	seconds := f.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "backend_operation_seconds",
		Help: "How long the backend took, by operation and by how it ended: ok, refused (by what is stored, or by the request), " +
			"unavailable, canceled (its caller left, or its time was up) or fault.",
		Buckets: []float64{.00001, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation", "outcome"})
	timed := func(name string) (o operation) {
		for outcome := range o {
			o[outcome] = seconds.WithLabelValues(name, outcomeNames[outcome])
		}
		return o
	}
	w := &store{
		Store: s,
		save:  timed("save"), get: timed("get"), list: timed("list"), remove: timed("delete"),
		claim: timed("claim_key"), release: timed("release_key"), append: timed("append_events"), readLog: timed("read_log"),
		heads: timed("heads"), sweep: timed("sweep"), ping: timed("ping"),

		conflicts: make(map[backend.Reason]prometheus.Counter),
		events: f.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "events_appended_total", Help: "Events that were appended to logs.",
		}),
		eventBytes: f.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "events_appended_bytes_total",
			Help: "Bytes of the events that were appended to logs, without snapshots, which the store makes.",
		}),
	}
	conflicts := f.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "conflicts_total", Help: "Writes that lost against another one, by the reason that the caller saw.",
	}, []string{"reason"})
	for _, reason := range conflictReasons {
		w.conflicts[reason] = conflicts.WithLabelValues(string(reason))
	}
	claims := f.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "claims_total", Help: "Claims of keys, by how they ended.",
	}, []string{"outcome"})
	for outcome, name := range map[backend.ClaimOutcome]string{
		backend.Claimed: "claimed", backend.Replay: "replay", backend.Conflict: "conflict",
	} {
		w.claims[outcome] = claims.WithLabelValues(name)
	}
	if c := engine(s); c != nil {
		reg.MustRegister(c)
	}
	return w
}

// operation is the durations of one operation, by outcome.
type operation [len(outcomeNames)]prometheus.Observer

type outcome int

const (
	ok outcome = iota
	refused
	unavailable
	canceled
	fault
)

var outcomeNames = [...]string{ok: "ok", refused: "refused", unavailable: "unavailable", canceled: "canceled", fault: "fault"}

func outcomeOf(err error) outcome {
	if err == nil {
		return ok
	}
	switch backend.ReasonOf(err) {
	case backend.ErrUnavailable, backend.ErrBroken:
		return unavailable
	case "":
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return canceled
		}
		return fault
	default:
		return refused
	}
}

func (o *operation) end(began time.Time, err error) {
	o[outcomeOf(err)].Observe(time.Since(began).Seconds())
}

// lost counts a write that may have lost.
func (s *store) lost(err error) {
	if err == nil {
		return
	}
	if c := s.conflicts[backend.ReasonOf(err)]; c != nil {
		c.Inc()
	}
}

func (s *store) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	began, events, bytes := time.Now(), len(req.Events), 0
	for i := range req.Events {
		bytes += len(req.Events[i].Event.Bytes)
	}
	res, err := s.Store.Save(ctx, req)
	s.save.end(began, err)
	s.lost(err)
	if err == nil && !res.Replayed {
		s.appended(events, bytes)
	}
	return res, err
}

func (s *store) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	began, events, bytes := time.Now(), len(req.Events), 0
	for i := range req.Events {
		bytes += len(req.Events[i].Bytes)
	}
	res, err := s.Store.AppendEvents(ctx, req)
	s.append.end(began, err)
	s.lost(err)
	if err == nil && !res.Replayed {
		s.appended(events, bytes)
	}
	return res, err
}

func (s *store) appended(events, bytes int) {
	if events > 0 {
		s.events.Add(float64(events))
		s.eventBytes.Add(float64(bytes))
	}
}

func (s *store) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	began := time.Now()
	res, err := s.Store.Get(ctx, req)
	s.get.end(began, err)
	return res, err
}

func (s *store) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	began := time.Now()
	res, err := s.Store.List(ctx, req)
	s.list.end(began, err)
	return res, err
}

func (s *store) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	began := time.Now()
	found, err := s.Store.Delete(ctx, req)
	s.remove.end(began, err)
	s.lost(err)
	return found, err
}

func (s *store) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	began := time.Now()
	res, err := s.Store.ClaimKey(ctx, req)
	s.claim.end(began, err)
	if c := s.claims[res.Outcome]; err == nil && c != nil {
		c.Inc()
	}
	return res, err
}

func (s *store) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	began := time.Now()
	err := s.Store.ReleaseKey(ctx, req)
	s.release.end(began, err)
	s.lost(err)
	return err
}

func (s *store) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	began := time.Now()
	page, err := s.Store.ReadLog(ctx, req)
	s.readLog.end(began, err)
	return page, err
}

func (s *store) Heads(ctx context.Context, keys []backend.Key) ([]backend.Head, error) {
	began := time.Now()
	heads, err := s.Store.Heads(ctx, keys)
	s.heads.end(began, err)
	return heads, err
}

func (s *store) Sweep(ctx context.Context, req *backend.SweepRequest) (backend.SweepResult, error) {
	began := time.Now()
	res, err := s.Store.Sweep(ctx, req)
	s.sweep.end(began, err)
	return res, err
}

func (s *store) Ping(ctx context.Context) error {
	began := time.Now()
	err := s.Store.Ping(ctx)
	s.ping.end(began, err)
	return err
}
