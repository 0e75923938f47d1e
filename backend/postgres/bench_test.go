package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// durable starts a server that syncs its commits, and returns the DSN of a migrated database.
func durable(b *testing.B) string {
	b.Helper()
	s := pgtest.Start(b, pgtest.Options{Durable: true})
	dsn := s.DSN("postgres")
	if _, err := postgres.Migrate(b.Context(), dsn, slog.New(slog.DiscardHandler)); err != nil {
		b.Fatal(err)
	}
	return dsn
}

// concurrently runs fn b.N times over so many callers, and reports the latencies.
func concurrently(b *testing.B, callers int, fn func(caller, i int)) {
	b.Helper()
	var next atomic.Int64
	latencies := make([][]time.Duration, callers)
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := 0; next.Add(1) <= int64(b.N); i++ {
				start := time.Now()
				fn(c, i)
				latencies[c] = append(latencies[c], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Sorted(slices.Values(slices.Concat(latencies...)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// written returns how many bytes of WAL the server has written.
func written(b *testing.B, dsn string) int64 {
	b.Helper()
	return query[int64](b, dsn, "SELECT (pg_current_wal_lsn() - '0/0')::bigint")
}

// kilobyte is a task of about 1 KiB.
func kilobyte(b *testing.B, id string, i int) *document.Task {
	b.Helper()
	m := &pb.Task{
		Id: id, ContextId: "context-" + id,
		Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING, Timestamp: &timestamppb.Timestamp{Seconds: 1_700_000_000 + int64(i)}},
		Artifacts: []*pb.Artifact{{
			ArtifactId: "answer", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: strings.Repeat("lorem ip", 80)}}},
		}},
		History: []*pb.Message{{MessageId: "m1", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: strings.Repeat("question", 25)}}}}},
	}
	return parse(b, m)
}

func parse(tb testing.TB, m *pb.Task) *document.Task {
	tb.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := document.ParseTask(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func statusEvent(tb testing.TB, id string) document.Event {
	tb.Helper()
	return event(tb, &pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{StatusUpdate: &pb.TaskStatusUpdateEvent{
		TaskId: id, Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING},
	}}})
}

func event(tb testing.TB, m *pb.StreamResponse) document.Event {
	tb.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := document.ParseEvent(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

var callerCounts = []int{1, 64, 256}

// BenchmarkSave saves tasks of 1 KiB, whole, with an event each; Update at the version that the last save returned.
func BenchmarkSave(b *testing.B) {
	dsn := durable(b)
	for _, notify := range []bool{true, false} {
		for _, callers := range callerCounts {
			b.Run(fmt.Sprintf("notify=%v/callers=%d", notify, callers), func(b *testing.B) {
				s := open(b, postgres.Config{DSN: dsn, PollOnly: !notify})
				defer s.Close()
				prefix := fmt.Sprint(rand.Uint64())
				versions := make([]map[int]int64, callers)
				for c := range versions {
					versions[c] = map[int]int64{}
				}
				before := written(b, dsn)
				defer func() { b.ReportMetric(float64(written(b, dsn)-before)/float64(b.N), "WAL-B/op") }()
				concurrently(b, callers, func(c, i int) {
					const tasks = 16
					id := fmt.Sprintf("%s-%d-%d", prefix, c, i%tasks)
					req := &backend.SaveRequest{
						Key: backend.Key{Tenant: "bench", TaskID: id}, Owner: backend.OwnerOf("owner"), Task: kilobyte(b, id, i),
						Events: []backend.EventInput{{Event: statusEvent(b, id)}}, WriteID: fmt.Sprint(rand.Uint64()), Origin: "replica",
					}
					if v := versions[c][i%tasks]; v > 0 {
						req.Pre = backend.Precondition{Condition: backend.AtVersion, Version: v}
					}
					res, err := s.Save(context.Background(), req)
					if err != nil {
						b.Error(err)
					}
					versions[c][i%tasks] = res.Version
				})
			})
		}
	}
}

// rawSave is what a Save comes to in bare SQL, with nothing checked but the version: the floor.
const rawSave = `WITH up AS (
		UPDATE a2a_taskstore.tasks SET version = version + 1, stamp = $3, seconds = $4, last_seq = last_seq + 1,
			log_events = log_events + 1, log_bytes = log_bytes + $5, updated = $6, touched = $6, write_id = $7,
			head = $8, artifacts = $9, history = $10
		WHERE tenant = $1 AND task_id = $2 AND version = $11 RETURNING version, last_seq, row_id
	), ev AS (
		INSERT INTO a2a_taskstore.events (row_id, seq, mark, origin, write_id, write_idx, created, event)
		SELECT row_id, last_seq, version * 2, 'replica'::bytea, ''::bytea, 0, $6, $12 FROM up
	)
	SELECT version FROM up`

// BenchmarkRawSave runs rawSave with the same sizes and callers: two connections, each sending what is waiting in one
// pipeline and one transaction.
func BenchmarkRawSave(b *testing.B) {
	dsn := durable(b)
	for _, callers := range callerCounts {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			prefix := fmt.Sprint(rand.Uint64())
			s := open(b, postgres.Config{DSN: dsn, PollOnly: true})
			defer s.Close()
			const tasks = 16
			ids := make([][]string, callers)
			versions := make([][tasks]int64, callers)
			for c := range callers {
				for i := range tasks {
					id := fmt.Sprintf("%s-%d-%d", prefix, c, i)
					_, err := s.Save(b.Context(), &backend.SaveRequest{
						Key: backend.Key{Tenant: "bench", TaskID: id}, Owner: backend.OwnerOf("owner"), Task: kilobyte(b, id, 0),
					})
					if err != nil {
						b.Fatal(err)
					}
					ids[c], versions[c][i] = append(ids[c], id), 1
				}
			}
			type call struct {
				args    []any
				version *int64
				done    chan struct{}
			}
			queues := [2]chan call{make(chan call, 1024), make(chan call, 1024)}
			var committers sync.WaitGroup
			for _, queue := range queues {
				conn, err := pgx.Connect(b.Context(), dsn)
				if err != nil {
					b.Fatal(err)
				}
				committers.Go(func() {
					defer conn.Close(context.Background())
					for first := range queue {
						calls := []call{first}
						for len(queue) > 0 && len(calls) < 128 {
							calls = append(calls, <-queue)
						}
						batch := &pgx.Batch{}
						for _, c := range calls {
							batch.Queue(rawSave, c.args...).QueryRow(func(row pgx.Row) error { return row.Scan(c.version) })
						}
						if err := conn.SendBatch(context.Background(), batch).Close(); err != nil {
							b.Error(err)
						}
						for _, c := range calls {
							close(c.done)
						}
					}
				})
			}
			concurrently(b, callers, func(c, i int) {
				id := ids[c][i%tasks]
				t, e := kilobyte(b, id, i), statusEvent(b, id)
				version := &versions[c][i%tasks]
				done := make(chan struct{})
				queues[c%2] <- call{done: done, version: version, args: []any{
					[]byte("bench"), []byte(id), rand.Int64(), t.Time.Seconds, len(e.Bytes), time.Now().UnixNano(), []byte(fmt.Sprint(rand.Uint64())),
					t.Head, t.Artifacts.Bytes, t.History.Bytes, *version, e.Bytes,
				}}
				<-done
			})
			for _, queue := range queues {
				close(queue)
			}
			committers.Wait()
		})
	}
}

