package pebble

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/index"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// The tasks of the benchmarks: 1 KiB, of which most is one artifact and one message, and a status event.
const benchTasks = 10_000

func benchTask(id string, at int) *document.Task {
	return must(document.ParseTask(encode(&pb.Task{
		Id: id, ContextId: "context-" + id,
		Status: &pb.TaskStatus{
			State: pb.TaskState_TASK_STATE_WORKING, Timestamp: timestamppb.New(time.Unix(1_700_000_000, int64(at))),
		},
		Artifacts: []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{textPart(strings.Repeat("a", 400))}}},
		History:   []*pb.Message{{MessageId: "m", Parts: []*pb.Part{textPart(strings.Repeat("m", 400))}}},
	})))
}

func benchStatus(state pb.TaskState, at int) *document.Status {
	return must(document.ParseStatus(encode(&pb.TaskStatus{
		State: state, Timestamp: timestamppb.New(time.Unix(1_700_000_000+int64(at), 0)),
	})))
}

var benchEvent = must(document.ParseEvent(encode(&pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{
	StatusUpdate: &pb.TaskStatusUpdateEvent{Status: &pb.TaskStatus{
		State: pb.TaskState_TASK_STATE_WORKING,
		Message: &pb.Message{
			MessageId: "m", Parts: []*pb.Part{textPart(strings.Repeat("e", 100))},
		},
	}},
}})))

