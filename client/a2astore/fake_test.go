package a2astore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// fake is a service in memory, as far as a Store uses it. It keeps encoded tasks, so that it shares nothing with callers.
type fake struct {
	// before is called, without the lock, at the start of every call; its error is the call's.
	before func(ctx context.Context, req proto.Message) error
	// saved is called after every write that took effect.
	saved func()

	mu    sync.Mutex
	tasks map[key]*row
}

type key struct{ tenant, id string }

type row struct {
	owner   string
	task    []byte
	version int64
	log     []*taskstorev1.StreamResponse
	origins []string
}

func newFake() *fake { return &fake{tasks: map[key]*row{}} }

var _ service = (*fake)(nil)

func failure(code codes.Code, reason, message string, violations ...client.FieldViolation) error {
	return &client.Error{Op: "test", Code: code, Reason: reason, Message: message, Violations: violations, Attempts: 1}
}

func (f *fake) enter(ctx context.Context, req proto.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.before != nil {
		return f.before(ctx, req)
	}
	return nil
}

func (f *fake) Save(ctx context.Context, req *taskstorev1.SaveRequest, _ ...grpc.CallOption) (*taskstorev1.SaveResponse, error) {
	if err := f.enter(ctx, req); err != nil {
		return nil, err
	}
	resp, err := f.save(req)
	if err == nil && f.saved != nil {
		f.saved()
	}
	return resp, err
}

func (f *fake) save(req *taskstorev1.SaveRequest) (*taskstorev1.SaveResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := req.GetTask().GetId()
	if d := req.GetDelta(); d != nil {
		id = d.GetTaskId()
	}
	k := key{req.GetScope().GetTenant(), id}
	stored := f.tasks[k]
	mine := stored != nil && stored.owner == req.GetScope().GetOwner()
	if _, insert := req.GetPrecondition().GetCondition().(*taskstorev1.Precondition_Absent); insert {
		if stored != nil {
			return nil, failure(codes.AlreadyExists, "TASK_EXISTS", "a task with this id exists")
		}
		stored = &row{owner: req.GetScope().GetOwner()}
	} else if !mine {
		return nil, failure(codes.NotFound, "TASK_NOT_FOUND", "task not found")
	}
	old := parse(stored.task)
	task := req.GetTask()
	var misfit error
	if task == nil {
		task, misfit = apply(old, req.GetDelta())
	}
	if err := check(req.GetPrecondition(), stored, old, task); err != nil {
		return nil, err
	}
	if misfit != nil {
		return nil, misfit
	}
	b, err := proto.Marshal(task)
	if err != nil {
		return nil, failure(codes.InvalidArgument, "", err.Error())
	}
	stored.task = b
	stored.version++
	for _, e := range req.GetEvents() {
		event := proto.CloneOf(e.GetEvent())
		if e.GetSnapshot() != nil {
			event = &taskstorev1.StreamResponse{Payload: &taskstorev1.StreamResponse_Task{Task: parse(b)}}
		}
		stored.log = append(stored.log, event)
		stored.origins = append(stored.origins, req.GetOrigin())
	}
	f.tasks[k] = stored
	return &taskstorev1.SaveResponse{Version: stored.version, Seq: int64(len(stored.log))}, nil
}

func check(p *taskstorev1.Precondition, stored *row, old, task *taskstorev1.Task) error {
	terminal := isTerminal(old.GetStatus().GetState())
	switch c := p.GetCondition().(type) {
	case *taskstorev1.Precondition_Version:
		if c.Version != stored.version {
			return failure(codes.Aborted, "VERSION_CONFLICT", "the task has version "+strconv.FormatInt(stored.version, 10))
		}
	case *taskstorev1.Precondition_NotTerminal:
		if terminal {
			return failure(codes.FailedPrecondition, "TERMINAL_STATE", "the task is in a terminal state")
		}
	}
	if terminal && old.GetStatus().GetState() != task.GetStatus().GetState() {
		return failure(codes.FailedPrecondition, "TERMINAL_STATE", "the task is in a terminal state")
	}
	if stored.version > 0 && old.GetContextId() != task.GetContextId() {
		return failure(codes.FailedPrecondition, "CONTEXT_MISMATCH", "the task belongs to another context")
	}
	return nil
}

// apply returns the task that the delta makes. With an error, it is the task as far as the delta fits.
func apply(task *taskstorev1.Task, d *taskstorev1.TaskDelta) (*taskstorev1.Task, error) {
	task = proto.CloneOf(task)
	switch c := d.GetHeadChange().(type) {
	case *taskstorev1.TaskDelta_Head:
		head := proto.CloneOf(c.Head)
		head.Artifacts, head.History = task.GetArtifacts(), task.GetHistory()
		task = head
	case *taskstorev1.TaskDelta_Status:
		task.Status = c.Status
	}
	task.History = append(task.History, d.GetAppendHistory()...)
	if d.MaxHistory != nil {
		trim(task, d.MaxHistory, true)
	}
	switch c := d.GetArtifactChange().(type) {
	case *taskstorev1.TaskDelta_PutArtifact:
		switch at := holders(task, c.PutArtifact.GetArtifactId()); len(at) {
		case 0:
			task.Artifacts = append(task.Artifacts, c.PutArtifact)
		case 1:
			task.Artifacts[at[0]] = c.PutArtifact
		default:
			return task, failure(codes.FailedPrecondition, "ARTIFACT_AMBIGUOUS", "several artifacts have this id")
		}
	case *taskstorev1.TaskDelta_AppendParts:
		at := holders(task, c.AppendParts.GetArtifactId())
		switch {
		case len(at) == 0:
			return task, failure(codes.FailedPrecondition, "ARTIFACT_UNKNOWN", "no artifact has this id")
		case len(at) > 1:
			return task, failure(codes.FailedPrecondition, "ARTIFACT_AMBIGUOUS", "several artifacts have this id")
		}
		a := task.Artifacts[at[0]]
		if int(c.AppendParts.GetBaseParts()) != len(a.GetParts()) {
			return task, failure(codes.Aborted, "BASE_PARTS_CONFLICT", "the artifact has another number of parts")
		}
		parts := slices.Concat(a.GetParts(), c.AppendParts.GetParts())
		if c.AppendParts.GetArtifact() != nil {
			a = proto.CloneOf(c.AppendParts.GetArtifact())
			task.Artifacts[at[0]] = a
		}
		a.Parts = parts
	}
	return task, nil
}

