package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// errorDomain is the domain of every ErrorInfo.
const errorDomain = "a2ataskstore"

// The reasons that the server adds to those of the backends.
const (
	// reasonDraining: the server is being shut down. Metadata: last_seq, where a stream of events ended.
	reasonDraining backend.Reason = "DRAINING"
	// reasonConnectionAge: the connection has come of age, and a stream on it ends. Metadata: last_seq.
	reasonConnectionAge backend.Reason = "CONNECTION_AGE"
	// reasonEventTooLarge: an event would not fit a message when it is read. Metadata: size, limit.
	reasonEventTooLarge backend.Reason = "EVENT_TOO_LARGE"
	// reasonMessageTooLarge: the request is larger than the server takes. Metadata: size, limit.
	reasonMessageTooLarge backend.Reason = "MESSAGE_TOO_LARGE"
)

// retryDelay is how long a caller should wait before it tries again what is UNAVAILABLE.
const retryDelay = 250 * time.Millisecond

// errorCodes is the error table: what each reason is in gRPC. Clients hold its inverse.
var errorCodes = map[backend.Reason]codes.Code{
	backend.ErrInvalid:           codes.InvalidArgument,
	backend.ErrTaskNotFound:      codes.NotFound,
	backend.ErrTaskExists:        codes.AlreadyExists,
	backend.ErrVersionConflict:   codes.Aborted,
	backend.ErrBasePartsConflict: codes.Aborted,
	backend.ErrSeqConflict:       codes.Aborted,
	backend.ErrTerminalState:     codes.FailedPrecondition,
	backend.ErrContextMismatch:   codes.FailedPrecondition,
	backend.ErrClaimLost:         codes.FailedPrecondition,
	backend.ErrClaimTaskMismatch: codes.FailedPrecondition,
	backend.ErrKeyBound:          codes.FailedPrecondition,
	backend.ErrArtifactUnknown:   codes.FailedPrecondition,
	backend.ErrArtifactAmbiguous: codes.FailedPrecondition,
	backend.ErrSeqNotWritten:     codes.FailedPrecondition,
	backend.ErrLogRange:          codes.OutOfRange,
	backend.ErrTaskTooLarge:      codes.ResourceExhausted,
	backend.ErrMemoryLimit:       codes.ResourceExhausted,
	backend.ErrUnavailable:       codes.Unavailable,
	// Not INTERNAL, which means a bug: a caller does well to try again, and finds the store opened again, or a replica.
	backend.ErrBroken:     codes.Unavailable,
	auth.ErrMissing:       codes.Unauthenticated,
	auth.ErrInvalid:       codes.Unauthenticated,
	auth.ErrExpired:       codes.Unauthenticated,
	auth.ErrTenant:        codes.PermissionDenied,
	auth.ErrOwnerUnset:    codes.PermissionDenied,
	auth.ErrReadOnly:      codes.PermissionDenied,
	reasonConnectionAge:   codes.Unavailable,
	limit.ErrOverloaded:   codes.ResourceExhausted,
	limit.ErrRate:         codes.ResourceExhausted,
	limit.ErrStreams:      codes.ResourceExhausted,
	limit.ErrTasks:        codes.ResourceExhausted,
	limit.ErrStalled:      codes.ResourceExhausted,
	reasonDraining:        codes.Unavailable,
	reasonEventTooLarge:   codes.ResourceExhausted,
	reasonMessageTooLarge: codes.ResourceExhausted,
}

// errDraining says that the server goes away; lastSeq is where a reader of events may go on, negative for others and for one
// that has not begun.
func errDraining(lastSeq int64) error {
	err := &backend.Error{Reason: reasonDraining, Detail: "the server is shutting down"}
	if lastSeq >= 0 {
		err.Meta = map[string]string{"last_seq": itoa(lastSeq)}
	}
	return err
}

// errConnectionAge says that a stream must go on elsewhere; lastSeq is as in errDraining.
func errConnectionAge(lastSeq int64) error {
	err := &backend.Error{Reason: reasonConnectionAge, Detail: "the connection has come of age, open the stream again"}
	if lastSeq >= 0 {
		err.Meta = map[string]string{"last_seq": itoa(lastSeq)}
	}
	return err
}

