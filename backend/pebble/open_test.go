package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/a2a-taskstore/taskstore/backend"
)

func TestSecondOpenerIsRefused(t *testing.T) {
	t.Parallel()
	for name, fs := range map[string]vfs.FS{"disk": vfs.Default, "memory": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "db")
			first := open(t, Config{Dir: dir, FS: fs})
			if _, err := Open(Config{Dir: dir, FS: fs}); !errors.Is(err, ErrInUse) {
				t.Fatalf("got %v, want ErrInUse", err)
			}
			h := newHistory("a")
			r := newRand(1)
			if err := h.step(t.Context(), first, r); err != nil {
				t.Errorf("the first one, after that: %v", err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			second := open(t, Config{Dir: dir, FS: fs})
			checkAll(t, second, []*history{h}, []bounds{h.bounds()})
		})
	}
}

// secondProcess makes the test binary open the directory that it names.
const secondProcess = "TASKSTORE_TEST_SECOND_OPENER"

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(secondProcess); dir != "" {
		if _, err := Open(Config{Dir: dir}); errors.Is(err, ErrInUse) {
			os.Exit(42)
		}
		os.Exit(1)
	}
	dir := t.TempDir()
	open(t, Config{Dir: dir})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondProcessIsRefused$")
	cmd.Env = append(os.Environ(), secondProcess+"="+dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 42 {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestFormatIsChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		key, value []byte
		text       string // of the error; "" is none
	}{
		"nothing":         {},
		"this version":    {key: formatKey, value: appendFormat(nil, formatVersion)},
		"a newer version": {key: formatKey, value: appendFormat(nil, formatVersion+1), text: "use a newer release"},
		"an unreadable version": {
			key: formatKey, value: append(appendFormat(nil, formatVersion), 0), text: "cannot be read",
		},
		"version 0":       {key: formatKey, value: appendFormat(nil, 0), text: "cannot be read"},
		"another program": {key: []byte("a"), value: []byte("b"), text: "another program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			db := must(pebble.Open("db", &pebble.Options{
				FS: fs, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: logger{newFault(slog.New(slog.DiscardHandler))},
			}))
			if tt.key != nil {
				if err := db.Set(tt.key, tt.value, pebble.Sync); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a refusal leaves nothing, not even a lock
				s, err := Open(Config{Dir: "db", FS: fs})
				switch {
				case tt.text == "":
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				case !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.text):
					t.Fatalf("got %v, want %q", err, tt.text)
				}
			}
		})
	}
}

// A release of Pebble that writes something newer is refused by Pebble itself.
func TestNewerPebbleIsRefused(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("db", 0o755); err != nil {
		t.Fatal(err)
	}
	f := must(fs.Create("db/marker.format-version.000099.999", vfs.WriteCategoryUnspecified))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(Config{Dir: "db", FS: fs}); err == nil {
		t.Fatal("opened", s.Close())
	}
}

func TestDirectoriesAreTheOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, backup := filepath.Join(dir, "db"), filepath.Join(dir, "backup")
	if err := open(t, Config{Dir: db}).Checkpoint(backup); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{db, backup} {
		if mode := must(os.Stat(name)).Mode().Perm(); mode != 0o700 {
			t.Errorf("%s has mode %o", filepath.Base(name), mode)
		}
	}
}

// A directory that cannot be had is the caller's to report, not a store that broke.
func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	for _, dir := range []string{file, filepath.Join(file, "db")} {
		_, err := Open(Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err == nil || errors.Is(err, backend.ErrBroken) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line about the directory", err)
		}
	}
	if n := log.count("level="); n != 0 {
		t.Errorf("%d lines were logged", n)
	}
}

func TestCheckpointUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: filepath.Join(dir, "db"), MemTableBytes: 64 << 10})
	hs := newHistories(8)
	l := startLoad(t.Context(), s, 1, hs, 2)
	for _, name := range []string{"first", "second", "third"} {
		hs[0].await(50)
		before := allBounds(hs)
		if err := s.Checkpoint(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		copied := open(t, Config{Dir: filepath.Join(dir, name), MemTableBytes: 64 << 10})
		checkAll(t, copied, hs, before)
		if err := newHistory("more").step(t.Context(), copied, newRand(2)); err != nil {
			t.Error(err)
		}
	}
	if errs := l.end(); len(errs) > 0 {
		t.Error(errs)
	}
	if err := s.Checkpoint(filepath.Join(dir, "first")); err == nil {
		t.Error("a directory that exists was overwritten")
	}
	checkAll(t, s, hs, allBounds(hs))
}

// The log is copied slowly while writers are at it, many times its read size: what the copy has passed must not change
// behind it, nor what it has not reached become newer than what it has.
func TestCheckpointOfALogThatGrows(t *testing.T) {
	t.Parallel()
	slow := errorfs.Wrap(vfs.NewMem(), errorfs.RandomLatency(readsOfLogs{}, 2*time.Millisecond, 1, 0))
	s := open(t, Config{Dir: "db", FS: slow, MemTableBytes: 1 << 20})
	hs := newHistories(8)
	l := startLoad(t.Context(), s, 1, hs, 0)
	for i := range 10 {
		hs[0].await(50)
		before := allBounds(hs)
		dir := fmt.Sprintf("copy-%d", i)
		if err := s.Checkpoint(dir); err != nil {
			t.Fatal(err)
		}
		copied := open(t, Config{Dir: dir, FS: slow})
		checkAll(t, copied, hs, before)
	}
	if errs := l.end(); len(errs) > 0 {
		t.Error(errs)
	}
}

// readsOfLogs is the predicate of reads of write-ahead logs.
type readsOfLogs struct{}

func (readsOfLogs) String() string { return "reads of logs" }

func (readsOfLogs) Evaluate(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileRead && strings.HasSuffix(op.Path, ".log")
}

// The disk that the copy goes to is full: that is no reason to stop.
func TestFailedCheckpointLeavesTheStoreAlone(t *testing.T) {
	t.Parallel()
	full := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasPrefix(op.Path, "elsewhere") && op.Kind == errorfs.OpFileWrite {
			return errors.New("disk full")
		}
		return nil
	})
	s := open(t, Config{Dir: "db", FS: errorfs.Wrap(vfs.NewMem(), full)})
	h := newHistory("a")
	for range 2 {
		if err := h.step(t.Context(), s, newRand(3)); err != nil {
			t.Fatal(err)
		}
		if err := s.Checkpoint("elsewhere"); err == nil {
			t.Fatal("the checkpoint was written")
		}
	}
	checkAll(t, s, []*history{h}, []bounds{h.bounds()})
}

// What cannot be read for now is no fault of the store; what was read and is wrong is one.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	hs := newHistories(20)
	s := open(t, Config{Dir: "db", FS: fs})
	for _, h := range hs {
		for range 10 {
			if err := h.step(t.Context(), s, newRand(4)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}

	var failing errorfs.Toggle
	failing.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			return errors.New("no answer")
		}
		return nil
	})
	s = open(t, Config{Dir: "db", FS: errorfs.Wrap(fs, &failing), CacheBytes: 1})
	failing.On()
	if err := s.Verify(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("unreadable: %v", err)
	}
	failing.Off()
	checkAll(t, s, hs, allBounds(hs))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	for _, name := range must(fs.List("db")) {
		if strings.HasSuffix(name, ".sst") {
			flipBit(t, fs, "db/"+name)
		}
	}
	s = open(t, Config{Dir: "db", FS: fs})
	if err := s.Verify(t.Context()); !errors.Is(err, backend.ErrBroken) {
		t.Errorf("corrupt: %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, backend.ErrBroken) {
		t.Errorf("ping after that: %v", err)
	}
}

// flipBit damages a table in the middle of its data.
func flipBit(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	f := must(fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified))
	at := must(f.Stat()).Size() / 2
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
