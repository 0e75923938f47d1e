package pebble

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func text(r *rand.Rand) string { return fmt.Sprintf("%0*d", 1+r.IntN(200), r.Uint32()) }

// count is how many artifacts or messages a whole save has: few, or too many to be deleted one by one.
func count(r *rand.Rand) int {
	if r.IntN(10) == 0 {
		return clearByKey + r.IntN(10)
	}
	return r.IntN(4)
}

func textPart(s string) *pb.Part { return &pb.Part{Content: &pb.Part_Text{Text: s}} }

func artifact(r *rand.Rand, id string) *pb.Artifact {
	a := &pb.Artifact{ArtifactId: id, Name: text(r)}
	for range r.IntN(3) {
		a.Parts = append(a.Parts, textPart(text(r)))
	}
	return a
}

func message(r *rand.Rand) *pb.Message {
	return &pb.Message{MessageId: text(r), Parts: []*pb.Part{textPart(text(r))}}
}

func status(r *rand.Rand) *pb.TaskStatus {
	s := &pb.TaskStatus{State: pb.TaskState_TASK_STATE_WORKING}
	if r.IntN(2) == 0 {
		s.State = pb.TaskState_TASK_STATE_INPUT_REQUIRED
	}
	if r.IntN(5) > 0 {
		s.Timestamp = timestamppb.New(time.Unix(int64(r.IntN(1000)), int64(r.IntN(1000))))
	}
	return s
}

func event(r *rand.Rand, id string) document.Event {
	return must(document.ParseEvent(encode(&pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{
		MessageId: id, Parts: []*pb.Part{textPart(text(r))},
	}}})))
}

func encode(m proto.Message) []byte {
	return must(proto.MarshalOptions{Deterministic: true}.Marshal(m))
}

func decodeTask(b []byte) *pb.Task {
	t := &pb.Task{}
	if err := proto.Unmarshal(b, t); err != nil {
		panic(err)
	}
	return t
}

// must is for values that the test makes itself.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
