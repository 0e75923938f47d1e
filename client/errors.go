package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What an [Error] can be, for [errors.Is].
var (
	// ErrNotFound: there is no such task, or log, in the scope of the call.
	ErrNotFound = errors.New("taskstore: not found")
	// ErrAlreadyExists: the id of an insert is taken.
	ErrAlreadyExists = errors.New("taskstore: already exists")
	// ErrVersionConflict: the stored task has another version, see [Error.CurrentVersion].
	ErrVersionConflict = errors.New("taskstore: version conflict")
	// ErrBasePartsConflict: the artifact does not have as many parts as the delta says.
	ErrBasePartsConflict = errors.New("taskstore: base parts conflict")
	// ErrSeqConflict: another event is at this position of the log.
	ErrSeqConflict = errors.New("taskstore: seq conflict")
	// ErrTerminalState: the task is in a terminal state, which does not change any more.
	ErrTerminalState = errors.New("taskstore: terminal state")
	// ErrContextMismatch: the task belongs to another context.
	ErrContextMismatch = errors.New("taskstore: context mismatch")
	// ErrClaimLost: the token does not, or no longer, hold the key.
	ErrClaimLost = errors.New("taskstore: claim lost")
	// ErrClaimTaskMismatch: the key was claimed for another task.
	ErrClaimTaskMismatch = errors.New("taskstore: claim is for another task")
	// ErrKeyBound: a write has bound the key, so that it cannot be released.
	ErrKeyBound = errors.New("taskstore: key is bound")
	// ErrArtifactUnknown: no artifact has the id that the delta names. Save the whole task.
	ErrArtifactUnknown = errors.New("taskstore: unknown artifact")
	// ErrArtifactAmbiguous: more than one artifact has the id that the delta names. Save the whole task.
	ErrArtifactAmbiguous = errors.New("taskstore: ambiguous artifact")
	// ErrSeqNotWritten: nothing was ever written at this position, which is behind the head of the log.
	ErrSeqNotWritten = errors.New("taskstore: seq was not written")
	// ErrLogRange: the log does not reach there, see [Error.EarliestSeq] and [Error.LastSeq].
	ErrLogRange = errors.New("taskstore: outside of the log")
	// ErrInvalidArgument: a field, id, token or payload is bad, see [Error.Violations].
	ErrInvalidArgument = errors.New("taskstore: invalid argument")
	// ErrTooLarge: the task would be larger than the store keeps. Such an error is also an ErrResourceExhausted.
	ErrTooLarge = errors.New("taskstore: task too large")
	// ErrResourceExhausted: a limit was reached; the reason says which.
	ErrResourceExhausted = errors.New("taskstore: resource exhausted")
	// ErrUnauthenticated: the credential is missing or not valid.
	ErrUnauthenticated = errors.New("taskstore: unauthenticated")
	// ErrPermissionDenied: the credential does not allow this.
	ErrPermissionDenied = errors.New("taskstore: permission denied")
	// ErrUnavailable: the store did not answer in the time that the call had. A write may have taken effect.
	ErrUnavailable = errors.New("taskstore: unavailable")
	// ErrClosed: the client has been closed.
	ErrClosed = errors.New("taskstore: client closed")
)

// errorDomain is the domain of the ErrorInfo of errors that the store itself made, as opposed to gRPC or a proxy.
const errorDomain = "a2ataskstore"

// reasons maps the reason of an ErrorInfo to what the error is.
var reasons = map[string]error{
	"TASK_NOT_FOUND":      ErrNotFound,
	"TASK_EXISTS":         ErrAlreadyExists,
	"VERSION_CONFLICT":    ErrVersionConflict,
	"BASE_PARTS_CONFLICT": ErrBasePartsConflict,
	"SEQ_CONFLICT":        ErrSeqConflict,
	"TERMINAL_STATE":      ErrTerminalState,
	"CONTEXT_MISMATCH":    ErrContextMismatch,
	"CLAIM_LOST":          ErrClaimLost,
	"CLAIM_TASK_MISMATCH": ErrClaimTaskMismatch,
	"KEY_BOUND":           ErrKeyBound,
	"ARTIFACT_UNKNOWN":    ErrArtifactUnknown,
	"ARTIFACT_AMBIGUOUS":  ErrArtifactAmbiguous,
	"SEQ_NOT_WRITTEN":     ErrSeqNotWritten,
	"LOG_RANGE":           ErrLogRange,
	"TASK_TOO_LARGE":      ErrTooLarge,
}

