package server

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/tap"

	"github.com/a2a-taskstore/taskstore/server/limit"
)

// gRPC starts a goroutine for each call whose headers come, up to as many as there may be streams on a connection, which here
// are many: readers are streams. All of them stand in the line of the scheduler before whoever else is served. So the unary
// calls of a connection are bounded as their headers come, and a connection that brings little else than headers is cut.

// begin counts a call of a connection, and refuses it if the connection has too many.
func (a *admission) begin(in *arrival, info *tap.Info) error {
	conn := connection(in)
	if conn == nil {
		return nil
	}
	conn.Begin()
	if !unaryMethods[info.FullMethodName] {
		return nil
	}
	if conn.Calls.Take(in.Context, &in.call, a.connectionCalls()) {
		in.conn = conn
		return nil
	}
	conn.Slow(refusedPause)
	a.counts.Begin(info.FullMethodName).End(codes.ResourceExhausted, time.Now())
	a.seen.Refused(limit.ErrOverloaded, limit.OfConnection)
	a.note()
	return errConnectionCalls
}

// connectionCalls is how many unary calls one connection may have in hand: all that the server runs, and some that arrive or
// are being refused.
func (a *admission) connectionCalls() int { return a.limits.Calls + streamWorkers }

// errConnectionCalls is made once: it is the answer to floods.
var errConnectionCalls = toStatus(limit.Refuse(limit.ErrOverloaded, limit.OfConnection, "calls",
	"the connection has too many calls in hand", retryDelay)).status.Err()

// refusedPause is how long a connection is not read for each call that it had too many, so that no connection keeps a processor
// busy with refusals.
const refusedPause = 50 * time.Microsecond

// enterConnection takes over what begin began.
func (c *call) enterConnection() {
	if in, ok := c.Context.Value(arrivalKey{}).(*arrival); ok && in.conn != nil {
		c.arrived = in
		in.conn.Calls.Handle(&in.call)
	}
}

// leaveConnection ends what begin began.
func (c *call) leaveConnection() {
	if c.arrived != nil {
		c.arrived.conn.Calls.Give(&c.arrived.call)
		c.arrived = nil
	}
}

// waste counts a call that has failed, if it was made for nothing: its request could not be received, or its caller had left
// before it was admitted.
func (a *admission) waste(c *call) {
	left := !c.slot && c.streams == nil && context.Cause(c.Context) == context.Canceled
	if !left && !c.broken {
		return
	}
	if conn := c.connection(); conn != nil && conn.Waste() {
		a.seen.ConnectionsCut.Inc()
		if total, due := a.cut.count(); due {
			a.log.Warn("closing a connection, most of its calls are given up or broken as they begin",
				"peer", conn.String(), "closed_since_start", total)
		}
	}
}
