package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// open opens a log, which the test closes, unless it did.
func open(t *testing.T, cfg Config) *Log {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closed(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func write(l *Log, task string) {
	e := NewEntry()
	e.Task = task
	l.Write(e)
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// tasks reads the lines of a file, and returns the tasks that they name; "lost N" stands for a gap.
func tasks(t *testing.T, path string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct {
			Msg, Task string
			Lost      int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if l.Lost > 0 {
			l.Task = "lost " + strconv.Itoa(l.Lost)
		}
		out = append(out, l.Task)
	}
	return out
}

func TestLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Config{Path: path})
	empty := ""
	e := NewEntry()
	e.RequestID, e.Principal, e.Peer, e.Method = "r", "p", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}, "Save"
	e.Scoped, e.Owner, e.Task, e.Key, e.Version = true, &empty, "a \"\n\x00 task", "k", 3
	e.Code, e.Reason, e.Result = codes.Aborted, backend.ErrVersionConflict, "REPLAYED"
	l.Write(e)
	l.Write(NewEntry()) // nothing is left of the one before
	closed(t, l)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	_, line, _ := strings.Cut(lines[0], `,"level"`)
	want := `:"INFO","msg":"audit","method":"Save","code":"Aborted","reason":"VERSION_CONFLICT","result":"REPLAYED","principal":"p",` +
		`"tenant":"","owner":"","task":"a \"\n\u0000 task","key":"k","version":3,"request_id":"r","peer":"127.0.0.1:7"}`
	if line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	if _, line, _ = strings.Cut(lines[1], `,"level"`); line != `:"INFO","msg":"audit","code":"OK"}` {
		t.Errorf("an empty entry: %s", line)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if stats := l.Stats(); stats != (Stats{Lines: 2}) {
		t.Errorf("stats %+v", stats)
	}
}

func TestLinesOfConcurrentCallsAreWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Config{Path: path})
	const callers, each = 16, 200
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for j := range each {
				write(l, strings.Repeat("x", 50)+strconv.Itoa(i*each+j))
			}
		})
	}
	group.Wait()
	closed(t, l)
	seen := make(map[string]bool)
	for _, task := range tasks(t, path) {
		seen[task] = true
	}
	if len(seen) != callers*each {
		t.Errorf("%d lines of %d", len(seen), callers*each)
	}
}

func TestAppendsAndEndsALineThatWasCutOff(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte("{}\n{\"cut"), 0o640); err != nil {
		t.Fatal(err)
	}
	l := open(t, Config{Path: path})
	write(l, "next")
	closed(t, l)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 4 || lines[0] != "{}" || lines[1] != `{"cut` || !strings.Contains(lines[2], `"task":"next"`) {
		t.Errorf("%q", lines)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, old := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1")
	l := open(t, Config{Path: path})
	write(l, "one")
	eventually(t, "the first line", func() bool { return l.Stats().Lines == 1 })
	if err := os.Rename(path, old); err != nil {
		t.Fatal(err)
	}
	write(l, "two")
	eventually(t, "the second line", func() bool { return l.Stats().Lines == 2 })
	if got := tasks(t, old); len(got) != 1 || got[0] != "one" {
		t.Errorf("the renamed file: %v", got)
	}
	if got := tasks(t, path); len(got) != 1 || got[0] != "two" {
		t.Errorf("the new file: %v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(l, "three")
	closed(t, l)
	if got := tasks(t, path); len(got) != 1 || got[0] != "three" {
		t.Errorf("after it was removed: %v", got)
	}
}

func TestOpenFailsForWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if _, err := Open(Config{Path: filepath.Join(t.TempDir(), "absent", "audit.log")}); err == nil {
		t.Error("a directory that is not there will do")
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	var off *Log
	for _, c := range []struct {
		log         *Log
		read, write bool
	}{{off, false, false}, {&Log{calls: Writes}, false, true}, {&Log{calls: All}, true, true}} {
		if c.log.Wants(auth.Read) != c.read || c.log.Wants(auth.Write) != c.write {
			t.Errorf("%+v wants read %v, write %v", c.log, c.log.Wants(auth.Read), c.log.Wants(auth.Write))
		}
		if err := c.log.Ready(auth.Write); err != nil {
			t.Errorf("%+v: %v", c.log, err)
		}
	}
}

// lockedBuffer is written and read by several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
