package a2astore

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Store keeps the tasks of an A2A server in a task store service. It implements taskstore.Store; its methods may be called
// concurrently.
//
// Writes go on when the caller's context ends, with its values, until they succeed or their own time is over
// ([WithWriteTimeout]): a2a-go stores the FAILED of an agent that crashed with the context that the crash has canceled. Reads
// end with their context, or else with the client's retry budget.
//
// Every write appends what happened to the log of the task's events, in the same step: the event of an update if it tells
// the new state of the task, else the task itself. See [Store.Update].
//
// Errors match the sentinels that a2a-go looks for: a2a.ErrTaskNotFound, taskstore.ErrTaskAlreadyExists,
// taskstore.ErrConcurrentModification, a2a.ErrUnauthenticated, a2a.ErrUnauthorized; a2a.ErrInvalidParams for a task that
// cannot be stored, a2a.ErrInvalidRequest and a2a.ErrParseError for what is wrong with a request; a2a.ErrServerError if
// the service cannot be reached. None carries a gRPC status.
type Store struct {
	api    service
	opts   options
	memory *memory
}

var _ taskstore.Store = (*Store)(nil)

// service is what a Store needs of the client. Errors are the client's.
type service interface {
	Save(context.Context, *taskstorev1.SaveRequest, ...grpc.CallOption) (*taskstorev1.SaveResponse, error)
	Get(context.Context, *taskstorev1.GetRequest, ...grpc.CallOption) (*taskstorev1.GetResponse, error)
	List(context.Context, *taskstorev1.ListRequest, ...grpc.CallOption) (*taskstorev1.ListResponse, error)
}

var _ service = (*client.Client)(nil)

// New returns a store that calls the service with c, which stays the caller's to close. The scope of c is not used.
func New(c *client.Client, opts ...Option) *Store { return newStore(c, opts...) }

func newStore(api service, opts ...Option) *Store {
	o := defaultOptions()
	for _, opt := range opts {
		opt(&o)
	}
	return &Store{api: api, opts: o, memory: newMemory(o.memoryTasks, o.memoryBytes)}
}

// Create stores a new task, which belongs to the user of the call from then on, and appends it to its log. The version is 1,
// or above that of a deleted task of the same id.
//
// Errors: taskstore.ErrTaskAlreadyExists, also for a task of somebody else; a2a.ErrInvalidParams for what cannot be stored.
func (s *Store) Create(ctx context.Context, task *a2a.Task) (taskstore.TaskVersion, error) {
	pb, err := encodeTask(task)
	if err != nil {
		return taskstore.TaskVersionMissing, err
	}
	ctx, cancel := s.writeContext(ctx)
	defer cancel()
	scope, err := s.scope(ctx)
	if err != nil {
		return taskstore.TaskVersionMissing, err
	}
	req := &taskstorev1.SaveRequest{
		Scope:        scope,
		Write:        &taskstorev1.SaveRequest_Task{Task: pb},
		Precondition: &taskstorev1.Precondition{Condition: &taskstorev1.Precondition_Absent{Absent: &emptypb.Empty{}}},
		Events:       []*taskstorev1.EventInput{snapshot()},
		Origin:       s.opts.origin,
	}
	resp, err := s.api.Save(ctx, req)
	if err != nil {
		return taskstore.TaskVersionMissing, writeError(ctx, "create", err)
	}
	s.memory.forget(keyOf(scope, task.ID)) // a task of the same id that is gone, whose version may have been higher
	s.remember(req, resp.GetVersion(), nil)
	return versionOf(resp.GetVersion())
}

// Get returns a task of the user of the call, a copy that is the caller's to change.
//
// Errors: a2a.ErrTaskNotFound, also for a task of somebody else, and for an id that no task can have.
func (s *Store) Get(ctx context.Context, taskID a2a.TaskID) (*taskstore.StoredTask, error) {
	scope, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if !isTaskID(string(taskID)) {
		return nil, &storeError{"task not found", []error{a2a.ErrTaskNotFound, client.ErrNotFound}}
	}
	resp, err := s.api.Get(ctx, &taskstorev1.GetRequest{Scope: scope, TaskId: string(taskID)})
	if err != nil {
		return nil, readError(ctx, "get", err)
	}
	version, err := versionOf(resp.GetVersion())
	if err != nil {
		return nil, err
	}
	stored := &taskstore.StoredTask{Task: decodeTask(resp.GetTask()), Version: version, User: resp.GetOwner()}
	if s.memory.keeps() {
		// Also if the version is remembered: a service that was restored from a backup gives it out again, for another task.
		s.memory.put(read(keyOf(scope, taskID), resp.GetTask(), resp.GetVersion()))
	}
	return stored, nil
}

// writeContext is the context of a write: the caller's values, and a time of its own.
func (s *Store) writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.opts.writeTimeout)
}

// scope is whose tasks the call means. The owner is always set: for the service, an unset one would be the whole tenant.
func (s *Store) scope(ctx context.Context) (*taskstorev1.Scope, error) {
	owner, err := s.opts.authenticate(ctx)
	if err != nil {
		return nil, identityError(err)
	}
	tenant, err := s.opts.tenant(ctx)
	if err != nil {
		return nil, identityError(err)
	}
	return &taskstorev1.Scope{Tenant: tenant, Owner: proto.String(owner)}, nil
}

// versionOf guards what a2a-go takes 0 for: a store that does not count versions, and so never conflicts.
func versionOf(v int64) (taskstore.TaskVersion, error) {
	if v < 1 {
		return taskstore.TaskVersionMissing, &storeError{"the service returned no version", []error{a2a.ErrInternalError}}
	}
	return taskstore.TaskVersion(v), nil
}

// isTaskID reports whether the service can hold a task of the id.
func isTaskID(id string) bool {
	return len(id) >= 1 && len(id) <= 256 && utf8.ValidString(id) && !strings.Contains(id, "\x00")
}

func snapshot() *taskstorev1.EventInput {
	return &taskstorev1.EventInput{Input: &taskstorev1.EventInput_Snapshot{Snapshot: &emptypb.Empty{}}}
}