func isDraining(err error) bool { return errors.Is(err, reasonDraining) }

// statusError is an error with the status that a caller sees, and what only the log sees behind it.
type statusError struct {
	status *status.Status
	cause  error
}

func (e *statusError) Error() string              { return e.status.Message() }
func (e *statusError) GRPCStatus() *status.Status { return e.status }
func (e *statusError) Unwrap() error              { return e.cause }

// toStatus gives err the status that a caller sees. Of errors that it does not know, only the log hears.
func toStatus(err error) *statusError {
	if bad, ok := errors.AsType[*invalidError](err); ok {
		return &statusError{newStatus(backend.ErrInvalid, bad.Error(), nil, bad.violations, 0), nil}
	}
	if reason := backend.ReasonOf(err); reason != "" {
		return &statusError{reasonStatus(reason, err), err}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &statusError{status.New(codes.Canceled, "the call was canceled"), nil}
	case errors.Is(err, context.DeadlineExceeded):
		return &statusError{status.New(codes.DeadlineExceeded, "the deadline of the call has passed"), nil}
	}
	if st, ok := status.FromError(err); ok { // gRPC's own, such as of a broken stream
		return &statusError{st, nil}
	}
	return &statusError{status.New(codes.Internal, "internal error"), err}
}

// retryAfter is when a caller may try again what failed; 0: trying again does not help by itself.
func retryAfter(reason backend.Reason, err error) time.Duration {
	if refusal, ok := errors.AsType[*limit.Refusal](err); ok {
		return refusal.RetryAfter
	}
	if errorCodes[reason] == codes.Unavailable && reason != backend.ErrBroken { // whose end an operator has to bring about
		return retryDelay
	}
	return 0
}

func reasonStatus(reason backend.Reason, err error) *status.Status {
	e, ok := errors.AsType[*backend.Error](err)
	if !ok {
		e = &backend.Error{Reason: reason, Detail: strings.ToLower(strings.ReplaceAll(string(reason), "_", " "))}
	}
	var violations []violation
	if reason == backend.ErrInvalid {
		violations = []violation{{e.Field, e.Detail}}
	}
	return newStatus(reason, e.Error(), e.Meta, violations, retryAfter(reason, err))
}

// Bounds that keep a status below 2 KiB, so that it fits the headers that carry it. maxViolations is also how many a
// validator collects; texts are in bytes.
const (
	maxStatus     = 2 << 10
	maxText       = 256
	maxMeta       = 64
	maxViolations = 8
)

func newStatus(reason backend.Reason, text string, meta map[string]string, violations []violation, retry time.Duration) *status.Status {
	code, ok := errorCodes[reason]
	if !ok {
		code = codes.Internal
	}
	info := &errdetails.ErrorInfo{Reason: string(reason), Domain: errorDomain, Metadata: make(map[string]string, len(meta))}
	for key, value := range meta {
		info.Metadata[key] = clip(value, maxMeta)
	}
	details := []protoadapt.MessageV1{info}
	if len(violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: clip(v.field, maxText), Description: clip(v.detail, maxText),
			})
		}
		details = append(details, bad)
	}
	if retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	st := status.New(code, clip(text, maxText))
	for n := len(details); n > 0; n-- {
		if full, err := st.WithDetails(details[:n]...); err == nil && proto.Size(full.Proto()) <= maxStatus {
			return full
		}
		if bad, ok := details[n-1].(*errdetails.BadRequest); ok && len(bad.FieldViolations) > 1 {
			bad.FieldViolations = bad.FieldViolations[:len(bad.FieldViolations)/2]
			n++
		}
	}
	return st
}

// clip makes a text short and valid UTF-8.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// causeOf returns what only the log is told of an error: the cause that a backend gave it, or the whole of an error that
// is not for callers. It is "" if the caller sees everything.
func causeOf(err error) string {
	known, ok := errors.AsType[*backend.Error](err)
	switch {
	case err == nil, ok && known.Cause == nil:
		return ""
	case ok:
		return known.Cause.Error()
	default:
		return err.Error()
	}
}
