package a2astore

import (
	"context"
	"errors"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/a2aproject/a2a-go/v2/log"

	"github.com/a2a-taskstore/taskstore/client"
)

// storeError is an error for a2a-go, which shows its text to A2A clients and picks their error code by the sentinels in
// the chain. So the text has nothing of the network between here and the service, and the chain has one sentinel of
// a2a-go and nothing that carries a gRPC status.
type storeError struct {
	text  string
	kinds []error
}

func (e *storeError) Error() string   { return "task store: " + e.text }
func (e *storeError) Unwrap() []error { return e.kinds }

// kinds maps what the client reports to what a2a-go looks for; the first match counts.
//
// TERMINAL_STATE is a concurrent modification: somebody else has ended the task since the caller read it. On that a2a-go
// reads the task again and ends its execution with the state found there. On any other error it would try to store FAILED,
// which the service refuses for the same reason, and report a failure of the store instead of the task.
var kinds = []struct {
	client, sdk error
	text        string // instead of the service's, where that is not the service's at all
}{
	{client.ErrNotFound, a2a.ErrTaskNotFound, "task not found"},
	{client.ErrAlreadyExists, taskstore.ErrTaskAlreadyExists, ""},
	{client.ErrVersionConflict, taskstore.ErrConcurrentModification, ""},
	{client.ErrTerminalState, taskstore.ErrConcurrentModification, ""},
	{client.ErrContextMismatch, a2a.ErrInvalidParams, ""},
	{client.ErrTooLarge, a2a.ErrInvalidParams, ""},
	{client.ErrInvalidArgument, a2a.ErrInvalidRequest, ""},
	{client.ErrUnauthenticated, a2a.ErrUnauthenticated, "unauthenticated"},
	{client.ErrPermissionDenied, a2a.ErrUnauthorized, "permission denied"},
	{client.ErrResourceExhausted, a2a.ErrServerError, "resource exhausted"},
	{client.ErrUnavailable, a2a.ErrServerError, "unavailable"},
	{client.ErrClosed, a2a.ErrServerError, "client closed"},
}

// readError translates an error of the client for a read, which ends with the caller's context.
func readError(ctx context.Context, op string, err error) error {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			return &storeError{cause.Error(), []error{cause}}
		}
	}
	return sdkError(ctx, op, err)
}

// writeError translates an error of the client for a write, whose context is the store's own: that its time is over is an
// outage, and says nothing about the caller's deadline.
func writeError(ctx context.Context, op string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn(ctx, "task store call failed", "op", op, "error", err)
		return &storeError{"unavailable", []error{a2a.ErrServerError, client.ErrUnavailable}}
	}
	return sdkError(ctx, op, err)
}

// sdkError translates what the service, or the client on its behalf, said. What nobody can act on is logged here, as the
// text leaves the cause out.
func sdkError(ctx context.Context, op string, err error) error {
	if badPageToken(err) {
		return &storeError{"invalid page token", []error{a2a.ErrParseError, client.ErrInvalidArgument}}
	}
	for _, k := range kinds {
		if !errors.Is(err, k.client) {
			continue
		}
		text := k.text
		if text == "" {
			text = serviceText(err)
		}
		if k.sdk == a2a.ErrServerError {
			log.Warn(ctx, "task store call failed", "op", op, "error", err)
		}
		return &storeError{text, []error{k.sdk, k.client}}
	}
	log.Warn(ctx, "task store call failed", "op", op, "error", err)
	return &storeError{"internal error", []error{a2a.ErrInternalError}}
}

// serviceText is what the service says to its callers, which is fit for anybody's eyes.
func serviceText(err error) string {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return strings.ToValidUTF8(err.Error(), "?")
	}
	text := e.Message
	for _, v := range e.Violations {
		if strings.Contains(text, v.Description) {
			continue // the message names the first one
		}
		text += "; " + v.Field + ": " + v.Description
	}
	return strings.ToValidUTF8(text, "?")
}

// identityError is the error of an authenticator, of which only the text and what a2a-go knows stay.
func identityError(err error) error {
	kind := a2a.ErrUnauthenticated
	for _, known := range []error{a2a.ErrUnauthorized, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			kind = known
		}
	}
	return &storeError{"authentication failed: " + strings.ToValidUTF8(err.Error(), "?"), []error{kind}}
}

// invalid is the error of a request that is wrong in itself.
func invalid(kind error, text string) error {
	return &storeError{text, []error{kind}}
}

func badPageToken(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || !errors.Is(e, client.ErrInvalidArgument) {
		return false
	}
	for _, v := range e.Violations {
		if v.Field == "page_token" {
			return true
		}
	}
	return false
}
