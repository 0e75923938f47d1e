package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// full is a path that leads to a full disk, until repair.
func full(t *testing.T) (path string, repair func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.log")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// While the disk is full, lines wait; then they are all there.
func TestLinesOutlastAFullDisk(t *testing.T) {
	t.Parallel()
	path, repair := full(t)
	var told lockedBuffer
	l := open(t, Config{Path: path, Required: true, Logger: slog.New(slog.NewTextHandler(&told, nil))})
	if err := l.Ready(auth.Write); err != nil {
		t.Errorf("before the first line: %v", err)
	}
	write(l, "0")
	eventually(t, "the failure", func() bool { return l.Stats().Failing })
	for i := range 10 {
		write(l, fmt.Sprint(i+1))
	}
	if err := l.Ready(auth.Write); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a write that must leave a line: %v", err)
	}
	if err := l.Ready(auth.Read); err != nil {
		t.Errorf("a read, which leaves none: %v", err)
	}
	repair()
	eventually(t, "the recovery", func() bool { return !l.Stats().Failing })
	if err := l.Ready(auth.Write); err != nil {
		t.Errorf("after the recovery: %v", err)
	}
	closed(t, l)
	if got := strings.Join(tasks(t, path), " "); got != "0 1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("lines: %s", got)
	}
	if stats := l.Stats(); stats != (Stats{Lines: 11}) {
		t.Errorf("stats %+v", stats)
	}
	if n := strings.Count(told.String(), "cannot be written"); n != 1 || !strings.Contains(told.String(), "written again") {
		t.Errorf("the outage is logged %d times:\n%s", n, told.String())
	}
}

// What finds no room is lost, counted, and missed in the log itself; memory stays bounded.
func TestLinesAreLostWhenTheDiskIsFullForTooLong(t *testing.T) {
	t.Parallel()
	path, repair := full(t)
	l := open(t, Config{Path: path})
	task := strings.Repeat("x", 10_000)
	writes := 0
	for l.Stats().Lost < 3 {
		write(l, task)
		if writes++; writes > maxQueued/len(task)+3 {
			t.Fatalf("%d lines of %d bytes and none is lost", writes, len(task))
		}
	}
	if !l.Stats().Failing {
		t.Error("lines are lost, and nothing fails")
	}
	repair()
	eventually(t, "the recovery", func() bool { return !l.Stats().Failing })
	write(l, "after")
	closed(t, l)
	got := tasks(t, path)
	if n := len(got); n != writes-3+2 || got[n-2] != "lost 3" || got[n-1] != "after" {
		t.Errorf("%d lines of %d writes, the last ones %.20q", n, writes, got[max(0, n-2):])
	}
	if lost := l.Stats().Lost; lost != 3 {
		t.Errorf("%d lines are counted as lost", lost)
	}
}

func TestCloseSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	path, _ := full(t)
	l := open(t, Config{Path: path})
	write(l, "1")
	write(l, "2")
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "2 lines") {
		t.Errorf("close: %v", err)
	}
	if lost := l.Stats().Lost; lost != 2 {
		t.Errorf("%d lines are counted as lost", lost)
	}
}
