// Package backend is the contract between the server and the engines that keep tasks: the Store interface, the types of
// its calls, the errors, and the rules that decide what a write does (PlanSave, PlanAppend, PlanDelete, the claim
// decisions, ResolveStart, Expired), which every engine calls so that all decide alike.
//
// What is stored are protobuf bytes, taken apart only as far as package document says; nothing is ever rebuilt from a
// parsed message.
package backend

import (
	"context"
	"time"
)

// Store is a backend. All methods are safe for concurrent use. Each write is atomic: with an error other than one that
// says that the outcome is unknown (a context that ended), nothing has changed. A write that returned without error has
// been made durable, to the degree that the backend promises.
//
// Requests are as the server's validation leaves them: ids and sizes within their bounds, payloads validated (package
// document offers no other way to make them), exactly one of Task and Delta set.
//
// Errors are *Error with a Reason; anything else is a fault. The bytes in a request become the Store's: the caller does
// not change them afterwards.
type Store interface {
	// Save writes a task, whole or as a delta, and appends its events, as PlanSave decides.
	Save(ctx context.Context, req *SaveRequest) (SaveResult, error)
	// Get reads a task, from one instant. ErrTaskNotFound without one in the scope.
	Get(ctx context.Context, req *GetRequest) (GetResult, error)
	// List reads a page, from one instant: by status timestamp, newest first, rows without one last, then by the bytes of
	// the id, largest first.
	List(ctx context.Context, req *ListRequest) (ListResult, error)
	// Delete removes a task or a log without a task, as PlanDelete decides, and reports whether there was one.
	Delete(ctx context.Context, req *DeleteRequest) (bool, error)
	// ClaimKey decides by DecideClaim.
	ClaimKey(ctx context.Context, req *ClaimRequest) (ClaimResult, error)
	// ReleaseKey decides by DecideRelease.
	ReleaseKey(ctx context.Context, req *ReleaseRequest) error
	// AppendEvents appends to a log, as PlanAppend decides.
	AppendEvents(ctx context.Context, req *AppendRequest) (AppendResult, error)
	// ReadLog reads a page of a log, from one instant. ErrTaskNotFound if the scope has neither a task nor a log under the
	// id; ErrLogRange as ResolveStart decides.
	ReadLog(ctx context.Context, req *ReadLogRequest) (LogPage, error)
	// Heads returns the Head of each key, in order, whoever owns it: what the server's poller asks for all waiting readers
	// at once.
	Heads(ctx context.Context, keys []Key) ([]Head, error)
	// Watch has fn called after each commit that changed a task or its log, until stop is called. It may be called for
	// nothing, and, where PollInterval is not 0, miss a change. fn must not block, nor call the Store.
	Watch(fn func(Key)) (stop func())
	// PollInterval is how often Heads must be asked since Watch may miss changes; 0 if it never does.
	PollInterval() time.Duration
	// Sweep removes a batch of what has expired, deciding by Expired. Several replicas may sweep at once.
	Sweep(ctx context.Context, req *SweepRequest) (SweepResult, error)
	// Ping reports whether the backend can serve: nil, or an error that says why not.
	Ping(ctx context.Context) error
	// Close ends the Store. Calls that run end first; calls that come later get ErrUnavailable.
	Close() error
}
