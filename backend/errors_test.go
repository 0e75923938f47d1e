package backend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		reason backend.Reason
		text   string
	}{
		{backend.Invalid("events[1]", "has %d payloads", 2), backend.ErrInvalid, "events[1]: has 2 payloads"},
		{backend.Unavailable("closing", context.Canceled), backend.ErrUnavailable, "closing"},
		{backend.Broken("a sync failed", context.Canceled), backend.ErrBroken, "a sync failed"},
		{fmt.Errorf("saving: %w", &backend.Error{Reason: backend.ErrTaskExists, Detail: "x"}), backend.ErrTaskExists, "saving: x"},
		{fmt.Errorf("saving: %w", backend.ErrClaimLost), backend.ErrClaimLost, "saving: CLAIM_LOST"},
		{context.Canceled, "", "context canceled"},
	} {
		if got := backend.ReasonOf(tc.err); got != tc.reason {
			t.Errorf("%v: reason %q, want %q", tc.err, got, tc.reason)
		}
		if got := tc.err.Error(); got != tc.text { // the cause is not for callers
			t.Errorf("text %q, want %q", got, tc.text)
		}
		if tc.reason != "" && (!errors.Is(tc.err, tc.reason) || errors.Is(tc.err, backend.ErrVersionConflict)) {
			t.Errorf("%v is not (only) %s", tc.err, tc.reason)
		}
	}
	if !errors.Is(backend.Broken("a sync failed", context.Canceled), context.Canceled) {
		t.Error("the cause is lost")
	}
	if got := backend.ReasonOf(nil); got != "" {
		t.Errorf("no error has the reason %q", got)
	}
}