// BenchmarkHint takes the time from the call of a Save on one replica until another one has read the event.
func BenchmarkHint(b *testing.B) {
	dsn := durable(b)
	writer, reader := open(b, postgres.Config{DSN: dsn}), open(b, postgres.Config{DSN: dsn})
	defer writer.Close()
	defer reader.Close()
	key := backend.Key{Tenant: "t", TaskID: "id"}
	hint := heard(b, reader, "id")
	concurrently(b, 1, func(_, i int) {
		res, err := writer.Save(context.Background(), save(b, "id", working, anyState))
		if err != nil {
			b.Fatal(err)
		}
		for {
			page, err := reader.ReadLog(context.Background(), &backend.ReadLogRequest{
				Key: key, Start: backend.Start{N: res.Seq - 1}, MaxEvents: 1,
			})
			if err == nil && len(page.Events) == 1 {
				return
			}
			select {
			case <-hint:
			case <-time.After(reader.PollInterval()):
				b.Log("polled")
			}
		}
	})
}

// BenchmarkChunk appends parts of 100 bytes to one artifact, with an event each, on a task that grows.
func BenchmarkChunk(b *testing.B) {
	dsn := durable(b)
	s := open(b, postgres.Config{DSN: dsn, PollOnly: true})
	defer s.Close()
	for _, chunks := range []int{50, 500} {
		b.Run(fmt.Sprintf("chunks=%d", chunks), func(b *testing.B) {
			part, err := proto.Marshal(&pb.Part{Content: &pb.Part_Text{Text: strings.Repeat("word ", 20)}})
			if err != nil {
				b.Fatal(err)
			}
			parts, err := document.ParseParts([][]byte{part})
			if err != nil {
				b.Fatal(err)
			}
			run := rand.Uint64()
			var version int64
			before := written(b, dsn)
			concurrently(b, 1, func(_, i int) {
				id := fmt.Sprintf("%d-%d", run, i/chunks)
				req := &backend.SaveRequest{
					Key: backend.Key{Tenant: "t", TaskID: id}, WriteID: fmt.Sprint(rand.Uint64()),
					Events: []backend.EventInput{{Event: statusEvent(b, id)}},
				}
				if i%chunks == 0 {
					req.Task = kilobyte(b, id, 0)
				} else {
					req.Delta = &document.Delta{Append: &document.AppendToArtifact{ID: "answer", Parts: parts, Base: -1}, MaxHistory: -1}
					req.Pre = backend.Precondition{Condition: backend.AtVersion, Version: version}
				}
				res, err := s.Save(context.Background(), req)
				if err != nil {
					b.Fatal(err)
				}
				version = res.Version
			})
			b.ReportMetric(float64(written(b, dsn)-before)/float64(b.N), "WAL-B/op")
		})
	}
}
