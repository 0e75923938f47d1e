package observe

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/backendtest"
	"github.com/a2a-taskstore/taskstore/backend/memory"
)

// A store that is watched is what it was.
func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Harness{
		Open: func(tb testing.TB, opt backendtest.Options) backend.Store {
			s, err := memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: opt.Limits, Now: opt.Now})
			if err != nil {
				tb.Fatal(err)
			}
			return Wrap(s, prometheus.NewRegistry())
		},
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{nil, ok},
		{backend.ErrTaskNotFound, refused},
		{&backend.Error{Reason: backend.ErrVersionConflict}, refused},
		{backend.Unavailable("away", nil), unavailable},
		{fmt.Errorf("save: %w", backend.ErrBroken), unavailable},
		{context.Canceled, canceled},
		{fmt.Errorf("save: %w", context.DeadlineExceeded), canceled},
		{errors.New("a fault"), fault},
	} {
		if got := outcomeOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, outcomeNames[got], outcomeNames[c.want])
		}
	}
}
