package bench

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var serviceName = taskstorev1.TaskStoreService_ServiceDesc.ServiceName

func fullMethod(method string) string { return "/" + serviceName + "/" + method }

// newEcho is the least that a gRPC server can do: it takes a request as bytes and sends a reply that is ready. It answers
// under the names of the service, so that the very same calls can be made.
func newEcho(replies map[string][]byte) *grpc.Server {
	desc := grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil)}
	for method, reply := range replies {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{
			MethodName: method,
			Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var request opaque
				return opaque(reply), dec(&request)
			},
		})
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(opaqueCodec{}), grpc.MaxRecvMsgSize(maxMessage))
	s.RegisterService(&desc, nil)
	return s
}

// opaque is a message that is not looked at.
type opaque []byte

// opaqueCodec leaves messages in the buffers that they came in.
type opaqueCodec struct{}

var _ encoding.CodecV2 = opaqueCodec{}

func (opaqueCodec) Name() string { return proto.Name }

func (opaqueCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(opaque)
	if !ok {
		return nil, fmt.Errorf("echo: cannot send %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m)}, nil
}

func (opaqueCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
