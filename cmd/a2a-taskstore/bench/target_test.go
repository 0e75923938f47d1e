package bench

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
	"github.com/a2a-taskstore/taskstore/server"
)

// TestDirectDoesWhatTheServerDoes plays all kinds of writes on two stores, one behind a server, and compares them.
func TestDirectDoesWhatTheServerDoes(t *testing.T) {
	t.Parallel()
	stores := [2]backend.Store{}
	for i := range stores {
		var err error
		if stores[i], err = memory.Open(memory.Config{MaxBytes: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stores[i].Close() })
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(stores[0], server.Config{Logger: slog.New(slog.DiscardHandler)})
	go srv.Serve(listener)
	t.Cleanup(func() { srv.Shutdown(context.Background()) })
	r, err := dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.conn.Close() })
	targets := [2]*target{{api: r, tenant: "t"}, {api: direct{stores[1]}, tenant: "t"}}

	at := time.Now()
	for i, tg := range targets {
		status := status(working, at.Add(time.Second))
		part := textParts("more")
		event := statusEvent(taskName(1), contextOf(1), status)
		for _, req := range []*wirev1.SaveRequest{
			tg.whole(taskName(1), contextOf(1), working, at, body(500)),
			tg.change(&wirev1.TaskDelta{TaskId: taskName(1), Status: [][]byte{encode(status)}}, event),
			tg.change(&wirev1.TaskDelta{TaskId: taskName(1), AppendParts: &wirev1.AppendParts{
				ArtifactId: artifactID, Parts: [][]byte{encode(part[0])}, BaseParts: proto.Int32(1),
			}}, chunkEvent(taskName(1), contextOf(1), part)),
			tg.change(&wirev1.TaskDelta{
				TaskId: taskName(1), AppendHistory: [][]byte{encode(message("a", 10)), encode(message("b", 10))}, MaxHistory: proto.Int32(1),
			}, event),
		} {
			if err := tg.save(t.Context(), req); err != nil {
				t.Fatalf("target %d: %v", i, err)
			}
		}
		if err := getTask(t.Context(), tg, 1); err != nil {
			t.Errorf("target %d: get: %v", i, err)
		}
		page, err := tg.list(t.Context(), &taskstorev1.ListRequest{Scope: tg.scope(), PageSize: proto.Int32(5)})
		if err != nil || len(page.GetTasks()) != 1 || page.GetTasks()[0].GetVersion() != 4 {
			t.Errorf("target %d: list: %v, %v", i, page, err)
		}
		for n, want := range []taskstorev1.ClaimOutcome{
			taskstorev1.ClaimOutcome_CLAIM_OUTCOME_CLAIMED, taskstorev1.ClaimOutcome_CLAIM_OUTCOME_REPLAY,
		} {
			if got, err := claimKey(t.Context(), tg, "key"); err != nil || got != want {
				t.Errorf("target %d: claim %d: %v, %v", i, n, got, err)
			}
		}
	}
	var got [2]backend.GetResult
	for i, s := range stores {
		if got[i], err = s.Get(t.Context(), &backend.GetRequest{
			Key: backend.Key{Tenant: "t", TaskID: taskName(1)}, Owner: backend.OwnerOf(owner), Extent: backend.All,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got[0].Task, got[1].Task) || got[0].Version != 4 || got[1].Version != 4 || got[0].LastSeq != got[1].LastSeq {
		t.Errorf("server: %+v\ndirect: %+v", got[0], got[1])
	}
}

func TestEchoAnswersWithWhatItWasGiven(t *testing.T) {
	t.Parallel()
	want := &wirev1.GetResponse{Task: []byte("some bytes"), Version: 7}
	e := newEcho(map[string][]byte{"Get": encode(want)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go e.Serve(listener)
	t.Cleanup(e.Stop)
	replies, err := recordReplies(t.Context(), listener.Addr().String(), func(ctx context.Context, api api) error {
		return api.get(ctx, &taskstorev1.GetRequest{TaskId: "x"})
	})
	if err != nil {
		t.Fatal(err)
	}
	got := &wirev1.GetResponse{}
	if err := proto.Unmarshal(replies["Get"], got); err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestBarePebbleWritesWhatTheStoreDoes compares the keys that a floor leaves with those that a store has for a task: as many
// are replaced.
func TestBarePebbleWritesWhatTheStoreDoes(t *testing.T) {
	t.Parallel()
	opened, err := openBarePebble(t.Context(), &place{Dir: filepath.Join(t.TempDir(), "bare"), Tenant: "t"})
	if err != nil {
		t.Fatal(err)
	}
	b := opened.(*barePebble)
	defer b.close()
	put := func(w *bareWrite, want int) {
		t.Helper()
		before := b.fs.written.Load()
		if err := b.put(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if wrote := b.fs.written.Load() - before; wrote < int64(len(w.task)+len(w.chunk)+len(w.event)) {
			t.Errorf("write %d: only %d bytes reached the file", w.n, wrote)
		}
		it, err := b.db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		keys := 0
		for it.First(); it.Valid(); it.Next() {
			keys++
		}
		if keys != want {
			t.Errorf("write %d: %d keys, want %d", w.n, keys, want)
		}
	}
	task, event := []byte("task"), []byte("event")
	put(&bareWrite{key: 1, n: 1, task: task, event: event}, 6)   // row, document, event, three of the index
	put(&bareWrite{key: 1, n: 2, task: task, event: event}, 7)   // one more event
	put(&bareWrite{key: 1, n: 3, chunk: task, event: event}, 10) // the artifact, its info, the event
	put(&bareWrite{key: 1, n: 4, chunk: task, event: event}, 11)
	put(&bareWrite{key: 2, n: 5, task: task, event: event}, 17)
}

func TestCountingFSCountsEveryWrite(t *testing.T) {
	t.Parallel()
	fs, dir := newCountingFS(), t.TempDir()
	write := func(f vfs.File, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(make([]byte, 100)); err != nil {
			t.Error(err)
		}
	}
	write(fs.Create(filepath.Join(dir, "a"), vfs.WriteCategoryUnspecified))
	write(fs.ReuseForWrite(filepath.Join(dir, "a"), filepath.Join(dir, "b"), vfs.WriteCategoryUnspecified))
	f, err := fs.OpenReadWrite(filepath.Join(dir, "b"), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 50), 10); err != nil {
		t.Error(err)
	}
	if got := fs.written.Load(); got != 250 {
		t.Errorf("counted %d bytes of 250", got)
	}
	if _, err := fs.Create(filepath.Join(dir, "no", "such"), vfs.WriteCategoryUnspecified); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file in no directory: %v", err)
	}
}
