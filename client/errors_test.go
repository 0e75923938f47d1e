package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/a2a-taskstore/taskstore/client"
)

// failWith is what the client makes of an error of the server.
func failWith(t *testing.T, err error) *client.Error {
	t.Helper()
	var e *client.Error
	bubble(t, func(t *testing.T, f *fake, n *network) {
		f.before = func(context.Context, string, int) error { return err }
		_, got := connect(t, n, client.WithMaxAttempts(1)).Save(t.Context(), put("t"))
		if !errors.As(got, &e) {
			t.Fatalf("error %#v is no *client.Error", got)
		}
	})
	return e
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	all := []error{
		client.ErrNotFound, client.ErrAlreadyExists, client.ErrVersionConflict, client.ErrBasePartsConflict,
		client.ErrSeqConflict, client.ErrTerminalState, client.ErrContextMismatch, client.ErrClaimLost,
		client.ErrClaimTaskMismatch, client.ErrKeyBound, client.ErrArtifactUnknown, client.ErrArtifactAmbiguous,
		client.ErrSeqNotWritten, client.ErrLogRange, client.ErrInvalidArgument, client.ErrTooLarge,
		client.ErrResourceExhausted, client.ErrUnauthenticated, client.ErrPermissionDenied, client.ErrUnavailable,
		client.ErrClosed, context.Canceled, context.DeadlineExceeded,
	}
	tests := []struct {
		code   codes.Code
		reason string // "" for an error that the store did not make
		want   []error
	}{
		{codes.NotFound, "TASK_NOT_FOUND", []error{client.ErrNotFound}},
		{codes.AlreadyExists, "TASK_EXISTS", []error{client.ErrAlreadyExists}},
		{codes.Aborted, "VERSION_CONFLICT", []error{client.ErrVersionConflict}},
		{codes.Aborted, "BASE_PARTS_CONFLICT", []error{client.ErrBasePartsConflict}},
		{codes.Aborted, "SEQ_CONFLICT", []error{client.ErrSeqConflict}},
		{codes.FailedPrecondition, "TERMINAL_STATE", []error{client.ErrTerminalState}},
		{codes.FailedPrecondition, "CONTEXT_MISMATCH", []error{client.ErrContextMismatch}},
		{codes.FailedPrecondition, "CLAIM_LOST", []error{client.ErrClaimLost}},
		{codes.FailedPrecondition, "CLAIM_TASK_MISMATCH", []error{client.ErrClaimTaskMismatch}},
		{codes.FailedPrecondition, "KEY_BOUND", []error{client.ErrKeyBound}},
		{codes.FailedPrecondition, "ARTIFACT_UNKNOWN", []error{client.ErrArtifactUnknown}},
		{codes.FailedPrecondition, "ARTIFACT_AMBIGUOUS", []error{client.ErrArtifactAmbiguous}},
		{codes.FailedPrecondition, "SEQ_NOT_WRITTEN", []error{client.ErrSeqNotWritten}},
		{codes.FailedPrecondition, "OF_A_LATER_VERSION", nil},
		{codes.OutOfRange, "LOG_RANGE", []error{client.ErrLogRange}},
		{codes.InvalidArgument, "ANY", []error{client.ErrInvalidArgument}},
		{codes.ResourceExhausted, "TASK_TOO_LARGE", []error{client.ErrTooLarge, client.ErrResourceExhausted}},
		{codes.ResourceExhausted, "MEMORY_LIMIT", []error{client.ErrResourceExhausted}},
		{codes.Unauthenticated, "ANY", []error{client.ErrUnauthenticated}},
		{codes.PermissionDenied, "ANY", []error{client.ErrPermissionDenied}},
		{codes.Unavailable, "DRAINING", []error{client.ErrUnavailable}},
		{codes.Internal, "ANY", nil},
		{codes.Unauthenticated, "", []error{client.ErrUnauthenticated}},
		{codes.Unavailable, "", []error{client.ErrUnavailable}},
		{codes.Aborted, "", nil},
		{codes.Unknown, "", nil},
		// Neither was the caller's doing.
		{codes.Canceled, "", []error{client.ErrUnavailable}},
		{codes.DeadlineExceeded, "", []error{client.ErrUnavailable}},
	}
	for _, tt := range tests {
		t.Run(tt.code.String()+" "+tt.reason, func(t *testing.T) {
			t.Parallel()
			from := status.Error(tt.code, "text")
			if tt.reason != "" {
				from = problem(tt.code, tt.reason, nil)
			}
			e := failWith(t, from)
			err := fmt.Errorf("while working: %w", e)
			var got []error
			for _, sentinel := range all {
				if errors.Is(err, sentinel) {
					got = append(got, sentinel)
				}
			}
			if diff := cmp.Diff(errorTexts(tt.want), errorTexts(got)); diff != "" {
				t.Errorf("sentinels (-want +got):\n%s", diff)
			}
			if e.Reason != tt.reason || e.Op != "Save" || e.Attempts != 1 {
				t.Errorf("%#v", e)
			}
			// status.FromError looks through wrapping for a status.
			if st, ok := status.FromError(err); ok {
				t.Errorf("the error carries the status %v", st)
			}
			var carrier interface{ GRPCStatus() *status.Status }
			if errors.As(err, &carrier) {
				t.Errorf("the error wraps %T, which carries a status", carrier)
			}
		})
	}
}

