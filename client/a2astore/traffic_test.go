package a2astore

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// traffic counts the bytes of the requests of a connection, as they go over the wire.
type traffic struct{ requests, bytes atomic.Int64 }

func (*traffic) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*traffic) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*traffic) HandleConn(context.Context, stats.ConnStats)                       {}

func (c *traffic) HandleRPC(_ context.Context, s stats.RPCStats) {
	if out, ok := s.(*stats.OutPayload); ok {
		c.requests.Add(1)
		c.bytes.Add(int64(out.WireLength))
	}
}

// An agent of a2a-go that streams an answer in 500 pieces of 1 KB sends each of them twice: as what changes of the task, and
// as the event that readers of the log get. The task itself goes out once, when it is small.
func TestStreamedChunksAreNotSentAgain(t *testing.T) {
	t.Parallel()
	const chunks, size = 500, 1000
	sent := &traffic{}
	s := New(serveMemory(t, grpc.WithStatsHandler(sent)))
	h := newHandler(&agent{execute: func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
		if !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) ||
			!yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart("soon"))), nil) {
			return
		}
		var id a2a.ArtifactID
		for i := range chunks {
			part := a2a.NewTextPart(strings.Repeat(string(rune('a'+i%26)), size))
			event := a2a.NewArtifactUpdateEvent(ec, id, part)
			if i == 0 {
				event = a2a.NewArtifactEvent(ec, part)
				id = event.Artifact.ID
			}
			if !yield(event, nil) {
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}}, s)

	ctx := as(t.Context(), "alice")
	var last a2a.Event
	for e, err := range h.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: userMessage("hi")}) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	// Around the two copies of a piece are the ids of the task, the context, the artifact and the write.
	if got, most := sent.bytes.Load(), int64(chunks*(2*size+300)); got > most {
		t.Errorf("%d bytes in %d requests, want at most %d", got, sent.requests.Load(), most)
	}
	task := mustGet(t, s, ctx, last.TaskInfo().TaskID).Task
	if task.Status.State != a2a.TaskStateCompleted || len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != chunks || len(task.History) != 2 {
		t.Fatalf("stored %v with %d artifacts and a history of %d", task.Status.State, len(task.Artifacts), len(task.History))
	}
	for i, p := range task.Artifacts[0].Parts {
		if p.Text() != strings.Repeat(string(rune('a'+i%26)), size) {
			t.Fatalf("part %d is %.20q", i, p.Text())
		}
	}
}
