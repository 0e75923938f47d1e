package server

import (
	"testing"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// BenchmarkGet and BenchmarkSave measure what the server and gRPC add to the memory backend, at as many callers as there are
// processors times 16.
func BenchmarkGet(b *testing.B) {
	f := start(b, newStore(b), Config{})
	f.mustSave(b, whole(working("t")))
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := f.Get(b.Context(), &pb.GetRequest{TaskId: "t"}); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkSave(b *testing.B) {
	f := start(b, newStore(b), Config{})
	req := whole(working("t"))
	req.Events = nil // a log would grow with b.N
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := f.Save(b.Context(), req); err != nil {
				b.Error(err)
			}
		}
	})
}