// holders are the indexes of the artifacts that have the id.
func holders(task *taskstorev1.Task, id string) []int {
	var at []int
	for i, a := range task.GetArtifacts() {
		if a.GetArtifactId() == id {
			at = append(at, i)
		}
	}
	return at
}

func (f *fake) Get(ctx context.Context, req *taskstorev1.GetRequest, _ ...grpc.CallOption) (*taskstorev1.GetResponse, error) {
	if err := f.enter(ctx, req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	stored := f.tasks[key{req.GetScope().GetTenant(), req.GetTaskId()}]
	if stored == nil || stored.owner != req.GetScope().GetOwner() {
		return nil, failure(codes.NotFound, "TASK_NOT_FOUND", "task not found")
	}
	task := parse(stored.task)
	trim(task, req.HistoryLength, !req.GetOmitArtifacts())
	return &taskstorev1.GetResponse{Task: task, Version: stored.version, Owner: stored.owner, LastSeq: int64(len(stored.log))}, nil
}

// List pages by the number of tasks before the page.
func (f *fake) List(ctx context.Context, req *taskstorev1.ListRequest, _ ...grpc.CallOption) (*taskstorev1.ListResponse, error) {
	if err := f.enter(ctx, req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	start, err := strconv.Atoi(req.GetPageToken())
	if req.GetPageToken() != "" && err != nil {
		return nil, failure(codes.InvalidArgument, "INVALID_ARGUMENT", "invalid request", client.FieldViolation{Field: "page_token", Description: "is not one"})
	}
	size := int32(50)
	if req.PageSize != nil {
		size = req.GetPageSize()
	}
	var rows []*taskstorev1.StoredTask
	for k, stored := range f.tasks {
		task := parse(stored.task)
		ts := task.GetStatus().GetTimestamp()
		after := req.GetStatusTimestampAfter()
		switch {
		case k.tenant != req.GetScope().GetTenant() || stored.owner != req.GetScope().GetOwner():
		case req.GetContextId() != "" && req.GetContextId() != task.GetContextId():
		case req.GetStatus() != 0 && req.GetStatus() != task.GetStatus().GetState():
		case after != nil && (ts == nil || ts.AsTime().Before(after.AsTime())):
		default:
			trim(task, req.HistoryLength, req.GetIncludeArtifacts())
			rows = append(rows, &taskstorev1.StoredTask{Task: task, Version: stored.version, Owner: stored.owner})
		}
	}
	slices.SortFunc(rows, func(a, b *taskstorev1.StoredTask) int {
		x, y := a.GetTask().GetStatus().GetTimestamp(), b.GetTask().GetStatus().GetTimestamp()
		switch {
		case x != nil && y != nil && !x.AsTime().Equal(y.AsTime()):
			return y.AsTime().Compare(x.AsTime())
		case (x == nil) != (y == nil):
			if x == nil {
				return 1
			}
			return -1
		}
		return strings.Compare(b.GetTask().GetId(), a.GetTask().GetId())
	})
	resp := &taskstorev1.ListResponse{PageSize: size, TotalSize: int32(len(rows))}
	end := min(start+int(size), len(rows))
	resp.Tasks = rows[min(start, end):end]
	if end < len(rows) {
		resp.NextPageToken = strconv.Itoa(end)
	}
	return resp, nil
}

func trim(task *taskstorev1.Task, history *int32, artifacts bool) {
	if history != nil {
		task.History = task.History[max(0, len(task.History)-int(*history)):]
	}
	if !artifacts {
		task.Artifacts = nil
	}
}

func parse(b []byte) *taskstorev1.Task {
	task := &taskstorev1.Task{}
	if err := proto.Unmarshal(b, task); err != nil {
		panic(err)
	}
	return task
}

// events are the kinds of the events in a task's log.
func (f *fake) events(tenant, id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, e := range f.tasks[key{tenant, id}].log {
		switch p := e.GetPayload().(type) {
		case *taskstorev1.StreamResponse_Task:
			out = append(out, "task "+p.Task.GetStatus().GetState().String())
		case *taskstorev1.StreamResponse_Message:
			out = append(out, "message")
		case *taskstorev1.StreamResponse_StatusUpdate:
			out = append(out, "status "+p.StatusUpdate.GetStatus().GetState().String())
		case *taskstorev1.StreamResponse_ArtifactUpdate:
			out = append(out, "artifact "+p.ArtifactUpdate.GetArtifact().GetArtifactId())
		}
	}
	return out
}
