package server

import (
	"context"
	"strings"

	"google.golang.org/grpc/credentials"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

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
