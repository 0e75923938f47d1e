// Package limit keeps callers from taking more of a server than they should: rates and streams of one principal or tenant
// (Table), the memory of what is in hand (Budget), in parts for its holders (Shares), connections (Listener), and the counts
// that all calls share (Counter).
//
// A limit refuses at once, and says which it was; nothing is queued but what waits for memory. Everything is safe for
// concurrent use.
package limit

import (
	"errors"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Limits are those of one principal, or of one tenant. 0 is no limit.
type Limits struct {
	// RequestsPerSecond counts calls as they begin, streams included. What was saved up in a second may be used at once.
	RequestsPerSecond float64 `json:"requests_per_second,omitempty" yaml:"requests_per_second"`
	// BytesPerSecond counts requests and responses. A call is never cut off in the middle: what it takes too much, later calls
	// wait for. Streams are slowed down instead of being refused.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty" yaml:"bytes_per_second"`
	// OpenStreams counts streams and Gets that wait.
	OpenStreams int `json:"open_streams,omitempty" yaml:"open_streams"`
	// Tasks is how many tasks a tenant holds before no more are created in it; as a principal's, before this principal creates
	// no more in it. It is soft: tasks are counted from time to time.
	Tasks int64 `json:"tasks,omitempty" yaml:"tasks"`
}

// Valid reports whether no limit is negative.
func (l Limits) Valid() bool {
	return l.RequestsPerSecond >= 0 && l.BytesPerSecond >= 0 && l.OpenStreams >= 0 && l.Tasks >= 0
}

// The reasons for which a limit refuses. They are those of ErrorInfo, all with the code RESOURCE_EXHAUSTED; metadata: scope,
// whose limit it is (server, connection, principal, tenant), and limit, of what.
const (
	// ErrOverloaded: the server has as many calls, or bytes, in hand as it takes. Trying again soon helps.
	ErrOverloaded backend.Reason = "OVERLOADED"
	// ErrRate: the principal or tenant calls too often or moves too much. Trying again after a time helps.
	ErrRate backend.Reason = "RATE_LIMITED"
	// ErrStreams: there are too many open streams, or Gets that wait.
	ErrStreams backend.Reason = "TOO_MANY_STREAMS"
	// ErrTasks: the tenant holds as many tasks as it may.
	ErrTasks backend.Reason = "TOO_MANY_TASKS"
	// ErrStalled: a reader did not take what was sent to it, while others waited for the memory. It may resume.
	ErrStalled backend.Reason = "STREAM_STALLED"
)

// Scope says whose limit it is.
type Scope string

// The scopes.
const (
	OfServer     Scope = "server"
	OfConnection Scope = "connection"
	OfPrincipal  Scope = "principal"
	OfTenant     Scope = "tenant"
)

// Refusal is the error of a limit.
type Refusal struct {
	reason backend.Error
	// RetryAfter is when it may be worth trying again; 0: not by itself.
	RetryAfter time.Duration
}

// Refuse returns the error of a limit of a scope.
func Refuse(reason backend.Reason, scope Scope, what, detail string, retryAfter time.Duration) error {
	return &Refusal{backend.Error{
		Reason: reason, Detail: detail, Meta: map[string]string{"scope": string(scope), "limit": what},
	}, retryAfter}
}

// Error returns the text.
func (r *Refusal) Error() string { return r.reason.Error() }

// Unwrap returns the reason with its metadata.
func (r *Refusal) Unwrap() error { return &r.reason }

// ScopeOf is whose limit refused with err; "" if none did.
func ScopeOf(err error) Scope {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return Scope(r.reason.Meta["scope"])
	}
	return ""
}

// Refused reports whether a limit refused.
func Refused(reason backend.Reason) bool {
	switch reason {
	case ErrOverloaded, ErrRate, ErrStreams, ErrTasks, ErrStalled:
		return true
	}
	return false
}
