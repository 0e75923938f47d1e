package server

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/server/limit"
)

// heldMessage is a message whose encoding is held until gRPC has written it to the connection: handing it to SendMsg, or
// returning it, says nothing of when the caller takes it.
type heldMessage struct {
	msg  any // what the codec encodes
	held *limit.Held
}

// encode returns the message in buffers, the last large one of which releases what is held when gRPC frees it.
func (m *heldMessage) encode(c codec) (mem.BufferSlice, error) {
	out, err := m.buffers(c)
	if err != nil {
		m.held.Release()
		return nil, err
	}
	for i := len(out) - 1; i >= 0; i-- {
		piece := out[i].ReadOnlyData()
		if !mem.IsBelowBufferPoolingThreshold(cap(piece)) {
			out[i] = mem.NewBuffer(&piece, releasing{m.held})
			return out, nil
		}
	}
	m.held.Release() // of buffers so small gRPC says nothing
	return out, nil
}

func (m *heldMessage) buffers(c codec) (mem.BufferSlice, error) {
	msg, ok := m.msg.(proto.Message)
	if !ok {
		return c.Marshal(m.msg)
	}
	// Exactly as large as it is: gRPC's pools round up, by a lot.
	b, err := proto.Marshal(msg)
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// releasing is the pool that the buffer of a heldMessage goes back to.
type releasing struct{ held *limit.Held }

// Get returns a new buffer.
func (releasing) Get(length int) *[]byte { b := make([]byte, length); return &b }

// Put releases.
func (r releasing) Put(*[]byte) { r.held.Release() }