func errorTexts(errs []error) map[string]bool {
	texts := map[string]bool{}
	for _, err := range errs {
		texts[err.Error()] = true
	}
	return texts
}

func TestErrorDetails(t *testing.T) {
	t.Parallel()
	t.Run("numbers", func(t *testing.T) {
		t.Parallel()
		metadata := map[string]string{"current_version": "7", "earliest_seq": "3", "last_seq": "12"}
		e := failWith(t, problem(codes.Aborted, "VERSION_CONFLICT", metadata))
		if diff := cmp.Diff(metadata, e.Metadata); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		for name, tt := range map[string]struct {
			get  func() (int64, bool)
			want int64
		}{
			"CurrentVersion": {e.CurrentVersion, 7}, "EarliestSeq": {e.EarliestSeq, 3}, "LastSeq": {e.LastSeq, 12},
		} {
			if got, ok := tt.get(); got != tt.want || !ok {
				t.Errorf("%s: %d, %t, want %d", name, got, ok, tt.want)
			}
		}
	})
	t.Run("no numbers", func(t *testing.T) {
		t.Parallel()
		e := failWith(t, problem(codes.Aborted, "VERSION_CONFLICT", map[string]string{"current_version": "x"}))
		if n, ok := e.CurrentVersion(); ok {
			t.Errorf("version %d", n)
		}
		if n, ok := e.LastSeq(); ok {
			t.Errorf("last seq %d", n)
		}
	})
	t.Run("violations", func(t *testing.T) {
		t.Parallel()
		e := failWith(t, problem(codes.InvalidArgument, "INVALID", nil, &errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "task.id", Description: "is empty"}},
		}))
		if diff := cmp.Diff([]client.FieldViolation{{Field: "task.id", Description: "is empty"}}, e.Violations); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if want := "taskstore: Save: INVALID: invalid; task.id: is empty"; e.Error() != want {
			t.Errorf("text %q, want %q", e, want)
		}
	})
	t.Run("of somebody else", func(t *testing.T) {
		t.Parallel()
		st, err := status.New(codes.FailedPrecondition, "no").WithDetails(&errdetails.ErrorInfo{
			Domain: "proxy.example", Reason: "TERMINAL_STATE", Metadata: map[string]string{"last_seq": "1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		e := failWith(t, st.Err())
		if e.Reason != "" || e.Metadata != nil || errors.Is(e, client.ErrTerminalState) {
			t.Errorf("%#v takes a stranger's reason for the store's", e)
		}
	})
}
