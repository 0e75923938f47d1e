package backend

import (
	"errors"
	"fmt"
	"strconv"
)

// Reason names a cause that callers tell apart. It is the reason of the ErrorInfo that a caller of the service sees, and
// as an error it is the sentinel: errors.Is(err, backend.ErrTaskNotFound).
type Reason string

// Error makes a Reason a sentinel.
func (r Reason) Error() string { return string(r) }

// The reasons. Their gRPC codes are in the server's error table.
const (
	// ErrInvalid: the request itself is wrong, whatever is stored.
	ErrInvalid Reason = "INVALID_REQUEST"
	// ErrTaskNotFound: the scope has no such task or log. The same for an unknown id and for another owner's.
	ErrTaskNotFound Reason = "TASK_NOT_FOUND"
	// ErrTaskExists: an insert found the id taken.
	ErrTaskExists Reason = "TASK_EXISTS"
	// ErrVersionConflict: the stored version is not the one of the precondition. Meta: current_version.
	ErrVersionConflict Reason = "VERSION_CONFLICT"
	// ErrBasePartsConflict: the artifact has another number of parts. Meta: current_parts, current_version.
	ErrBasePartsConflict Reason = "BASE_PARTS_CONFLICT"
	// ErrSeqConflict: the position holds other bytes. Meta: seq, last_seq.
	ErrSeqConflict Reason = "SEQ_CONFLICT"
	// ErrTerminalState: a terminal state is never replaced. Meta: stored_state, attempted_state, current_version.
	ErrTerminalState Reason = "TERMINAL_STATE"
	// ErrContextMismatch: a task's context id never changes.
	ErrContextMismatch Reason = "CONTEXT_MISMATCH"
	// ErrClaimLost: the token does not hold the key.
	ErrClaimLost Reason = "CLAIM_LOST"
	// ErrClaimTaskMismatch: the key was claimed for another task id.
	ErrClaimTaskMismatch Reason = "CLAIM_TASK_MISMATCH"
	// ErrKeyBound: a write has bound the key; it stands for its ttl.
	ErrKeyBound Reason = "KEY_BOUND"
	// ErrArtifactUnknown: no artifact has the id.
	ErrArtifactUnknown Reason = "ARTIFACT_UNKNOWN"
	// ErrArtifactAmbiguous: more than one artifact has the id.
	ErrArtifactAmbiguous Reason = "ARTIFACT_AMBIGUOUS"
	// ErrSeqNotWritten: the position is behind the head, and nothing was ever written there.
	ErrSeqNotWritten Reason = "SEQ_NOT_WRITTEN"
	// ErrLogRange: the log does not reach the start asked for. Meta: earliest_seq, last_seq.
	ErrLogRange Reason = "LOG_RANGE"
	// ErrTaskTooLarge: a full Get of the task would not fit a message. Meta: size, limit.
	ErrTaskTooLarge Reason = "TASK_TOO_LARGE"
	// ErrMemoryLimit: a backend in memory is full. Meta: limit.
	ErrMemoryLimit Reason = "MEMORY_LIMIT"
	// ErrUnavailable: the backend cannot answer now, and nothing was written.
	ErrUnavailable Reason = "UNAVAILABLE"
	// ErrBroken: the backend met a fault after which it cannot vouch for its state (a failed write or sync, corruption). It
	// refuses everything until it is opened again.
	ErrBroken Reason = "STORE_BROKEN"
)

// Error is a Reason with what a caller needs to act on it. It never holds stored content, SQL or a path.
type Error struct {
	Reason Reason
	// Field is the path of the request field at fault, for ErrInvalid.
	Field string
	// Detail is a sentence for people, in lower case.
	Detail string
	// Meta is the metadata of the ErrorInfo.
	Meta map[string]string
	// Cause is for the log; it is not part of the text.
	Cause error
}

// Error returns the text.
func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Detail
	}
	return e.Detail
}

// Is makes the Reason the identity of the error.
func (e *Error) Is(target error) bool {
	r, ok := target.(Reason)
	return ok && r == e.Reason
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Invalid returns an ErrInvalid for the field.
func Invalid(field, format string, args ...any) error {
	return &Error{Reason: ErrInvalid, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Unavailable returns an ErrUnavailable with a cause for the log.
func Unavailable(detail string, cause error) error {
	return &Error{Reason: ErrUnavailable, Detail: detail, Cause: cause}
}

// Broken returns an ErrBroken with a cause for the log.
func Broken(detail string, cause error) error {
	return &Error{Reason: ErrBroken, Detail: detail, Cause: cause}
}

// ReasonOf returns the Reason in err's chain, or "".
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	if r, ok := errors.AsType[Reason](err); ok {
		return r
	}
	return ""
}

// errNotFound is one text for every way in which a task is not there for a caller.
func errNotFound() error {
	return &Error{Reason: ErrTaskNotFound, Detail: "task not found"}
}

func errExists() error {
	return &Error{Reason: ErrTaskExists, Detail: "a task with this id exists"}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
