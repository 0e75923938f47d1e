package server

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/a2a-taskstore/taskstore/backend/observe"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/audit"
)

// BenchmarkGet and BenchmarkSave measure what the server and gRPC add to the memory backend, at as many callers as there are
// processors times 16, and what it costs to be seen.
func BenchmarkGet(b *testing.B) {
	eachSeen(b, func(b *testing.B, f *fixture) {
		f.mustSave(b, whole(working("t")))
		inParallel(b, func() error {
			_, err := f.Get(b.Context(), &pb.GetRequest{TaskId: "t"})
			return err
		})
	})
}

func BenchmarkSave(b *testing.B) {
	eachSeen(b, func(b *testing.B, f *fixture) {
		req := whole(working("t"))
		req.Events = nil // a log would grow with b.N
		inParallel(b, func() error {
			_, err := f.Save(b.Context(), req)
			return err
		})
	})
}

// eachSeen runs a benchmark with nobody looking on, and with each of those who may.
func eachSeen(b *testing.B, bench func(*testing.B, *fixture)) {
	b.Run("seen=nothing", func(b *testing.B) { bench(b, start(b, newStore(b), Config{})) })
	b.Run("seen=metrics", func(b *testing.B) {
		reg := prometheus.NewRegistry()
		bench(b, start(b, observe.Wrap(newStore(b), reg), Config{Metrics: reg}))
	})
	b.Run("seen=audit", func(b *testing.B) {
		log, err := audit.Open(audit.Config{Path: filepath.Join(b.TempDir(), "log"), Calls: audit.All})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := log.Close(); err != nil {
				b.Error(err)
			}
		})
		bench(b, start(b, newStore(b), Config{Audit: log}))
	})
	for name, sampler := range map[string]sdktrace.Sampler{
		"seen=traces/sampled=none": sdktrace.NeverSample(), "seen=traces/sampled=all": sdktrace.AlwaysSample(),
	} {
		b.Run(name, func(b *testing.B) {
			bench(b, start(b, newStore(b), Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))}))
		})
	}
}

func inParallel(b *testing.B, call func() error) {
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := call(); err != nil {
				b.Error(err)
			}
		}
	})
}
