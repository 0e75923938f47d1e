package server

import (
	"context"
	"strings"

	"google.golang.org/grpc/credentials"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// authenticate finds out who makes a call. Health is open to everybody; all else, reflection too, needs a principal.
func (s *Server) authenticate(c *call) error {
	if s.cfg.Auth == nil || strings.HasPrefix(c.method, healthMethods) {
		return nil
	}
	session, err := s.cfg.Auth.Authenticate(c.Context)
	if err != nil {
		return err
	}
	c.session = session
	return nil
}

var healthMethods = "/" + healthgrpc.Health_ServiceDesc.ServiceName + "/"

// authorize is the one place where a request is allowed or not: behind its decoding, in front of everything that looks
// something up.
func (s *service) authorize(ctx context.Context, access auth.Access, scope *taskstorev1.Scope) error {
	if !s.guarded {
		return nil
	}
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok || c.session == nil {
		return auth.ErrMissing
	}
	return c.session.Authorize(access, scope.GetTenant(), scope != nil && scope.Owner != nil)
}

// enter decides whether a request that was decoded is handled: whether it is allowed, leaves the trace
// that it must, and is within the limits.
func (s *service) enter(ctx context.Context, access auth.Access, scope *taskstorev1.Scope, size int, stream bool) error {
	if err := s.authorize(ctx, access, scope); err != nil {
		return err
	}
	if err := s.auditable(ctx, access); err != nil {
		return err
	}
	return s.admit.received(callOf(ctx), scope.GetTenant(), size, stream)
}

// leave returns a response as it is sent.
func (s *service) leave(ctx context.Context, resp any) any {
	c := callOf(ctx)
	if c.metered() {
		s.admit.moved(c, sizeOf(resp))
	}
	if c.response != nil {
		return &heldMessage{resp, c.response}
	}
	return resp
}

// sizeOf returns the size of a response in bytes, give or take what is beside its payloads.
func sizeOf(resp any) int {
	switch r := resp.(type) {
	case *getReply:
		return r.weight()
	case proto.Message:
		return proto.Size(r)
	default:
		return 0
	}
}

// whileAllowed returns a context for what takes long in a unary call. It ends, with the reason as its cause, when the call is
// not allowed any more.
func whileAllowed(ctx context.Context) (_ context.Context, stop func()) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok || c.session == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	release := c.session.Watch(cancel)
	return ctx, func() { release(); cancel(nil) }
}

// credentials secure the server's connections; nil is plain text.
func (c *Config) credentials() credentials.TransportCredentials {
	if c.TLS == nil {
		return nil
	}
	return c.TLS.Credentials()
}
