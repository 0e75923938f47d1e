package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

const mib = 1 << 20

// envAttack has the test program do nothing but attack a server, as its arguments say, until its standard input ends: a
// process of its own can be given a priority of its own.
const envAttack = "TASKSTORE_TEST_ATTACK"

// attack strains the server at an address until ctx ends, with as many of what it is made of as are given. It calls begun,
// which may be called again, once the strain is there. An error is what the server must not do, however hard it is pressed.
type attack func(ctx context.Context, target string, n int, begun func()) error

var attacks = map[string]attack{
	"idle readers":        readIdle,
	"stalled readers":     readStalled,
	"large saves":         saveLarge,
	"huge frames":         flood(hugeFrame),
	"tiny frames":         flood(tinyFrames),
	"reset streams":       flood(resetStreams),
	"headers without end": flood(continueHeaders),
}

// attackMain is the attacking program. Its arguments are the attack, the address and the number.
func attackMain() int {
	run := attacks[os.Args[1]]
	n, err := strconv.Atoi(os.Args[3])
	if run == nil || err != nil {
		fmt.Fprintln(os.Stderr, "no such attack:", os.Args[1:])
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	begun := sync.OnceFunc(func() { fmt.Println("begun") })
	if err := run(ctx, os.Args[2], n, begun); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func dial(target string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

// readIdle opens readers on four connections, to which nothing ever comes.
func readIdle(ctx context.Context, target string, n int, begun func()) error {
	if err := readFirst(ctx, target, n, 4, "idle"); err != nil {
		return err
	}
	begun()
	<-ctx.Done()
	return nil
}

// readStalled makes a log that is larger than what the server may hold for one of n readers, which take none of it.
func readStalled(ctx context.Context, target string, n int, begun func()) error {
	conn, err := dial(target)
	if err != nil {
		return err
	}
	defer conn.Close()
	event := &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_Message{Message: &taskstorev1.Message{
		MessageId: "m", Role: taskstorev1.Role_ROLE_AGENT, Parts: []*taskstorev1.Part{text(4 * mib)},
	}}}
	for range 15 { // within what logs keep
		req := &taskstorev1.AppendEventRequest{TaskId: "large", Events: []*taskstorev1.StreamResponse{event}}
		if _, err := taskstorev1.NewTaskStoreServiceClient(conn).AppendEvent(ctx, req); err != nil {
			return err
		}
	}
	const window = 64 << 10
	if err := readFirst(ctx, target, n, n, "large", grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window)); err != nil {
		return err
	}
	begun()
	<-ctx.Done()
	return nil
}

// readFirst opens readers of a log on some connections, which take their first frame and no more.
func readFirst(ctx context.Context, target string, readers, connections int, id string, options ...grpc.DialOption) error {
	return each(connections, func(int) error {
		conn, err := dial(target, options...)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		for range readers / connections {
			stream, err := taskstorev1.NewTaskStoreServiceClient(conn).ReadEvents(ctx, &taskstorev1.ReadEventsRequest{TaskId: id})
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				return fmt.Errorf("a reader: %w", err)
			}
		}
		return nil
	})
}

// saveLarge saves tasks of 8 MiB, without a pause also where they are refused.
func saveLarge(ctx context.Context, target string, n int, begun func()) error {
	return each(n, func(i int) error {
		conn, err := dial(target)
		if err != nil {
			return err
		}
		defer conn.Close()
		for ctx.Err() == nil {
			_, err := taskstorev1.NewTaskStoreServiceClient(conn).Save(ctx, saveOf(fmt.Sprint("large-", i), 8*mib))
			if err != nil && ctx.Err() == nil && refusal(err) == 0 {
				return fmt.Errorf("a large save: %w", err)
			}
			begun()
		}
		return nil
	})
}

// each runs n at once, and returns one of their errors as soon as there is one.
func each(n int, run func(int) error) error {
	ended := make(chan error, n)
	for i := range n {
		go func() { ended <- run(i) }()
	}
	for range n {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// refusal is when a call may be tried again that was refused for overload, or 0.
func refusal(err error) time.Duration {
	overloaded, wait := false, time.Duration(0)
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			overloaded = d.GetReason() == "OVERLOADED"
		case *errdetails.RetryInfo:
			wait = d.GetRetryDelay().AsDuration()
		}
	}
	if !overloaded || status.Code(err) != codes.ResourceExhausted {
		return 0
	}
	return wait
}

func small(id string) *taskstorev1.SaveRequest { return saveOf(id, 100) }

func saveOf(id string, size int) *taskstorev1.SaveRequest {
	return &taskstorev1.SaveRequest{
		Write: &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{
			Id: id, Status: &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_WORKING},
			Artifacts: []*taskstorev1.Artifact{{ArtifactId: "a", Parts: []*taskstorev1.Part{text(size)}}},
		}},
		Precondition: &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Any{Any: &emptypb.Empty{}}},
	}
}

func text(size int) *taskstorev1.Part {
	return &taskstorev1.Part{Content: &taskstorev1.Part_Text{Text: strings.Repeat("x", size)}}
}
