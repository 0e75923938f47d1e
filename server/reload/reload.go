// Package reload keeps values that are made of files up to date while a server runs.
package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxFile bounds a file, in bytes: a path that leads to the wrong thing must not fill the memory.
const maxFile = 8 << 20

// Value is made of the contents of files, and made again when they have changed. When that fails, the last good one stays.
// Load may be called by any number of goroutines while another one refreshes.
type Value[T any] struct {
	paths   []string
	parse   func(contents [][]byte) (*T, error)
	current atomic.Pointer[T]

	mu       sync.Mutex
	contents [][]byte // of the latest attempt, nil if it could not read them
	failure  string   // of the latest attempt, "" if it went well

	loads, failures atomic.Int64
	failing         atomic.Bool
}

// Open makes the first value. parse gets the contents in the order of the paths, which it must not change; it runs in one
// goroutine at a time.
func Open[T any](parse func(contents [][]byte) (*T, error), paths ...string) (*Value[T], error) {
	v := &Value[T]{paths: paths, parse: parse}
	if _, err := v.Refresh(); err != nil {
		return nil, err
	}
	return v, nil
}

// Load returns the latest good value.
func (v *Value[T]) Load() *T { return v.current.Load() }

// Refresh reads the files, always in full, since a time stamp can stay while the content changes. It reports whether there is
// a new value. An error is returned once per change of the files, not again while they stay as bad as they are.
func (v *Value[T]) Refresh() (changed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	contents, err := read(v.paths)
	if err == nil {
		if v.contents != nil && slices.EqualFunc(contents, v.contents, bytes.Equal) {
			return false, nil
		}
		v.contents = contents
		var next *T
		if next, err = v.parse(contents); err == nil {
			v.current.Store(next)
			v.failure = ""
			v.loads.Add(1)
			v.failing.Store(false)
			return true, nil
		}
	} else {
		v.contents = nil
		if err.Error() == v.failure {
			return false, nil
		}
	}
	v.failure = err.Error()
	v.failures.Add(1)
	v.failing.Store(true)
	return false, err
}

// Every calls step at every interval, never twice at once, until ctx ends.
func Every(ctx context.Context, interval time.Duration, step func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			step()
		}
	}
}

// Stats are counters, for metrics.
type Stats struct {
	// Loads is how many values were made, Failures how many changes of the files could not be used.
	Loads, Failures int64
	// Failing says that the files are newer than the value, and bad.
	Failing bool
}

// Stats returns the counters.
func (v *Value[T]) Stats() Stats {
	return Stats{Loads: v.loads.Load(), Failures: v.failures.Load(), Failing: v.failing.Load()}
}

func read(paths []string) ([][]byte, error) {
	contents := make([][]byte, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is not a file", path)
		case info.Size() > maxFile:
			return nil, fmt.Errorf("%s: %w", path, errTooLarge)
		}
		if contents[i], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

var errTooLarge = errors.New("too large for a file of certificates or credentials")
