package bench

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	"github.com/a2a-taskstore/taskstore/client"
	"github.com/a2a-taskstore/taskstore/client/a2astore"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// streamSteps is how many steps a stream is timed in: 50 events each of 500.
const streamSteps = 10

func runChunks(ctx context.Context, s *session, backend string) error {
	for _, size := range s.chunkSizes {
		err := s.inArena(func(a *arena) error {
			parts := textParts(text(size, uint64(size)))
			part := encode(parts[0])
			stream := func(t *target) *stream {
				return &stream{
					begin: func(ctx context.Context, task int) error { return saveTask(ctx, t, task, body(0)) },
					event: func(ctx context.Context, task, n int) error {
						id := taskName(task)
						delta := &wirev1.TaskDelta{TaskId: id, AppendParts: &wirev1.AppendParts{
							ArtifactId: artifactID, Parts: [][]byte{part}, BaseParts: proto.Int32(int32(n)),
						}}
						return t.save(ctx, t.change(delta, chunkEvent(id, contextOf(task), parts)))
					},
					events: s.chunks, steps: streamSteps, meters: t.meters,
				}
			}
			open, err := a.open(ctx, "w1", backend, nil, func(ctx context.Context, t *target) error {
				st := stream(t)
				if err := st.begin(ctx, 0); err != nil {
					return err
				}
				return st.event(ctx, 0, 1)
			})
			if err != nil {
				return err
			}
			contestants := open.contestants(func(t *target) func(context.Context) (Sample, error) {
				return s.streaming(stream(t))
			})
			floors, err := a.floors(ctx, backend)
			if err != nil {
				return err
			}
			for _, f := range floors {
				contestants = append(contestants, contestant{f.system, s.streaming(s.bareChunks(f, size))})
			}
			dropIn, meters, err := a.dropIn(open.service)
			if err != nil {
				return err
			}
			contestants = append(contestants,
				contestant{DropIn, s.streaming(s.sdkChunks(dropIn, size, meters))},
				contestant{SDK, s.streaming(s.sdkChunks(newSDKStore(), size, []meter{ownProcess}))})
			return s.compare(ctx, Case{Workload: "w1", Backend: backend, Size: size, Callers: 1}, contestants...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bareChunks is the stream as an engine without the store writes it.
func (s *session) bareChunks(b *openFloor, size int) *stream {
	parts := textParts(text(size, uint64(size)))
	part := encode(parts[0])
	write := func(ctx context.Context, task, n int, whole, chunk []byte) error {
		return b.put(ctx, &bareWrite{
			key: task, n: int64(n) + 1, at: time.Now(), task: whole, chunk: chunk,
			event: chunkEvent(taskName(task), contextOf(task), parts),
		})
	}
	return &stream{
		begin: func(ctx context.Context, task int) error {
			whole := append(head(taskName(task), contextOf(task), working, time.Now()), body(0)...)
			return write(ctx, task, 0, whole, nil)
		},
		event:  func(ctx context.Context, task, n int) error { return write(ctx, task, n, nil, part) },
		events: s.chunks, steps: streamSteps, meters: []meter{b.count},
	}
}

// sdkChunks is the stream as an agent of a2a-go makes it: it has the whole task in hand, and hands it to its store with
// each chunk.
func (s *session) sdkChunks(store taskstore.Store, size int, meters []meter) *stream {
	chunk := text(size, uint64(size))
	var task *a2a.Task
	var version taskstore.TaskVersion
	return &stream{
		begin: func(ctx context.Context, n int) (err error) {
			now := time.Now()
			task = &a2a.Task{
				ID: a2a.TaskID("sdk-" + strconv.Itoa(n)), ContextID: contextOf(n),
				Status:    a2a.TaskStatus{State: a2a.TaskStateWorking, Timestamp: &now},
				Artifacts: []*a2a.Artifact{{ID: artifactID, Parts: a2a.ContentParts{a2a.NewTextPart("x")}}},
			}
			version, err = store.Create(ctx, task)
			return err
		},
		event: func(ctx context.Context, _, _ int) (err error) {
			parts := a2a.ContentParts{a2a.NewTextPart(chunk)}
			prev := *task
			artifact := *task.Artifacts[0]
			artifact.Parts = append(artifact.Parts, parts...)
			task.Artifacts = []*a2a.Artifact{&artifact}
			version, err = store.Update(ctx, &taskstore.UpdateRequest{
				Task: task, PrevVersion: version, PrevTask: &prev,
				Event: &a2a.TaskArtifactUpdateEvent{
					TaskID: task.ID, ContextID: task.ContextID, Append: true, Artifact: &a2a.Artifact{ID: artifactID, Parts: parts},
				},
			})
			return err
		},
		events: s.chunks, steps: streamSteps, meters: meters,
	}
}

// dropIn connects what plugs into a2a-go to a service.
func (a *arena) dropIn(service *target) (taskstore.Store, []meter, error) {
	wire := new(atomic.Int64)
	c, err := client.Dial(service.address, client.WithInsecure(), client.WithDialOptions(countingDialer(wire)))
	if err != nil {
		return nil, nil, err
	}
	a.later(c.Close)
	// The service's, with the bytes of the connection that is used here instead of those of the other.
	meters := append(slices.Clone(service.meters), func(context.Context) (counters, error) {
		return counters{Wire: float64(wire.Load())}, nil
	})
	store := a2astore.New(c, a2astore.WithTenant(service.tenant), a2astore.WithAuthenticator(someOwner))
	return store, meters, nil
}

func newSDKStore() *taskstore.InMemory {
	return taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: someOwner})
}

func someOwner(context.Context) (string, error) { return owner, nil }
