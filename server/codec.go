package server

import (
	"bytes"
	"slices"
	"time"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// codec is gRPC's codec for protobuf, with three exceptions. A request that does not decode is handed on with its error: gRPC
// would answer INTERNAL by itself. A large whole task is copied once on its way to the store, not twice, and the task of a Get
// not at all on its way back.
type codec struct {
	encoding.CodecV2
	maxBytes int // of a request
}

// oversize is by how much a request may pass the limit and still be refused with a reason; beyond it, gRPC refuses it as it
// comes, without one.
const oversize = 4 << 20

func newCodec(maxBytes int) codec { return codec{encoding.GetCodecV2(grpcproto.Name), maxBytes} }

// Unmarshal decodes data into v.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	req, ok := v.(*request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	size := data.Len()
	if size > c.maxBytes {
		req.err = &backend.Error{
			Reason: reasonMessageTooLarge, Detail: "the request is larger than a message may be",
			Meta: map[string]string{"size": itoa(int64(size)), "limit": itoa(int64(c.maxBytes))},
		}
		return nil
	}
	req.size = size
	if req.admit != nil {
		if req.err = req.admit.unary(req.call); req.err != nil {
			return nil
		}
	}
	if save, ok := req.msg.(*wirev1.SaveRequest); ok && size >= shareFrom {
		req.err = unmarshalSharing(joined(data), save)
		return nil
	}
	req.err = c.CodecV2.Unmarshal(data, req.msg)
	return nil
}

// shareFrom is the size in bytes from which copying a task costs more than the care that sharing takes.
const shareFrom = 16 << 10

// joined copies data into memory of its own. Unlike BufferSlice.Materialize, bytes.Join does not clear it first.
func joined(data mem.BufferSlice) []byte {
	chunks := make([][]byte, len(data))
	for i, chunk := range data {
		chunks[i] = chunk.ReadOnlyData()
	}
	return bytes.Join(chunks, nil)
}

// unmarshalSharing decodes b, which becomes the memory of the task if that is most of it. A store may keep a payload for as
// long as it likes, so nothing else may hold on to b: the rest is copied, as proto.Unmarshal does.
func unmarshalSharing(b []byte, req *wirev1.SaveRequest) error {
	var tasks [][]byte
	var rest []byte
	for left := b; len(left) > 0; {
		num, typ, n := protowire.ConsumeField(left)
		if n < 0 {
			return protowire.ParseError(n)
		}
		field := left[:n:n]
		left = left[n:]
		if num == saveTask && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(field)
			task, _ := protowire.ConsumeBytes(field[tag:])
			tasks = append(tasks, task)
		} else if rest = append(rest, field...); len(rest) > len(b)/8 {
			return proto.Unmarshal(b, req)
		}
	}
	if err := proto.Unmarshal(rest, req); err != nil {
		return err
	}
	req.Task = tasks
	return nil
}

// The numbers of the fields that are not left to package proto.
const (
	saveTask = 2 // SaveRequest.task
	getTask  = 1 // GetResponse.task
)

// getReply is a GetResponse whose task comes in pieces, which are sent as they are.
type getReply struct {
	rest  wirev1.GetResponse // without a task
	task  [][]byte
	times [4]timestamppb.Timestamp // of rest, so that they are one allocation
	whole [1][]byte                // the task in one piece
}

// stamp returns the i-th of the times, set; nil for the zero time.
func (r *getReply) stamp(i int, t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	ts := &r.times[i]
	ts.Seconds, ts.Nanos = t.Unix(), int32(t.Nanosecond())
	return ts
}

// weight is the size of the task, in bytes.
func (r *getReply) weight() int {
	size := 0
	for _, piece := range r.task {
		size += len(piece)
	}
	return size
}

// Marshal encodes v.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*heldMessage); ok {
		return m.encode(c)
	}
	reply, ok := v.(*getReply)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := reply.weight()
	if size < shareFrom {
		if len(reply.task) == 1 {
			reply.rest.Task = reply.task[0]
		} else {
			reply.rest.Task = slices.Concat(reply.task...)
		}
		return c.CodecV2.Marshal(&reply.rest)
	}
	head, err := proto.Marshal(&reply.rest)
	if err != nil {
		return nil, err
	}
	head = protowire.AppendTag(head, getTask, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(size))
	out := make(mem.BufferSlice, 0, 1+len(reply.task))
	out = append(out, mem.SliceBuffer(head))
	for _, piece := range reply.task {
		out = append(out, mem.SliceBuffer(piece))
	}
	return out, nil
}
