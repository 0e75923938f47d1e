// Package metrics is what a server shows of itself to Prometheus. Labels never name a task, a tenant, an owner or a principal:
// there are too many, and whoever may read metrics may not know them.
//
// The metrics of stores are in package backend/observe.
package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Namespace is how the names of our own metrics begin.
const Namespace = "a2a_taskstore"

// NewRegistry returns a registry of what every process shows: the Go runtime, the process, and the version of the program.
func NewRegistry(version string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	promauto.With(reg).NewGauge(prometheus.GaugeOpts{
		Namespace: Namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}).Set(1)
	return reg
}
