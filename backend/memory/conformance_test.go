package memory_test

import (
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/backendtest"
	"github.com/a2a-taskstore/taskstore/backend/memory"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{
		Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
			s, err := memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: opt.Limits, Now: opt.Now})
			if err != nil {
				tb.Fatal(err)
			}
			return s
		},
	})
}
