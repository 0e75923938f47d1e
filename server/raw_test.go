package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// rawMessage is the body of a message as it is.
type rawMessage []byte

// rawCodec sends and receives rawMessages under the name of protobuf.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	raw, ok := v.(*rawMessage)
	if !ok {
		return nil, errors.New("not a raw message")
	}
	return mem.BufferSlice{mem.SliceBuffer(*raw)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*rawMessage) = data.Materialize()
	return nil
}

// methods names the methods that are not streams.
func methods() []string {
	var names []string
	for _, m := range pb.TaskStoreService_ServiceDesc.Methods {
		names = append(names, m.MethodName)
	}
	return names
}

// callRaw makes a call with any body, and returns the first answer.
func (f *fixture) callRaw(ctx context.Context, method string, body rawMessage) (answer rawMessage, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	full := "/" + serviceName + "/" + method
	codec := grpc.ForceCodecV2(rawCodec{})
	if method != "ReadEvents" {
		err = f.conn.Invoke(ctx, full, &body, &answer, codec)
		return answer, err
	}
	stream, err := f.conn.NewStream(ctx, &pb.TaskStoreService_ServiceDesc.Streams[0], full, codec)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&body); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	err = stream.RecvMsg(&answer)
	return answer, err
}
