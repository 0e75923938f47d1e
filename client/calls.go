package client

import (
	"context"
	"crypto/rand"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// maxWait is the longest wait that the store grants a Get.
const maxWait = time.Minute

// Save writes a task or a delta and appends its events, in one atomic and durable step. A request without write id, origin or
// scope gets a random write id, [WithOrigin] and [WithScope].
//
// Errors: [ErrAlreadyExists], [ErrNotFound], [ErrVersionConflict], [ErrBasePartsConflict], [ErrTerminalState],
// [ErrContextMismatch], [ErrArtifactUnknown], [ErrArtifactAmbiguous], [ErrClaimLost], [ErrClaimTaskMismatch],
// [ErrTooLarge], and those of every call: [ErrInvalidArgument], [ErrResourceExhausted], [ErrUnauthenticated],
// [ErrPermissionDenied], [ErrUnavailable], [ErrClosed] and the context's. After the last three the write may have taken
// effect; the same write id asks again.
func (c *Client) Save(
	ctx context.Context, req *taskstorev1.SaveRequest, opts ...grpc.CallOption,
) (*taskstorev1.SaveResponse, error) {
	req = shallowCopy(req)
	c.fill(&req.Scope, &req.WriteId, &req.Origin)
	return do(ctx, c, "Save", req, 0, func(ctx context.Context) (*taskstorev1.SaveResponse, error) {
		return c.rpc.Save(ctx, req, opts...)
	})
}

// AppendEvent appends events to a log without writing the task. A request without write id, origin or scope gets them as
// in Save.
//
// Errors: [ErrNotFound], [ErrSeqConflict], [ErrSeqNotWritten], [ErrClaimLost], [ErrClaimTaskMismatch], and those of every
// call.
func (c *Client) AppendEvent(
	ctx context.Context, req *taskstorev1.AppendEventRequest, opts ...grpc.CallOption,
) (*taskstorev1.AppendEventResponse, error) {
	req = shallowCopy(req)
	c.fill(&req.Scope, &req.WriteId, &req.Origin)
	return do(ctx, c, "AppendEvent", req, 0, func(ctx context.Context) (*taskstorev1.AppendEventResponse, error) {
		return c.rpc.AppendEvent(ctx, req, opts...)
	})
}

// Get reads one task. With a wait it answers when the task is newer than the version given, or when the wait is over, with
// what is there. The wait is one time for all attempts: a retry waits for the rest of it.
//
// Errors: [ErrNotFound], and those of every call.
func (c *Client) Get(
	ctx context.Context, req *taskstorev1.GetRequest, opts ...grpc.CallOption,
) (*taskstorev1.GetResponse, error) {
	req = shallowCopy(req)
	c.fillScope(&req.Scope)
	var wait time.Duration
	if w := req.GetWait(); w.GetTimeout() != nil {
		// The store refuses a longer one at once.
		wait = min(w.GetTimeout().AsDuration(), maxWait)
	}
	until := time.Now().Add(wait)
	retry := false
	return do(ctx, c, "Get", req, wait, func(ctx context.Context) (*taskstorev1.GetResponse, error) {
		if retry && wait > 0 {
			req = waitingFor(req, time.Until(until))
		}
		retry = true
		return c.rpc.Get(ctx, req, opts...)
	})
}

// waitingFor is req with rest as its wait, or without one if nothing is left.
func waitingFor(req *taskstorev1.GetRequest, rest time.Duration) *taskstorev1.GetRequest {
	req = shallowCopy(req)
	if rest <= 0 {
		req.Wait = nil
		return req
	}
	req.Wait = shallowCopy(req.GetWait())
	req.Wait.Timeout = durationpb.New(rest)
	return req
}

// List reads one page of tasks. The next one has the same filters and this page's next_page_token, until that is empty.
// A page may be shorter than asked for although more follow.
//
// Errors: those of every call.
func (c *Client) List(
	ctx context.Context, req *taskstorev1.ListRequest, opts ...grpc.CallOption,
) (*taskstorev1.ListResponse, error) {
	req = shallowCopy(req)
	c.fillScope(&req.Scope)
	return do(ctx, c, "List", req, 0, func(ctx context.Context) (*taskstorev1.ListResponse, error) {
		return c.rpc.List(ctx, req, opts...)
	})
}

// Delete removes a task and its log. That there is nothing to delete is not an error.
//
// Errors: [ErrVersionConflict] if a version was given and the task has another, and those of every call.
func (c *Client) Delete(
	ctx context.Context, req *taskstorev1.DeleteRequest, opts ...grpc.CallOption,
) (*taskstorev1.DeleteResponse, error) {
	req = shallowCopy(req)
	c.fillScope(&req.Scope)
	return do(ctx, c, "Delete", req, 0, func(ctx context.Context) (*taskstorev1.DeleteResponse, error) {
		return c.rpc.Delete(ctx, req, opts...)
	})
}

// ClaimKey asks for a key, which lets one caller out of many start the work for it. The token must be given, since the
// write that binds the key needs it again; crypto/rand.Text makes a good one. A repetition with the same token renews the
// claim.
//
// Errors: those of every call; that somebody else holds the key is an outcome.
func (c *Client) ClaimKey(
	ctx context.Context, req *taskstorev1.ClaimKeyRequest, opts ...grpc.CallOption,
) (*taskstorev1.ClaimKeyResponse, error) {
	req = shallowCopy(req)
	c.fillScope(&req.Scope)
	return do(ctx, c, "ClaimKey", req, 0, func(ctx context.Context) (*taskstorev1.ClaimKeyResponse, error) {
		return c.rpc.ClaimKey(ctx, req, opts...)
	})
}

// ReleaseKey gives a claim back that no write has bound. That nobody holds the key is not an error.
//
// Errors: [ErrClaimLost] if another token holds it, [ErrKeyBound], and those of every call.
func (c *Client) ReleaseKey(
	ctx context.Context, req *taskstorev1.ReleaseKeyRequest, opts ...grpc.CallOption,
) (*taskstorev1.ReleaseKeyResponse, error) {
	req = shallowCopy(req)
	c.fillScope(&req.Scope)
	return do(ctx, c, "ReleaseKey", req, 0, func(ctx context.Context) (*taskstorev1.ReleaseKeyResponse, error) {
		return c.rpc.ReleaseKey(ctx, req, opts...)
	})
}

// fill sets what a write needs and the caller left out.
func (c *Client) fill(scope **taskstorev1.Scope, writeID, origin *string) {
	c.fillScope(scope)
	if *writeID == "" {
		*writeID = rand.Text()
	}
	if *origin == "" {
		*origin = c.opts.origin
	}
}

func (c *Client) fillScope(scope **taskstorev1.Scope) {
	if *scope == nil {
		*scope = c.opts.scope
	}
}

// shallowCopy is a message of its own that shares m's field values, unknown fields included, so that its top level can be
// filled in. A nil message gives an empty one.
func shallowCopy[M proto.Message](m M) M {
	src := m.ProtoReflect()
	dst := src.New()
	src.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		dst.Set(field, value)
		return true
	})
	dst.SetUnknown(src.GetUnknown())
	return dst.Interface().(M)
}
