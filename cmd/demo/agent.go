package main

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/a2a-taskstore/taskstore/client"
	"github.com/a2a-taskstore/taskstore/client/a2astore"
)

// verses is what the agent writes, chunk by chunk.
var verses = func() []string {
	out := make([]string, 60)
	for i := range out {
		out[i] = "line " + strconv.Itoa(i+1) + "\n"
	}
	return out
}()

// pace is the pause between two chunks.
const pace = 50 * time.Millisecond

// user is who the demo's client is, as an authenticating proxy would tell the agent.
const user = "demo-user"

// writer is an agent that writes its verses into one artifact.
type writer struct{}

func (writer) Execute(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if !yield(a2a.NewSubmittedTask(exec, exec.Message), nil) ||
			!yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateWorking, nil), nil) {
			return
		}
		first := a2a.NewArtifactEvent(exec, a2a.NewTextPart(verses[0]))
		if !yield(first, nil) {
			return
		}
		for _, verse := range verses[1:] {
			select {
			case <-time.After(pace):
			case <-ctx.Done():
				return
			}
			if !yield(a2a.NewArtifactUpdateEvent(exec, first.Artifact.ID, a2a.NewTextPart(verse)), nil) {
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCompleted, nil), nil)
	}
}

func (writer) Cancel(_ context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCanceled, nil), nil)
	}
}

// signedIn stands in for the authentication that a real agent has.
type signedIn struct {
	a2asrv.PassthroughCallInterceptor
}

func (signedIn) Before(ctx context.Context, call *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	call.User = a2asrv.NewAuthenticatedUser(user, nil)
	return ctx, nil, nil
}

// newHandler is the agent with its tasks in the store.
func newHandler(conn *client.Client) a2asrv.RequestHandler {
	return a2asrv.NewHandler(writer{},
		a2asrv.WithTaskStore(a2astore.New(conn)), // the line that shares the tasks
		a2asrv.WithCallInterceptors(signedIn{}),
	)
}

// replica is one replica of the agent, and a client of it.
type replica struct {
	name   string
	url    string
	client *a2aclient.Client
	close  func()
}

func newReplica(ctx context.Context, name, storeAddress string) (*replica, error) {
	conn, err := client.Dial(storeAddress)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("replica %s cannot listen: %w", name, err)
	}
	web := &http.Server{Handler: a2asrv.NewJSONRPCHandler(newHandler(conn)), ReadHeaderTimeout: 10 * time.Second}
	go web.Serve(listener)
	url := "http://" + listener.Addr().String()
	c, err := a2aclient.NewFromEndpoints(ctx, []*a2a.AgentInterface{a2a.NewAgentInterface(url, a2a.TransportProtocolJSONRPC)})
	if err != nil {
		return nil, fmt.Errorf("client of replica %s: %w", name, err)
	}
	return &replica{name: name, url: url, client: c, close: func() {
		c.Destroy()
		web.Close()
		conn.Close()
	}}, nil
}
