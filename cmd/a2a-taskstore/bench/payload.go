package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// owner owns all tasks.
const owner = "owner"

// artifactID is the one artifact that tasks have.
const artifactID = "answer"

func taskName(n int) string    { return fmt.Sprintf("task-%08d", n) }
func contextName(n int) string { return fmt.Sprintf("context-%06d", n) }

// text returns so many bytes of text that compresses about as badly as what agents write in base64: files and pictures.
// The same arguments give the same text.
func text(n int, salt uint64) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r := rand.New(rand.NewPCG(1, salt))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.Uint32()%64]
	}
	return string(b)
}

func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // the messages are ours
	}
	return b
}

func textParts(s string) []*taskstorev1.Part {
	return []*taskstorev1.Part{{Content: &taskstorev1.Part_Text{Text: s}}}
}

func status(state taskstorev1.TaskState, at time.Time) *taskstorev1.TaskStatus {
	return &taskstorev1.TaskStatus{State: state, Timestamp: timestamppb.New(at)}
}

// head encodes a task without artifacts and history.
func head(id, contextID string, state taskstorev1.TaskState, at time.Time) []byte {
	return encode(&taskstorev1.Task{Id: id, ContextId: contextID, Status: status(state, at)})
}

// body encodes the artifacts of a task that is so large altogether; at least one of one byte.
func body(size int) []byte {
	overhead := len(head(taskName(0), contextName(0), working, time.Now())) + 16
	return encode(&taskstorev1.Task{Artifacts: []*taskstorev1.Artifact{
		{ArtifactId: artifactID, Parts: textParts(text(max(size-overhead, 1), uint64(size)))},
	}})
}

const working = taskstorev1.TaskState_TASK_STATE_WORKING

// message is one turn of a history, of about so many bytes.
func message(id string, size int) *taskstorev1.Message {
	return &taskstorev1.Message{
		MessageId: id, Role: taskstorev1.Role_ROLE_AGENT, Parts: textParts(text(size, uint64(size))),
	}
}

// statusEvent encodes the event of a status change.
func statusEvent(id, contextID string, s *taskstorev1.TaskStatus) []byte {
	return encode(&taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_StatusUpdate{
		StatusUpdate: &taskstorev1.TaskStatusUpdateEvent{TaskId: id, ContextId: contextID, Status: s},
	}})
}

// chunkEvent encodes the event of a chunk appended to the artifact.
func chunkEvent(id, contextID string, parts []*taskstorev1.Part) []byte {
	return encode(&taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_ArtifactUpdate{
		ArtifactUpdate: &taskstorev1.TaskArtifactUpdateEvent{
			TaskId: id, ContextId: contextID, Append: true,
			Artifact: &taskstorev1.Artifact{ArtifactId: artifactID, Parts: parts},
		},
	}})
}

// historyOf encodes a task with so many messages and nothing else beside its head.
func historyOf(id, contextID string, messages int) []byte {
	t := &taskstorev1.Task{Id: id, ContextId: contextID, Status: status(working, time.Now())}
	for i := range messages {
		t.History = append(t.History, message("message-"+strconv.Itoa(i), 100))
	}
	return encode(t)
}
