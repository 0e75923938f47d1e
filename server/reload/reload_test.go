package reload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRefresh goes through what may happen to two files.
func TestRefresh(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write := func(path, text string) func() {
		return func() {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func() {
		if err := os.Remove(b); err != nil {
			t.Fatal(err)
		}
	}
	parsed := 0
	parse := func(contents [][]byte) (*string, error) {
		parsed++
		text := string(contents[0]) + string(contents[1])
		if strings.Contains(text, "bad") {
			return nil, errors.New("bad")
		}
		return &text, nil
	}
	write(a, "1")()
	if _, err := Open(parse, a, b); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("without one of the files: %v", err)
	}
	write(b, "2")()
	v, err := Open(parse, a, b)
	if err != nil || *v.Load() != "12" {
		t.Fatalf("%v, %v", v, err)
	}
	nothing := func() {}
	for i, step := range []struct {
		change  func()
		changed bool
		failed  bool
		value   string
		failing bool
	}{
		{nothing, false, false, "12", false},
		{write(b, "3"), true, false, "13", false},
		{write(a, "bad"), false, true, "13", true},
		{nothing, false, false, "13", true},      // said once
		{write(b, "4"), false, true, "13", true}, // bad in another way
		{remove, false, true, "13", true},
		{nothing, false, false, "13", true},
		{write(b, "4"), false, true, "13", true},
		{write(a, "5"), true, false, "54", false},
		{nothing, false, false, "54", false},
		{write(a, "bad"), false, true, "54", true},
		{write(a, "5"), true, false, "54", false}, // back to what is in use
	} {
		step.change()
		changed, err := v.Refresh()
		if changed != step.changed || (err != nil) != step.failed || *v.Load() != step.value || v.Stats().Failing != step.failing {
			t.Errorf("step %d: changed %v, error %v, value %q, %+v", i, changed, err, *v.Load(), v.Stats())
		}
	}
	if got, want := v.Stats(), (Stats{Loads: 4, Failures: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if parsed != 8 {
		t.Errorf("parsed %d times: also what had not changed", parsed)
	}
}

func TestNotEveryPathIsRead(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFile+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{large, t.TempDir(), os.DevNull} {
		_, err := Open(func([][]byte) (*int, error) { return new(int), nil }, path)
		if err == nil {
			t.Errorf("%s is read", path)
		}
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		steps := 0
		Every(ctx, time.Second, func() { steps++ })
		if steps != 3 {
			t.Errorf("%d steps in 3.5 s, want one a second", steps)
		}
	})
}