func benchKey(n int) backend.Key {
	return backend.Key{Tenant: "tenant", TaskID: fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", n)}
}

func saveWhole(ctx context.Context, s *Store, n int) error {
	k := benchKey(n % benchTasks)
	_, err := s.Save(ctx, &backend.SaveRequest{
		Key: k, Owner: backend.OwnerOf("owner"), Task: benchTask(k.TaskID, n),
		Pre: backend.Precondition{Condition: backend.Any}, Events: []backend.EventInput{{Event: benchEvent}},
		WriteID: strconv.Itoa(n),
	})
	return err
}

// parallel runs fn with 1, 2, 3 … from a number of callers at once.
func parallel(b *testing.B, callers int, fn func(n int) error) {
	b.Helper()
	var n atomic.Int64
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	if callers == 1 {
		for b.Loop() {
			if err := fn(int(n.Add(1))); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := fn(int(n.Add(1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// reportWrites reports what went to the disk, compactions included.
func reportWrites(b *testing.B, db *pebble.DB) {
	m := db.Metrics()
	var tables uint64
	for _, l := range m.Levels {
		tables += l.TableBytesFlushed + l.TableBytesCompacted
	}
	b.ReportMetric(float64(m.WAL.BytesWritten)/float64(b.N), "log-B/op")
	b.ReportMetric(float64(tables)/float64(b.N), "table-B/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// Durable saves of a whole task with an event, on the disk.
func BenchmarkSave(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			s := open(b, Config{Dir: filepath.Join(b.TempDir(), "db")})
			parallel(b, callers, func(n int) error { return saveWhole(b.Context(), s, n) })
			reportWrites(b, s.db)
		})
	}
}

// The same keys and bytes as BenchmarkSave, given to Pebble without a thought.
func BenchmarkBarePebble(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			s := open(b, Config{Dir: filepath.Join(b.TempDir(), "db")})
			parallel(b, callers, func(n int) error { return bareSave(s, n) })
			reportWrites(b, s.db)
		})
	}
}

func bareSave(s *Store, n int) error {
	k := benchKey(n % benchTasks)
	t := benchTask(k.TaskID, n)
	row := &record{Row: backend.Row{
		Kind: backend.RowTask, Owner: "owner", Incarnation: 1, Version: int64(n), ContextID: t.ContextID, State: t.State,
		Time: t.Time, StartSeq: 1, FirstSeq: 1, LastSeq: int64(n), LogEvents: int64(n), LogBytes: int64(n) * 200,
		Created: 1 << 60, Updated: 1 << 60, Touched: 1 << 60, WriteID: strconv.Itoa(n), WriteSeq: int64(n),
		Size: 1000, Artifacts: 1, Messages: 1,
	}}
	e := &backend.Event{Version: int64(n), CreatedAt: time.Unix(1<<30, 0), Bytes: benchEvent.Bytes}
	bt := s.db.NewBatch()
	_ = bt.Set(rowKey(k), appendRecord(nil, row), nil)
	_ = bt.Set(pieceKey(k, pieceHead), t.Head, nil)
	_ = bt.Set(pieceKey(k, pieceArtifacts), t.Artifacts.Bytes, nil)
	_ = bt.Set(pieceKey(k, pieceHistory), t.History.Bytes, nil)
	_ = bt.Set(eventKey(k, int64(n/benchTasks)), appendEvent(nil, e), nil)
	for _, key := range index.AppendKeys(nil, k, &row.Row) {
		_ = bt.Set(indexKey(key), nil, nil)
	}
	if n >= benchTasks {
		row.Time.Nanos -= benchTasks
		for _, key := range index.AppendKeys(nil, k, &row.Row) {
			_ = bt.SingleDelete(indexKey(key), nil)
		}
	}
	if err := bt.Commit(pebble.Sync); err != nil {
		return err
	}
	return bt.Close()
}

func BenchmarkGet(b *testing.B) {
	s := open(b, Config{Dir: filepath.Join(b.TempDir(), "db")})
	fillTasks(b, s, benchTasks)
	for name, extent := range map[string]backend.Extent{"full": backend.All, "state": {StateOnly: true}} {
		b.Run(name, func(b *testing.B) {
			parallel(b, 64, func(n int) error {
				_, err := s.Get(b.Context(), &backend.GetRequest{Key: benchKey(n % benchTasks), Extent: extent})
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}

// fillTasks saves tasks from many callers.
func fillTasks(b *testing.B, s *Store, n int) {
	b.Helper()
	each(b, n, func(i int) error {
		k := benchKey(i)
		_, err := s.Save(b.Context(), &backend.SaveRequest{
			Key: k, Owner: backend.OwnerOf("owner"), Task: benchTask(k.TaskID, i), Events: []backend.EventInput{{Event: benchEvent}},
		})
		return err
	})
}

// each calls fn with 0 … n-1 from 64 callers at once.
func each(b *testing.B, n int, fn func(int) error) {
	b.Helper()
	var next atomic.Int64
	errs := make(chan error)
	for range 64 {
		go func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := fn(i); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 64 {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
}

// What a chunk of 1 KiB costs, behind those that are there.
func BenchmarkAppendChunk(b *testing.B) {
	parts := must(document.ParseParts([][]byte{encode(textPart(strings.Repeat("c", 1000)))}))
	for _, chunks := range []int{0, 50, 500, 5000} {
		b.Run(strconv.Itoa(chunks), func(b *testing.B) {
			s := open(b, Config{Dir: filepath.Join(b.TempDir(), "db")})
			k := benchKey(0)
			save := func(req *backend.SaveRequest) {
				req.Key, req.Events = k, []backend.EventInput{{Event: benchEvent}}
				if _, err := s.Save(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
			appendChunk := func() {
				save(&backend.SaveRequest{
					Pre:   backend.Precondition{Condition: backend.Present},
					Delta: &document.Delta{Append: &document.AppendToArtifact{ID: "a", Base: -1, Parts: parts}, MaxHistory: -1},
				})
			}
			task := must(document.ParseTask(encode(&pb.Task{Id: k.TaskID, Artifacts: []*pb.Artifact{{ArtifactId: "a"}}})))
			n := 0
			for b.Loop() {
				if n%100 == 0 { // so that the number of chunks stays about what it is meant to be
					b.StopTimer()
					whole := &backend.SaveRequest{Task: task, Pre: backend.Precondition{Condition: backend.Any}}
					save(whole)
					for range chunks {
						appendChunk()
					}
					b.StartTimer()
				}
				n++
				appendChunk()
			}
		})
	}
}

func BenchmarkGetChunks(b *testing.B) {
	parts := must(document.ParseParts([][]byte{encode(textPart(strings.Repeat("c", 1000)))}))
	for _, chunks := range []int{50, 500, 5000} {
		b.Run(strconv.Itoa(chunks), func(b *testing.B) {
			s := open(b, Config{Dir: filepath.Join(b.TempDir(), "db")})
			k := benchKey(0)
			task := must(document.ParseTask(encode(&pb.Task{Id: k.TaskID, Artifacts: []*pb.Artifact{{ArtifactId: "a"}}})))
			if _, err := s.Save(b.Context(), &backend.SaveRequest{Key: k, Task: task}); err != nil {
				b.Fatal(err)
			}
			for range chunks {
				if _, err := s.Save(b.Context(), &backend.SaveRequest{
					Key: k, Pre: backend.Precondition{Condition: backend.Present},
					Delta: &document.Delta{Append: &document.AppendToArtifact{ID: "a", Base: -1, Parts: parts}, MaxHistory: -1},
				}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := s.Get(b.Context(), &backend.GetRequest{Key: k, Extent: backend.All}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The first pages of lists over 100,000 tasks: as loaded; right after ten changes of status of each; and right after all
// have left a state, which leaves nothing but dead index keys there.
func BenchmarkListAfterUpdates(b *testing.B) {
	const tasks, updates = 100_000, 10
	s := open(b, Config{Dir: filepath.Join(b.TempDir(), "db")})
	pages := func(b *testing.B) {
		for name, state := range map[string]int32{"all": 0, "working": 2, "required": 6} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					_, err := s.List(b.Context(), &backend.ListRequest{
						Tenant: "tenant", State: state, Size: 50, SkipTotal: true, Extent: backend.Extent{OmitArtifacts: true},
					})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	update := func(n int, state func(i int) pb.TaskState) {
		each(b, n, func(i int) error {
			_, err := s.Save(b.Context(), &backend.SaveRequest{
				Key: benchKey(i * 7919 % tasks), Owner: backend.OwnerOf("owner"),
				Delta: &document.Delta{Status: benchStatus(state(i), i), MaxHistory: -1},
				Pre:   backend.Precondition{Condition: backend.Present},
			})
			return err
		})
	}
	fillTasks(b, s, tasks)
	b.Run("loaded", pages)
	update(tasks*updates, func(i int) pb.TaskState {
		if i%2 == 0 {
			return pb.TaskState_TASK_STATE_WORKING
		}
		return pb.TaskState_TASK_STATE_INPUT_REQUIRED
	})
	b.Run("updated", pages)
	update(tasks, func(int) pb.TaskState { return pb.TaskState_TASK_STATE_COMPLETED })
	b.Run("left", pages)
}

// Opening after the process was killed: the directory as it is while writers are at work, on 100,000 tasks.
func BenchmarkOpenAfterKill(b *testing.B) {
	dir := b.TempDir()
	s := open(b, Config{Dir: filepath.Join(dir, "db")})
	fillTasks(b, s, 100_000)
	for i := range 5 {
		fillMore(b, s, i)
		b.StopTimer()
		killed := filepath.Join(dir, strconv.Itoa(i))
		if err := os.CopyFS(killed, os.DirFS(filepath.Join(dir, "db"))); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		b.Run(strconv.Itoa(i), func(b *testing.B) {
			for b.Loop() {
				start := time.Now()
				again, err := Open(Config{Dir: killed})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-open")
				if err := again.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func fillMore(b *testing.B, s *Store, round int) {
	each(b, 3000, func(i int) error { return saveWhole(b.Context(), s, round*3000+i) })
}
