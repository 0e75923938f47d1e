package server

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// However the fields of a large request lie, and wherever its bytes are cut in buffers, it decodes as proto.Unmarshal does it,
// and nothing but the task shares memory with the input.
func TestLargeSaveDecodesAsAnyOther(t *testing.T) {
	t.Parallel()
	c := newCodec(16 << 20)
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.Custom(func(t *rapid.T) []byte {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0, 1:
				size := rapid.SampledFrom([]int{0, 10, shareFrom, 4 * shareFrom}).Draw(t, "size")
				return appendBytes(saveTask, bytes.Repeat([]byte{0x5a}, size))
			case 2:
				return appendBytes(5, appendBytes(1, []byte("an event")))
			case 3:
				return appendBytes(6, []byte("write-id"))
			case 4: // of another type than the field has, and unknown
				return append(protowire.AppendVarint(protowire.AppendTag(nil, saveTask, protowire.VarintType), 7), appendBytes(99, []byte("x"))...)
			default:
				return rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "garbage")
			}
		})
		b := bytes.Join(rapid.SliceOfN(field, 1, 6).Draw(t, "fields"), nil)
		var want, got wirev1.SaveRequest
		wantErr := proto.Unmarshal(b, &want)

		cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
		input := mem.BufferSlice{mem.SliceBuffer(b[:cut]), mem.SliceBuffer(bytes.Clone(b[cut:]))}
		req := &request{msg: &got}
		if err := c.Unmarshal(input, req); err != nil {
			t.Fatal(err)
		}
		clear(b)
		if (req.err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", req.err, wantErr)
		}
		if wantErr == nil && !proto.Equal(&got, &want) {
			t.Fatalf("%d tasks, %d events, %d unknown; want %d, %d, %d", len(got.Task), len(got.Events), len(got.ProtoReflect().GetUnknown()),
				len(want.Task), len(want.Events), len(want.ProtoReflect().GetUnknown()))
		}
	})
}

// A reply in pieces is the reply in one.
func TestGetReplyInPieces(t *testing.T) {
	t.Parallel()
	c := newCodec(16 << 20)
	for _, sizes := range [][]int{{}, {0}, {10}, {shareFrom}, {10, shareFrom, 0, 3}, {shareFrom, shareFrom}} {
		reply := &getReply{}
		reply.rest.Version, reply.rest.Owner = 7, "owner"
		want := &wirev1.GetResponse{Version: 7, Owner: "owner"}
		for i, n := range sizes {
			piece := bytes.Repeat([]byte{byte(i + 1)}, n)
			reply.task, want.Task = append(reply.task, piece), append(want.Task, piece...)
		}
		data, err := c.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		got := &wirev1.GetResponse{}
		if err := proto.Unmarshal(data.Materialize(), got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Errorf("%v: got %d bytes, version %d, owner %q", sizes, len(got.Task), got.Version, got.Owner)
		}
	}
}

func appendBytes(num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), value)
}
