package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// TestReadersLeaveNothing opens and cancels 10,000 readers. It does not run beside other tests: it counts goroutines.
func TestReadersLeaveNothing(t *testing.T) { eachStore(t, testReadersLeaveNothing) }

func testReadersLeaveNothing(t *testing.T, open opener) {
	readers := 10_000
	if testing.Short() {
		readers = 1000
	}
	f := start(t, open(t), Config{})
	f.mustSave(t, whole(working("t")))
	cycle := func(n int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				req := reading(forever)
				if i%2 == 0 {
					req.TaskId = fmt.Sprint("absent", i) // half of them wait for what never comes
				}
				if _, err := f.open(ctx, req); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	const batch = 500
	cycle(batch) // what the connection keeps for itself
	base := goleak.IgnoreCurrent()
	before := heap()
	for range readers / batch {
		cycle(batch)
	}
	if err := goleak.Find(base); err != nil {
		t.Error(err)
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap went from %d to %d KiB", before>>10, after>>10)
	}
}

// heap is what is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what pools hold goes in two steps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStalledReaders has readers that never take what is sent to them, over a log that is larger than what one of them may
// cost. That writes and another reader get through is shown by the test's end.
func TestStalledReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, events, size = 20, 256, 128 << 10
		// A window that is set does not grow, so that little of what is measured is what the client buffers.
		f := start(t, newStore(t), Config{}, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
		text := string(make([]byte, size))
		f.mustAppend(t, "t", text)
		live, err := f.open(t.Context(), reading(forever))
		if err != nil {
			t.Fatal(err)
		}
		var stalled []grpc.ServerStreamingClient[pb.ReadEventsResponse]
		for range readers {
			stream, err := f.ReadEvents(t.Context(), reading(forever))
			if err != nil {
				t.Fatal(err)
			}
			stalled = append(stalled, stream)
		}
		synctest.Wait()
		before := heap()
		for range events - 1 {
			f.mustAppend(t, "t", text)
			if err := live.next(); err != nil {
				t.Fatal(err)
			}
		}
		live.events = nil
		synctest.Wait()
		const log, each = events * size, 2 << 20
		if grown := int64(heap()) - int64(before) - log; grown > readers*each {
			t.Errorf("%d stalled readers take %d KiB, beside a log of %d KiB", readers, grown>>10, log>>10)
		}
		runtime.KeepAlive(stalled)
	})
}

func TestParallelAppends(t *testing.T) { eachStore(t, testParallelAppends) }

func testParallelAppends(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	const callers = 64
	seqs := make([]int64, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { seqs[i] = f.mustAppend(t, "t", "hi").GetLastSeq() })
	}
	wg.Wait()
	slices.Sort(seqs)
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("seqs %v", seqs)
		}
	}
}

func TestParallelSaves(t *testing.T) { eachStore(t, testParallelSaves) }

func testParallelSaves(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	f.mustSave(t, whole(working("t")))
	const callers = 64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			req := whole(working("t"))
			req.Precondition = &pb.Precondition{Condition: &pb.Precondition_Version{Version: 1}}
			_, errs[i] = f.Save(t.Context(), req)
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if meta := wantReason(t, err, backend.ErrVersionConflict); meta["current_version"] != "2" {
			t.Errorf("metadata %v", meta)
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}
