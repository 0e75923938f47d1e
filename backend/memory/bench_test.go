package memory

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

func benchID(i int) string { return fmt.Sprintf("0190c2f1-8a54-7000-8000-%012d", i) }

func benchStore(b *testing.B) *Store {
	s := open(b, Config{MaxBytes: 1 << 36})
	b.Cleanup(func() { _ = s.Close() })
	b.ReportAllocs()
	return s
}

// BenchmarkSave saves whole tasks over existing ones, each with an event and a new time, from 64 callers with a task each.
func BenchmarkSave(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s := benchStore(b)
			const callers = 64
			var versions [callers][4]*document.Task
			for c := range versions {
				for v := range versions[c] {
					versions[c][v] = taskOf(benchID(c), 2, v, size-100, 1)
				}
			}
			event := []backend.EventInput{{Event: eventOf(200)}}
			keep := backend.Retention{LogEvents: 1000}
			var next atomic.Int64
			b.SetBytes(int64(size))
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				tasks := &versions[next.Add(1)%callers]
				for n := 0; pb.Next(); n++ {
					task := tasks[n%len(tasks)]
					_, err := s.Save(b.Context(), &backend.SaveRequest{
						Key: backend.Key{TaskID: task.ID}, Owner: backend.OwnerOf("owner"), Task: task,
						Pre: backend.Precondition{Condition: backend.Any}, Events: event, WriteID: strconv.Itoa(n),
					})
					if err != nil {
						b.Fatal(err)
					}
					if n%1000 == 999 { // what a sweeper would do, for the store not to grow
						must(s.Sweep(b.Context(), &backend.SweepRequest{Retention: keep, Batch: everything}))
					}
				}
			})
		})
	}
}

// BenchmarkMap is the yardstick of BenchmarkSave: the same tasks put into a map behind one mutex.
func BenchmarkMap(b *testing.B) {
	const callers = 64
	var tasks [callers]*document.Task
	for c := range tasks {
		tasks[c] = taskOf(benchID(c), 2, 1, 1<<10, 1)
	}
	var mu sync.Mutex
	saved := map[string]*document.Task{}
	var next atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(callers / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		task := tasks[next.Add(1)%callers]
		for pb.Next() {
			mu.Lock()
			saved[task.ID] = task
			mu.Unlock()
		}
	})
}

