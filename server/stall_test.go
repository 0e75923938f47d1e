package server

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/client"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// smallWindows do not grow, so that what a client buffers is little.
func smallWindows() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithInitialWindowSize(64 << 10), grpc.WithInitialConnWindowSize(64 << 10)}
}

// stall opens readers, each on a connection of its own, that take nothing.
func (f *fixture) stall(ctx context.Context, t *testing.T, readers int) (streams []grpc.ServerStreamingClient[pb.ReadEventsResponse]) {
	t.Helper()
	for range readers {
		stream, err := pb.NewTaskStoreServiceClient(f.connect(t, smallWindows()...)).ReadEvents(ctx, reading(forever))
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	return streams
}

// copyingStore gives every reader its own copy of what it reads, as stores do that do not keep it in memory.
type copyingStore struct{ backend.Store }

func (s copyingStore) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	page, err := s.Store.ReadLog(ctx, req)
	for i := range page.Events {
		page.Events[i].Bytes = bytes.Clone(page.Events[i].Bytes)
	}
	return page, err
}

// TestStalledReadersOfLargeEvents shows that the memory of frames is bounded however many readers stall, that others get
// theirs all the same, and how the stalled ones end.
func TestStalledReadersOfLargeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, events, size, buffer = 40, 6, 4 << 20, 16 << 20
		f := start(t, copyingStore{newStore(t)}, Config{Limits: Limits{StreamBytes: buffer, StallTimeout: time.Minute}})
		text := strings.Repeat("x", size)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stalled := f.stall(ctx, t, readers)
		synctest.Wait()
		before := heap() // with the buffers of the connections
		for range events {
			f.mustAppend(t, "t", text)
		}
		time.Sleep(time.Second) // until all were woken
		if used := f.server.admit.frames.Used(); used > buffer || used < buffer-2*size {
			t.Errorf("%d MiB of frames are counted, of %d MiB", used>>20, buffer>>20)
		}
		const log, each = events * size, 256 << 10
		if grown := int64(heap()) - int64(before); grown > log+buffer+readers*each {
			t.Errorf("%d stalled readers take %d MiB, beside a log of %d MiB", readers, (grown-log)>>20, log>>20)
		}

		began := time.Now()
		live, err := f.open(t.Context(), reading(pb.ReadUntil_READ_UNTIL_HEAD))
		if err != nil {
			t.Fatal(err)
		}
		if err := live.drain(); err != nil || len(live.events) != events {
			t.Fatalf("a live reader beside them: %d events, %v", len(live.events), err)
		}
		if took := time.Since(began); took > time.Hour {
			t.Errorf("a live reader waited %v", took)
		}
		live = nil
		time.AfterFunc(10*time.Minute, cancel) // of those who hold nothing that others wait for
		ends := map[codes.Code]int{}
		for _, stream := range stalled {
			var err error
			for err == nil {
				_, err = stream.Recv()
			}
			if ends[status.Code(err)]++; status.Code(err) == codes.ResourceExhausted {
				wantLimit(t, err, limit.ErrStalled, limit.OfServer, true)
			}
		}
		if ends[codes.ResourceExhausted]+ends[codes.Unavailable] == 0 {
			t.Errorf("the stalled readers ended with %v", ends)
		}
	})
}

// TestStalledReaderResumes stalls for longer than a reader may, and then goes on without loss or repetition.
func TestStalledReaderResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events, size = 12, 1 << 20
		f := start(t, newStore(t), Config{Limits: Limits{StreamBytes: 2 << 20, StallTimeout: time.Minute}})
		c, err := client.Dial("passthrough:bufconn", client.WithInsecure(),
			client.WithDialOptions(append(smallWindows(), grpc.WithContextDialer(f.dial))...))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range events {
			f.mustAppend(t, "t", strings.Repeat("x", size))
		}
		last, breaks := int64(0), 0
		for event, err := range c.Follow(t.Context(), reading(pb.ReadUntil_READ_UNTIL_HEAD), client.MaxOutage(0), client.OnBreak(func(error) { breaks++ })) {
			if err != nil {
				t.Fatal(err)
			}
			if event.GetSeq() != last+1 {
				t.Fatalf("event %d after %d", event.GetSeq(), last)
			}
			last++
			f.stall(t.Context(), t, 3) // who see to it that somebody waits
			time.Sleep(5 * time.Minute)
		}
		if last != events || breaks == 0 {
			t.Errorf("%d events, %d resumes", last, breaks)
		}
	})
}
