// Package document is the encoded A2A task: how its bytes are validated, taken apart, changed and put together again.
//
// A task is a head (every field but artifacts and history), a list of artifacts and a list of messages. Each of the three
// is kept and handled as the protobuf bytes that the caller sent. Parse functions accept exactly what strict protobuf
// parsers all read alike, and fail with an *Error that names the path otherwise; Append functions put bytes together.
// Nothing here ever decodes a payload into messages and encodes it again, so unknown fields, unknown enum values and
// whatever a later A2A version adds pass through unchanged.
//
// Functions return slices of their input where they can; inputs must not be changed afterwards.
package document

import (
	"cmp"
	"fmt"
	"strconv"
)

// Error says what is wrong with a payload.
type Error struct {
	// Path names the field, such as "status.message.parts.text".
	Path string
	// Detail is a sentence in lower case. It never holds content.
	Detail string
}

// Error returns the text.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Detail
	}
	return e.Path + ": " + e.Detail
}

func (e *Error) under(name string) *Error {
	path := name
	if e.Path != "" {
		path += "." + e.Path
	}
	return &Error{Path: path, Detail: e.Detail}
}

func failf(format string, args ...any) *Error {
	return &Error{Detail: fmt.Sprintf(format, args...)}
}

// Timestamp is a google.protobuf.Timestamp; the zero value is none.
type Timestamp struct {
	Valid   bool
	Seconds int64
	Nanos   int32
}

// Compare orders timestamps by time; none comes before all others.
func (t Timestamp) Compare(u Timestamp) int {
	switch {
	case t.Valid != u.Valid:
		if u.Valid {
			return -1
		}
		return 1
	case t.Seconds != u.Seconds:
		return cmp.Compare(t.Seconds, u.Seconds)
	default:
		return cmp.Compare(t.Nanos, u.Nanos)
	}
}

// The states that are terminal (A2A 1.0, section 4.1.3), and their names for messages and filters.
const (
	stateCompleted = 3
	stateFailed    = 4
	stateCanceled  = 5
	stateRejected  = 7
	stateLast      = 8
)

// Terminal reports whether a state is terminal. Unknown states are not.
func Terminal(state int32) bool {
	return state == stateCompleted || state == stateFailed || state == stateCanceled || state == stateRejected
}

// KnownState reports whether A2A 1.0 defines the state.
func KnownState(state int32) bool { return state >= 0 && state <= stateLast }

var stateNames = [...]string{
	"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED",
	"TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED",
}

// StateName returns the name of a state, or its number if A2A 1.0 defines none.
func StateName(state int32) string {
	if KnownState(state) {
		return stateNames[state]
	}
	return strconv.Itoa(int(state))
}
