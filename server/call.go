package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/limit"
	"github.com/a2a-taskstore/taskstore/server/metrics"
)

// call is an RPC while it runs: its context, and what the steps around its handler share. All of it belongs to the goroutine
// of the handler, except what Context promises.
type call struct {
	context.Context
	method string // full
	began  time.Time
	id     string
	counts *metrics.Method // nil: not counted
	// session is of the principal that makes the call; nil for calls that are open to everybody.
	session *auth.Session
	audited audited
	broken  bool // its request could not be received, though there was time
	held
}

// held is what a call has taken, and admission.leave gives back.
type held struct {
	slot         bool           // one of the calls
	streams      *limit.Counter // that the call is counted in; nil: none
	bytes        int64          // of the request
	onConn       *atomic.Int64  // of its connection, that the stream is counted in; nil: none
	arrived      *arrival       // in hand of its connection
	turn         *limit.Share   // of the bulk, as long as the store has the request; nil: none
	releases     []func()
	response     *limit.Held // of a large response; gRPC releases it
	tenant       string
	tenantLimits limit.Limits
}

type callKey struct{}

// Value returns the call itself for callKey: one allocation serves as context and as what it carries.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// callOf returns the call whose context this is.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// requestIDHeader is the metadata key by which a call is found in the log. A caller may choose the id; that of a call that
// fails is in its trailer.
const requestIDHeader = "x-request-id"

// requestID is the caller's, or one that is made when it is first asked for: most calls are never looked for.
func (c *call) requestID() string {
	if c.id == "" {
		if given := metadata.ValueFromIncomingContext(c.Context, requestIDHeader); len(given) == 1 && usableID(given[0]) {
			c.id = given[0]
		} else {
			c.id = rand.Text()
		}
	}
	return c.id
}

// usableID reports whether a caller's request id may stand in trailers and logs.
func usableID(id string) bool {
	return id != "" && len(id) <= maxToken &&
		strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// log writes a line for a call that has ended. It is no library's because most lines are for nobody: those cost nothing here,
// where the usual interceptors build theirs first.
func (c *call) log(logger *slog.Logger, err *statusError) {
	code := codes.OK
	if err != nil {
		code = err.status.Code()
	}
	level := logLevel(code, err)
	if !logger.Enabled(c, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", c.method),
		slog.String("code", code.String()),
		slog.Duration("duration", time.Since(c.began)),
		slog.String("request_id", c.requestID()),
	}
	if span := trace.SpanContextFromContext(c); span.HasTraceID() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
	}
	if c.session != nil {
		attrs = append(attrs, slog.String("principal", c.session.Principal.Name))
	}
	if from, ok := peer.FromContext(c); ok {
		attrs = append(attrs, slog.String("peer", from.Addr.String()))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.status.Message()))
		if cause := causeOf(err.cause); cause != "" {
			attrs = append(attrs, slog.String("cause", cause)) // what the caller is not told
		}
	}
	logger.LogAttrs(c, level, "call", attrs...)
}

// logLevel keeps out of an ordinary log what callers cause and expect, such as conflicts and requests that are too large, and
// what comes by the thousand and is said once for all elsewhere: the end of every open reader, and what limits refuse.
func logLevel(code codes.Code, err error) slog.Level {
	switch code {
	case codes.OK:
		return slog.LevelDebug
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return slog.LevelError
	}
	switch backend.ReasonOf(err) {
	case backend.ErrUnavailable, backend.ErrBroken, backend.ErrMemoryLimit:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
