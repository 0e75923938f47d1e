package servertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// BenchmarkDelivery takes the time from the call of an AppendEvent on one replica until a reader on another one has the
// event, with hints and with polling alone. Run it with -benchtime=500x: what takes the time is the rest between two appends.
func BenchmarkDelivery(b *testing.B) {
	db := pgtest.Start(b, pgtest.Options{Durable: true})
	dsn := db.DSN("postgres")
	if err := migrate(b.Context(), dsn); err != nil {
		b.Fatal(err)
	}
	for name, cfg := range map[string]postgres.Config{
		"notify": {DSN: dsn},
		"poll":   {DSN: dsn, PollOnly: true},
	} {
		b.Run(name, func(b *testing.B) {
			writer, reader := replicaOn(b, cfg).service(), replicaOn(b, cfg).service()
			first, err := writer.Save(b.Context(), saveRequest("id"))
			if err != nil {
				b.Fatal(err)
			}
			stream, err := reader.ReadEvents(b.Context(), &pb.ReadEventsRequest{
				TaskId: "id", Start: &pb.ReadEventsRequest_AfterSeq{AfterSeq: first.GetSeq()}, Until: pb.ReadUntil_READ_UNTIL_FOREVER,
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil { // opened
				b.Fatal(err)
			}
			latencies := make([]time.Duration, b.N)
			for i := range latencies {
				<-time.After(rand.N(postgresPoll)) // or else each append would come just behind a poll
				start := time.Now()
				_, err := writer.AppendEvent(b.Context(), &pb.AppendEventRequest{
					TaskId: "id", Events: []*pb.StreamResponse{statusUpdate("id")},
				})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
				latencies[i] = time.Since(start)
			}
			slices.Sort(latencies)
			b.ReportMetric(0, "ns/op") // mostly rest
			b.ReportMetric(float64(latencies[b.N/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(latencies[b.N*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkSaveBesideReaders saves through a replica with a pool of four connections, with and without 300 readers who wait.
func BenchmarkSaveBesideReaders(b *testing.B) {
	db := pgtest.Start(b, pgtest.Options{Durable: true})
	dsn := db.DSN("postgres")
	if err := migrate(b.Context(), dsn); err != nil {
		b.Fatal(err)
	}
	for _, readers := range []int{0, 300, 0, 300} {
		b.Run(fmt.Sprint("readers=", readers), func(b *testing.B) {
			service := replicaOn(b, postgres.Config{DSN: dsn, MaxConns: 4}).service()
			for i := range readers {
				id := fmt.Sprint("log-", i)
				if _, err := service.Save(b.Context(), saveRequest(id)); err != nil {
					b.Fatal(err)
				}
				stream, err := service.ReadEvents(b.Context(), &pb.ReadEventsRequest{TaskId: id, Until: pb.ReadUntil_READ_UNTIL_FOREVER})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil { // opened
					b.Fatal(err)
				}
			}
			var task atomic.Int64
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(next *testing.PB) {
				id := fmt.Sprint("task-", task.Add(1))
				for next.Next() {
					if _, err := service.Save(b.Context(), saveRequest(id)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// postgresPoll is how often a store in PostgreSQL is polled unless it is configured otherwise.
const postgresPoll = 250 * time.Millisecond