// BenchmarkInsert saves tasks that are new.
func BenchmarkInsert(b *testing.B) {
	s := benchStore(b)
	var ids atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		shape := taskOf(benchID(0), 2, 1, 900, 1)
		for pb.Next() {
			i := int(ids.Add(1))
			task := *shape
			task.Time.Seconds = int64(i)
			_, err := s.Save(b.Context(), &backend.SaveRequest{
				Key: backend.Key{TaskID: benchID(i)}, Owner: backend.OwnerOf("owner"), Task: &task,
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s := benchStore(b)
			const n = 1000
			var ids [n]string
			for i := range n {
				id := benchID(i)
				ids[i] = id
				must(s.Save(b.Context(), &backend.SaveRequest{Key: backend.Key{TaskID: id}, Task: taskOf(id, 2, 1, size-100, 1)}))
			}
			b.SetBytes(int64(size))
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					req := backend.GetRequest{Key: backend.Key{TaskID: ids[i%n]}, Extent: backend.All}
					if _, err := s.Get(b.Context(), &req); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkAppendChunk appends chunks, each with its event, to an artifact, in streams of a length. It reports the price of
// one append.
func BenchmarkAppendChunk(b *testing.B) {
	for _, size := range []int{100, 1000} {
		part := field(nil, 1, make([]byte, size))
		event := []backend.EventInput{{Event: eventOf(size + 50)}}
		for _, chunks := range []int{50, 500, 5000} {
			b.Run(fmt.Sprintf("%dB/%d", size, chunks), func(b *testing.B) {
				benchStreams(b, chunks, taskOf("id", 2, 1, 100, 1), func(s *Store, key backend.Key) {
					must(s.Save(b.Context(), &backend.SaveRequest{
						Key: key, Pre: backend.Precondition{Condition: backend.NotTerminal}, Events: event,
						Delta: &document.Delta{
							Append:     &document.AppendToArtifact{ID: "0", Parts: must(document.ParseParts([][]byte{part})), Base: -1},
							MaxHistory: -1,
						},
					}))
				})
			})
		}
	}
}

// BenchmarkHistory appends messages, in streams of a length, to a history that keeps 1,024. It reports the price of one.
func BenchmarkHistory(b *testing.B) {
	message := [][]byte{field(nil, 1, make([]byte, 200))}
	for _, messages := range []int{100, 1000, 10_000} {
		b.Run(strconv.Itoa(messages), func(b *testing.B) {
			benchStreams(b, messages, taskOf("id", 2, 1, 100, 0), func(s *Store, key backend.Key) {
				must(s.Save(b.Context(), &backend.SaveRequest{
					Key: key, Pre: backend.Precondition{Condition: backend.NotTerminal},
					Delta: &document.Delta{History: must(document.ParseHistory(message)), MaxHistory: 1024},
				}))
			})
		})
	}
}

// benchStreams does something to a task so many times, and again with a new task.
func benchStreams(b *testing.B, length int, task *document.Task, do func(*Store, backend.Key)) {
	s := benchStore(b)
	key := backend.Key{TaskID: task.ID}
	for b.Loop() {
		must(s.Save(b.Context(), &backend.SaveRequest{Key: key, Task: task}))
		for range length {
			do(s, key)
		}
		must(s.Delete(b.Context(), &backend.DeleteRequest{Key: key}))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*length), "ns/append")
}

// BenchmarkStatus changes the status of a task with a history.
func BenchmarkStatus(b *testing.B) {
	for _, messages := range []int{0, 200, 600} {
		b.Run(fmt.Sprintf("history%d", messages), func(b *testing.B) {
			s := benchStore(b)
			key := backend.Key{TaskID: "id"}
			must(s.Save(b.Context(), &backend.SaveRequest{Key: key, Task: taskOf("id", 2, 1, 100, messages)}))
			stamp := func(n int) []byte { return field([]byte{1 << 3, 2}, 3, append([]byte{1 << 3}, varint(n)...)) }
			for n := 0; b.Loop(); n++ {
				must(s.Save(b.Context(), &backend.SaveRequest{
					Key: key, Pre: backend.Precondition{Condition: backend.NotTerminal},
					Delta: &document.Delta{Status: must(document.ParseStatus(stamp(n))), MaxHistory: -1},
				}))
			}
		})
	}
}

// BenchmarkList reads pages of 50 small tasks, of four states in 100 contexts.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		s := benchStore(b)
		for i := range n {
			id := benchID(i)
			task := taskOf(id, []byte{1, 2, 6, 8}[i%4], i+1, 100, 0)
			task.ContextID = "context " + strconv.Itoa(i%100)
			must(s.Save(b.Context(), &backend.SaveRequest{Key: backend.Key{TaskID: id}, Owner: backend.OwnerOf("owner"), Task: task}))
		}
		middle := &backend.Position{Time: document.Timestamp{Valid: true, Seconds: int64(n / 2)}, TaskID: "x"}
		for _, bench := range []struct {
			name string
			req  backend.ListRequest
		}{
			{"first", backend.ListRequest{Owner: backend.OwnerOf("owner"), SkipTotal: true}},
			{"deep", backend.ListRequest{Owner: backend.OwnerOf("owner"), SkipTotal: true, After: middle}},
			{"context", backend.ListRequest{Owner: backend.OwnerOf("owner"), SkipTotal: true, ContextID: "context 7"}},
			{"status", backend.ListRequest{Owner: backend.OwnerOf("owner"), SkipTotal: true, State: 2}},
			{"total", backend.ListRequest{Owner: backend.OwnerOf("owner")}},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, bench.name), func(b *testing.B) {
				b.ReportAllocs()
				bench.req.Size, bench.req.Extent = 50, backend.All
				for b.Loop() {
					must(s.List(b.Context(), &bench.req))
				}
			})
		}
	}
}

// BenchmarkClaim is parallel claims of one key.
func BenchmarkClaim(b *testing.B) {
	s := benchStore(b)
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			must(s.ClaimKey(b.Context(), &backend.ClaimRequest{
				Key: backend.ClaimKey{Key: "key"}, MessageID: "m", TaskID: "id", Token: strconv.Itoa(n), Lease: 1, TTL: 1,
			}))
		}
	})
}
