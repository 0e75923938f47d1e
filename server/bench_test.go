package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a2a-taskstore/taskstore/backend/observe"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// BenchmarkGet and BenchmarkSave measure what the server and gRPC add to the memory backend, at as many callers as there are
// processors times 16, with and without metrics.
func BenchmarkGet(b *testing.B) {
	eachMetrics(b, func(b *testing.B, f *fixture) {
		f.mustSave(b, whole(working("t")))
		inParallel(b, func() error {
			_, err := f.Get(b.Context(), &pb.GetRequest{TaskId: "t"})
			return err
		})
	})
}

func BenchmarkSave(b *testing.B) {
	eachMetrics(b, func(b *testing.B, f *fixture) {
		req := whole(working("t"))
		req.Events = nil // a log would grow with b.N
		inParallel(b, func() error {
			_, err := f.Save(b.Context(), req)
			return err
		})
	})
}

func eachMetrics(b *testing.B, bench func(*testing.B, *fixture)) {
	b.Run("metrics=off", func(b *testing.B) { bench(b, start(b, newStore(b), Config{})) })
	b.Run("metrics=on", func(b *testing.B) {
		reg := prometheus.NewRegistry()
		bench(b, start(b, observe.Wrap(newStore(b), reg), Config{Metrics: reg}))
	})
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
