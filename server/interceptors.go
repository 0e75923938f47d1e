package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// interceptor is a step that every call takes, in its two forms.
type interceptor struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// around is a step that is the same for unary calls and streams: what happens around the rest of the call.
type around func(ctx context.Context, next func(context.Context) error) error

func (a around) interceptor() interceptor {
	return interceptor{
		unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			var resp any
			err := a(ctx, func(ctx context.Context) (err error) {
				resp, err = handler(ctx, req)
				return err
			})
			if err != nil {
				return nil, err
			}
			return resp, nil
		},
		stream: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return a(stream.Context(), func(ctx context.Context) error {
				wrapped := middleware.WrapServerStream(stream)
				wrapped.WrappedContext = ctx
				return handler(srv, wrapped)
			})
		},
	}
}

// interceptors returns what every call goes through, outermost first. Steps outside of translateErrors see statuses, steps
// inside return plain errors. Metrics belong in front of logCalls; deadline, concurrency limit and authentication, in this
// order, behind drain. None of them sees a request: those are decoded and validated behind the last.
func (s *Server) interceptors() []interceptor {
	return []interceptor{
		around(requestID).interceptor(),
		around(s.logCalls).interceptor(),
		around(translateErrors).interceptor(),
		{recovery.UnaryServerInterceptor(), recovery.StreamServerInterceptor()},
		{s.drainUnary, s.drainStream},
	}
}

func chain(steps []interceptor) []grpc.ServerOption {
	var unary []grpc.UnaryServerInterceptor
	var stream []grpc.StreamServerInterceptor
	for _, step := range steps {
		unary = append(unary, step.unary)
		stream = append(stream, step.stream)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...)}
}

// requestIDHeader is the metadata key by which a call is found in the log. A caller may choose the id; it is returned as a
// header.
const requestIDHeader = "x-request-id"

type requestIDKey struct{}

func requestID(ctx context.Context, next func(context.Context) error) error {
	id := ""
	if given := metadata.ValueFromIncomingContext(ctx, requestIDHeader); len(given) == 1 && usableID(given[0]) {
		id = given[0]
	} else {
		id = rand.Text()
	}
	if err := grpc.SetHeader(ctx, metadata.Pairs(requestIDHeader, id)); err != nil {
		return err
	}
	return next(context.WithValue(ctx, requestIDKey{}, id))
}

// usableID reports whether a caller's request id may stand in headers and logs.
func usableID(id string) bool {
	return id != "" && len(id) <= maxToken &&
		strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// logCalls writes a line per call. It is no library's because most lines are for nobody: those cost nothing here, where the
// usual interceptors build theirs first.
func (s *Server) logCalls(ctx context.Context, next func(context.Context) error) error {
	began := time.Now()
	err := next(ctx)
	code := status.Code(err)
	level := logLevel(code)
	if isDraining(err) {
		level = slog.LevelDebug // of every open reader
	}
	if !s.cfg.Logger.Enabled(ctx, level) {
		return err
	}
	method, _ := grpc.Method(ctx)
	attrs := []slog.Attr{
		slog.String("method", method),
		slog.String("code", code.String()),
		slog.Duration("duration", time.Since(began)),
		slog.Any("request_id", ctx.Value(requestIDKey{})),
	}
	if from, ok := peer.FromContext(ctx); ok {
		attrs = append(attrs, slog.String("peer", from.Addr.String()))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", status.Convert(err).Message()))
		if e, ok := errors.AsType[*statusError](err); ok {
			if cause := causeOf(e.cause); cause != "" {
				attrs = append(attrs, slog.String("cause", cause)) // what the caller is not told
			}
		}
	}
	s.cfg.Logger.LogAttrs(ctx, level, "call", attrs...)
	return err
}

// logLevel keeps what callers cause and expect, such as conflicts, out of an ordinary log.
func logLevel(code codes.Code) slog.Level {
	switch code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return slog.LevelError
	case codes.Unavailable, codes.ResourceExhausted:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// translateErrors is the one place where errors become statuses.
func translateErrors(ctx context.Context, next func(context.Context) error) error {
	if err := next(ctx); err != nil {
		return toStatus(err)
	}
	return nil
}

// drainUnary refuses calls that begin once the server ends its streams. Those that run go on to their end.
func (s *Server) drainUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if s.draining.Err() != nil && s.refuses(info.FullMethod) {
		return nil, errDraining(-1)
	}
	return handler(ctx, req)
}

// drainStream ends streams when the server does.
func (s *Server) drainStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if s.draining.Err() != nil && s.refuses(info.FullMethod) {
		return errDraining(-1)
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.draining, func() { cancel(context.Cause(s.draining)) })
	defer stop()
	wrapped := middleware.WrapServerStream(stream)
	wrapped.WrappedContext = ctx
	return handler(srv, wrapped)
}

// refuses reports whether a drain concerns a method: health checks are answered to the end.
func (s *Server) refuses(fullMethod string) bool {
	return strings.HasPrefix(fullMethod, "/"+serviceName+"/")
}
