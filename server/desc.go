package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/audit"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// serviceName is the public service. Its handlers decode the wire twin, which is the same on the wire but leaves payloads as
// the bytes that came; reflection shows the public messages.
var serviceName = taskstorev1.TaskStoreService_ServiceDesc.ServiceName

// serviceDesc takes the place of the generated one, which decodes the public messages. Next to each method is what it does with
// tasks, and what the audit log says of it: there is no method without a rule of who may call it, and what that leaves.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Save", auth.Write, saveNames, (*service).save, savedAs),
		unary("Get", auth.Read, namesTask, (*service).get, readAs),
		unary("List", auth.Read, namesNothing, (*service).list, saysNothing),
		unary("Delete", auth.Write, namesTask, (*service).delete, deletedAs),
		unary("ClaimKey", auth.Write, claimNames, (*service).claimKey, claimedAs),
		unary("ReleaseKey", auth.Write, releaseNames, (*service).releaseKey, saysNothing),
		unary("AppendEvent", auth.Write, namesTask, (*service).appendEvent, appendedAs),
	},
	Streams: []grpc.StreamDesc{
		serverStream("ReadEvents", auth.Read, namesTask, (*service).readEvents),
	},
	Metadata: taskstorev1.TaskStoreService_ServiceDesc.Metadata,
}

// unaryMethods are the full names of those methods, health checks included, that are answered with one message.
var unaryMethods = func() map[string]bool {
	methods := make(map[string]bool)
	for _, desc := range []*grpc.ServiceDesc{&serviceDesc, &healthgrpc.Health_ServiceDesc} {
		for _, m := range desc.Methods {
			methods["/"+desc.ServiceName+"/"+m.MethodName] = true
		}
	}
	return methods
}()

// message is a pointer to the generated message of a request. Every request has a scope.
type message[T any] interface {
	*T
	proto.Message
	GetScope() *taskstorev1.Scope
}

// unary describes a method. The request is decoded behind the interceptors, as a stream's is: what they refuse is never
// parsed, and they see, and log, what does not decode. They do not see the request's fields.
func unary[T any, Req message[T], Resp any](
	name string, access auth.Access,
	names func(Req, *audit.Entry), call func(*service, context.Context, Req) (Resp, error), answers func(Resp, *audit.Entry),
) grpc.MethodDesc {
	info := &grpc.UnaryServerInfo{FullMethod: "/" + serviceName + "/" + name}
	accessOf[info.FullMethod] = access
	handle := func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		handler := func(ctx context.Context, _ any) (any, error) {
			req := Req(new(T))
			s := srv.(*service)
			size, err := decode(req, dec, s.admit, callOf(ctx))
			if err != nil {
				return nil, err
			}
			entry := s.named(ctx, access, req.GetScope())
			if entry != nil {
				names(req, entry)
			}
			if err := s.enter(ctx, access, req.GetScope(), size, false); err != nil {
				return nil, err
			}
			resp, err := call(s, ctx, req)
			if err != nil {
				return nil, err
			}
			if entry != nil {
				answers(resp, entry)
			}
			return s.leave(ctx, resp), nil
		}
		if interceptor == nil {
			return handler(ctx, nil)
		}
		return interceptor(ctx, nil, info, handler)
	}
	return grpc.MethodDesc{MethodName: name, Handler: handle}
}

// serverStream describes a method that answers one request with a stream. Its line in the audit log is written when the stream
// begins.
func serverStream[T any, Req message[T]](
	name string, access auth.Access, names func(Req, *audit.Entry), call func(*service, Req, grpc.ServerStream) error,
) grpc.StreamDesc {
	accessOf["/"+serviceName+"/"+name] = access
	handle := func(srv any, stream grpc.ServerStream) error {
		req := Req(new(T))
		size, err := decode(req, stream.RecvMsg, nil, callOf(stream.Context()))
		if err != nil {
			return err
		}
		s := srv.(*service)
		if entry := s.named(stream.Context(), access, req.GetScope()); entry != nil {
			names(req, entry)
		}
		if err := s.enter(stream.Context(), access, req.GetScope(), size, true); err != nil {
			return err
		}
		return call(s, req, stream)
	}
	return grpc.StreamDesc{StreamName: name, Handler: handle, ServerStreams: true}
}

// request is what the codec decodes a request of this service into.
type request struct {
	msg  proto.Message
	size int
	err  error

	// admit, unless nil, decides whether the call may run once its request is there: a caller that sends the headers of calls
	// and never their requests must not take the place of others.
	admit *admission
	call  *call
}

// decode receives one request, and returns its size.
func decode(msg proto.Message, receive func(any) error, admit *admission, c *call) (int, error) {
	req := &request{msg: msg, admit: admit, call: c}
	if err := receive(req); err != nil {
		c.broken = !errors.Is(c.Err(), context.DeadlineExceeded)
		return 0, err
	}
	if backend.ReasonOf(req.err) != "" {
		return 0, req.err
	}
	if req.err != nil {
		return 0, &invalidError{violations: []violation{{detail: "the request is malformed, or has text that is not UTF-8"}}}
	}
	return req.size, nil
}
