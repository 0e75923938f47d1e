package server

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/a2a-taskstore/taskstore/backend"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
	"github.com/a2a-taskstore/taskstore/server/audit"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// accessOf is what each method of the service does with tasks, by its full name, for calls that end before their handler.
// unary and serverStream fill it.
var accessOf = make(map[string]auth.Access)

// audited is what a call leaves in the audit log.
type audited struct {
	entry *audit.Entry // what the request names; nil as long as it is not read, or nobody wants it
	done  bool         // the line is written, or there is none
}

// named begins the entry of a request: whose tasks it is about. The caller adds which. It is nil if calls of this access leave
// no line.
func (s *service) named(ctx context.Context, access auth.Access, scope *taskstorev1.Scope) *audit.Entry {
	if !s.audit.Wants(access) {
		return nil
	}
	e := audit.NewEntry()
	e.Scoped, e.Tenant = true, clip(scope.GetTenant(), maxID)
	if scope != nil && scope.Owner != nil {
		owner := clip(scope.GetOwner(), maxID)
		e.Owner = &owner
	}
	callOf(ctx).audited.entry = e
	return e
}

// auditable refuses a call that must leave a line while none can be written. Nothing has happened then: it leaves none.
func (s *service) auditable(ctx context.Context, access auth.Access) error {
	err := s.audit.Ready(access)
	if err != nil {
		callOf(ctx).audited.done = true
	}
	return err
}

// audit writes the line of a call that has ended, or of a stream that begins; once.
func (c *call) audit(l *audit.Log, st *statusError) {
	access := accessOf[c.method]
	if access == 0 || c.audited.done || !l.Wants(access) {
		return
	}
	c.audited.done = true
	code, reason := outcome(st)
	e := c.audited.entry
	if e == nil {
		if reason == reasonDraining || limit.Refused(reason) {
			return // nobody looked at what it is about, and such refusals come by the thousand
		}
		e = audit.NewEntry()
	}
	e.Code, e.Reason = code, reason
	e.Method = c.method[strings.LastIndexByte(c.method, '/')+1:]
	e.RequestID = c.requestID()
	if c.session != nil {
		e.Principal = c.session.Principal.Name
	}
	if from, ok := peer.FromContext(c.Context); ok {
		e.Peer = from.Addr
	}
	l.Write(e)
}

// outcome is how a call has ended; nil is well.
func outcome(st *statusError) (codes.Code, backend.Reason) {
	if st == nil {
		return codes.OK, ""
	}
	if st.status.Code() == codes.InvalidArgument {
		return codes.InvalidArgument, backend.ErrInvalid // the one reason that stands in the status alone
	}
	return st.status.Code(), backend.ReasonOf(st)
}

// What the requests of each method name, and what their answers say of it. A task id that is too long is refused, and cut
// here.

func namesTask[Req interface{ GetTaskId() string }](req Req, e *audit.Entry) {
	e.Task = clip(req.GetTaskId(), maxID)
}

func namesNothing[Req any](Req, *audit.Entry) {}

func saveNames(req *wirev1.SaveRequest, e *audit.Entry) {
	e.Task = clip(req.GetDelta().GetTaskId(), maxID)
	if len(req.GetTask()) > 0 {
		e.Task = clip(idOf(req.GetTask()[0]), maxID)
	}
}

func claimNames(req *taskstorev1.ClaimKeyRequest, e *audit.Entry) {
	e.Task, e.Key = clip(req.GetTaskId(), maxID), clip(req.GetKey(), maxID)
}

func releaseNames(req *taskstorev1.ReleaseKeyRequest, e *audit.Entry) {
	e.Key = clip(req.GetKey(), maxID)
}

// idOf finds the id of a task that is not parsed yet; "" if it has none, or is malformed.
func idOf(task []byte) string {
	var id []byte
	for len(task) > 0 {
		field, kind, n := protowire.ConsumeTag(task)
		if n < 0 {
			return ""
		}
		size := protowire.ConsumeFieldValue(field, kind, task[n:])
		if size < 0 {
			return ""
		}
		if field == 1 && kind == protowire.BytesType { // the last one counts
			id, _ = protowire.ConsumeBytes(task[n:])
		}
		task = task[n+size:]
	}
	return string(id[:min(len(id), maxID)])
}

func savedAs(resp *taskstorev1.SaveResponse, e *audit.Entry) {
	e.Version = resp.GetVersion()
	if resp.GetReplayed() {
		e.Result = resultReplayed
	}
}

func appendedAs(resp *taskstorev1.AppendEventResponse, e *audit.Entry) {
	e.Version = resp.GetVersion()
	if resp.GetReplayed() {
		e.Result = resultReplayed
	}
}

func readAs(resp *getReply, e *audit.Entry) { e.Version = resp.rest.GetVersion() }

func deletedAs(resp *taskstorev1.DeleteResponse, e *audit.Entry) {
	e.Result = resultAbsent
	if resp.GetDeleted() {
		e.Result = resultDeleted
	}
}

func claimedAs(resp *taskstorev1.ClaimKeyResponse, e *audit.Entry) {
	e.Result = strings.TrimPrefix(resp.GetOutcome().String(), "CLAIM_OUTCOME_")
}

func saysNothing[Resp any](Resp, *audit.Entry) {}

// The results of calls that can end well in several ways, next to those of claims.
const (
	resultReplayed = "REPLAYED" // the write had been done before
	resultDeleted  = "DELETED"
	resultAbsent   = "ABSENT" // there was nothing to delete
)
