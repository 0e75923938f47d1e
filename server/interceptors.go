package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/audit"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// What happens around every call, of this service and of those beside it, is one interceptor, not a chain: each link of a
// chain costs allocations and stack on the hot path, as much in sum as the store itself. begin and end are the steps; both
// forms of calls take them.

// aroundUnary is the interceptor of unary calls. It does not see the request: that is decoded and validated by the handler.
func (s *Server) aroundUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	c := &call{Context: ctx, method: info.FullMethod, began: time.Now(), counts: s.calls.Begin(info.FullMethod)}
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		s.admit.leave(c)
		if err = s.end(c, err); err != nil {
			resp = nil
		}
	}()
	c.enterConnection()
	if err := s.begin(c); err != nil {
		return nil, err
	}
	return handler(c, req)
}

// aroundStream is the interceptor of streams. A drain ends their context, and so does the end of what allowed them.
func (s *Server) aroundStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.draining, func() { cancel(context.Cause(s.draining)) })
	defer stop()
	c := &call{Context: ctx, method: info.FullMethod, began: time.Now(), counts: s.calls.Begin(info.FullMethod)}
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		s.admit.leave(c)
		err = s.end(c, err)
	}()
	if err := s.begin(c); err != nil {
		return err
	}
	if err := s.admit.stream(c); err != nil {
		return err
	}
	if end, ok := s.admit.outlive(c); ok {
		timer := time.AfterFunc(time.Until(end), func() { cancel(errConnectionAge(-1)) })
		defer timer.Stop()
	}
	if c.session != nil {
		defer c.session.Watch(cancel)()
	}
	return handler(srv, &endableStream{ServerStream: stream, call: c, audit: s.cfg.Audit, patience: s.cfg.Limits.DefaultTimeout})
}

// endableStream is a stream that can be ended from this side while it waits for its caller.
type endableStream struct {
	grpc.ServerStream
	call  *call
	audit *audit.Log
	// patience is how long the first request may take; 0 once it is there.
	patience time.Duration
}

func (s *endableStream) Context() context.Context { return s.call }

// SendMsg sends a message. The first one says that the caller may read, so that what it reads is preceded by its line.
func (s *endableStream) SendMsg(m any) error {
	s.call.audit(s.audit, nil)
	return s.ServerStream.SendMsg(m)
}

// RecvMsg receives a message, or fails with the cause of the context's end, or when the first one does not come. What it leaves
// behind then ends with the handler.
func (s *endableStream) RecvMsg(m any) error {
	received := make(chan error, 1)
	go func() { received <- s.ServerStream.RecvMsg(m) }()
	var late <-chan time.Time
	if s.patience > 0 {
		timer := time.NewTimer(s.patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case err := <-received:
		s.patience = 0
		return err
	case <-s.call.Done():
		return context.Cause(s.call)
	case <-late:
		return context.DeadlineExceeded
	}
}

// begin decides whether a call may run. It refuses what begins once the server ends its streams; what runs goes on to its end.
func (s *Server) begin(c *call) error {
	if s.draining.Err() != nil && s.refuses(c.method) {
		return errDraining(-1)
	}
	if err := s.authenticate(c); err != nil {
		return err
	}
	return s.admit.authenticated(c)
}

// refuses reports whether a drain concerns a method: health checks are answered to the end.
func (s *Server) refuses(fullMethod string) bool {
	return strings.HasPrefix(fullMethod, "/"+serviceName+"/")
}

// end is the one place where an error becomes the status that the caller gets, and is logged.
func (s *Server) end(c *call, err error) error {
	if err == nil {
		c.counts.End(codes.OK, c.began)
		c.audit(s.cfg.Audit, nil)
		c.log(s.cfg.Logger, nil)
		return nil
	}
	st := toStatus(err)
	s.admit.waste(c)
	c.counts.End(st.status.Code(), c.began)
	c.audit(s.cfg.Audit, st)
	if reason := backend.ReasonOf(st); limit.Refused(reason) {
		s.seen.Refused(reason, limit.ScopeOf(st))
		s.admit.note()
	}
	// Fails only where the stream is gone, and then nobody reads it.
	_ = grpc.SetTrailer(c, metadata.Pairs(requestIDHeader, c.requestID()))
	c.log(s.cfg.Logger, st)
	return st
}

// panicked is the error of a handler that panicked: the caller learns that there is a bug, the log what and where.
func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }
