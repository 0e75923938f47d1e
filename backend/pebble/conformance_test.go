package pebble_test

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/backendtest"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
)

// verified checks that everything in the store fits together when a scenario is over.
type verified struct {
	*pebble.Store
	tb testing.TB
}

// Close is the Store's.
func (s verified) Close() error {
	// The test's context has ended by now. A scenario may have closed the store itself.
	if err := s.Verify(context.WithoutCancel(s.tb.Context())); err != nil && backend.ReasonOf(err) != backend.ErrUnavailable {
		s.tb.Errorf("verify: %v", err)
	}
	return s.Store.Close()
}

func harness(fs func() vfs.FS) backendtest.Harness {
	return backendtest.Harness{Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
		s, err := pebble.Open(pebble.Config{
			Dir: tb.TempDir(), FS: fs(), Limits: opt.Limits, Now: opt.Now,
			MemTableBytes: 256 << 10, CacheBytes: 1 << 20,
		})
		if err != nil {
			tb.Fatal(err)
		}
		return verified{s, tb}
	}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, harness(func() vfs.FS { return vfs.NewMem() }))
}

func TestConformanceOnDisk(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, harness(func() vfs.FS { return vfs.Default }))
}