// kinds maps the codes that mean one thing by themselves, whoever made the error and whatever its reason.
var kinds = map[codes.Code]error{
	codes.InvalidArgument:   ErrInvalidArgument,
	codes.NotFound:          ErrNotFound,
	codes.AlreadyExists:     ErrAlreadyExists,
	codes.OutOfRange:        ErrLogRange,
	codes.ResourceExhausted: ErrResourceExhausted,
	codes.Unauthenticated:   ErrUnauthenticated,
	codes.PermissionDenied:  ErrPermissionDenied,
	codes.Unavailable:       ErrUnavailable,
}

// FieldViolation says what is wrong with one field of a request.
type FieldViolation struct {
	// Field is a path such as "task.id".
	Field string
	// Description says what is wrong with it.
	Description string
}

// Error is why a call failed. It holds what the store said, but not as a gRPC status, so that a gRPC server that
// returns it does not pass the store's status on.
type Error struct {
	// Op is the method: "Save", "Follow".
	Op string
	// Code is the gRPC code.
	Code codes.Code
	// Reason names the cause in UPPER_SNAKE; "" if the error does not come from the store itself.
	Reason string
	// Metadata belongs to the reason; may be nil.
	Metadata map[string]string
	// Message is for people.
	Message string
	// Violations are the bad fields of an ErrInvalidArgument, as far as they were named.
	Violations []FieldViolation
	// Attempts is how many times the call was made, this failure included. Above 1, an earlier attempt of a write may have
	// taken effect although its reply was lost.
	Attempts int

	// cause is a context error or ErrClosed. last is what the attempt before it failed with.
	cause error
	last  *Error
}

// Error describes the failure in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("taskstore: ")
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	if e.Reason != "" {
		b.WriteString(e.Reason)
	} else {
		b.WriteString(e.Code.String())
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	for _, v := range e.Violations {
		fmt.Fprintf(&b, "; %s: %s", v.Field, v.Description)
	}
	return b.String()
}

// Is tells whether target is the sentinel of the error's reason or code.
func (e *Error) Is(target error) bool {
	if sentinel, ok := reasons[e.Reason]; ok && sentinel == target {
		return true
	}
	sentinel, ok := kinds[e.Code]
	return ok && sentinel == target
}

// Unwrap gives what ended the call from this side, a context error or ErrClosed, and the failure of the attempt before
// that, if there are.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	if e.last != nil {
		errs = append(errs, e.last)
	}
	return errs
}

// CurrentVersion is the stored version that an [ErrVersionConflict] names.
func (e *Error) CurrentVersion() (int64, bool) { return e.number("current_version") }

// EarliestSeq is the first seq that can be read, as an [ErrLogRange] names it.
func (e *Error) EarliestSeq() (int64, bool) { return e.number("earliest_seq") }

// LastSeq is the last seq of the log, as an [ErrLogRange] names it.
func (e *Error) LastSeq() (int64, bool) { return e.number("last_seq") }

func (e *Error) number(key string) (int64, bool) {
	n, err := strconv.ParseInt(e.Metadata[key], 10, 64)
	return n, err == nil
}

// parseError takes a gRPC error apart. retryAfter is the delay of its RetryInfo, and hasRetryInfo whether there is one.
func parseError(op string, err error) (e *Error, retryAfter time.Duration, hasRetryInfo bool) {
	st := status.Convert(err)
	e = &Error{Op: op, Code: st.Code(), Message: st.Message()}
	if e.Code == codes.Unknown {
		// Interceptors may return bare context errors.
		if c := status.FromContextError(err).Code(); c != codes.Unknown {
			e.Code = c
		}
	}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == errorDomain {
				e.Reason, e.Metadata = d.GetReason(), d.GetMetadata()
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, FieldViolation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			retryAfter, hasRetryInfo = d.GetRetryDelay().AsDuration(), true
		}
	}
	return e, retryAfter, hasRetryInfo
}

// contextError is the error of a call that its context ended; last is what the latest attempt said, or nil.
func contextError(op string, cause error, attempts int, last *Error) *Error {
	e := &Error{Op: op, Code: codes.Canceled, Message: cause.Error(), Attempts: attempts, cause: cause, last: last}
	if errors.Is(cause, context.DeadlineExceeded) {
		e.Code = codes.DeadlineExceeded
	}
	if last != nil {
		e.Message += "; last attempt: " + last.Message
	}
	return e
}

// withoutStatus keeps the text of a gRPC error and drops its status.
func withoutStatus(err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return errors.New(st.Message())
	}
	return err
}
