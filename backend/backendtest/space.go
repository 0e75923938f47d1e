package backendtest

import (
	"errors"
	"maps"
	"strconv"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// space is a tenant of its own in a store, and an owner that calls are made for.
type space struct {
	tb
	*env
	tenant string
	owner  backend.Owner
}

// as returns the same tenant for another owner.
func (s *space) as(o backend.Owner) *space {
	c := *s
	c.owner = o
	return &c
}

func (s *space) key(id string) backend.Key { return backend.Key{Tenant: s.tenant, TaskID: id} }

// whole returns a request that saves the whole task.
func (s *space) whole(m *pb.Task, pre backend.Precondition) *backend.SaveRequest {
	s.Helper()
	return &backend.SaveRequest{Key: s.key(m.GetId()), Owner: s.owner, Task: parseTask(s.tb, m), Pre: pre}
}

// change returns a request that saves a delta.
func (s *space) change(id string, d *document.Delta, pre backend.Precondition) *backend.SaveRequest {
	return &backend.SaveRequest{Key: s.key(id), Owner: s.owner, Delta: d, Pre: pre}
}

// must saves.
func (s *space) must(req *backend.SaveRequest) backend.SaveResult {
	s.Helper()
	res, err := s.store.Save(s.Context(), req)
	if err != nil {
		s.Fatalf("save of %q: %v", req.Key.TaskID, err)
	}
	return res
}

// insert saves a new task.
func (s *space) insert(m *pb.Task, events ...*pb.StreamResponse) backend.SaveResult {
	s.Helper()
	req := s.whole(m, absent)
	req.Events = inputs(s.tb, events...)
	return s.must(req)
}

// refused saves, and wants a refusal that leaves everything as it was.
func (s *space) refused(req *backend.SaveRequest, want backend.Reason) *backend.Error {
	s.Helper()
	before := s.everything(req.Key.TaskID)
	res, err := s.store.Save(s.Context(), req)
	e := s.reason(err, want)
	if res != (backend.SaveResult{}) {
		s.Errorf("a refused save of %q returned %+v", req.Key.TaskID, res)
	}
	s.unchanged(req.Key.TaskID, before)
	return e
}

// reason wants an error with the reason.
func (s *space) reason(err error, want backend.Reason) *backend.Error {
	s.Helper()
	if err == nil {
		s.Fatalf("no error, want %s", want)
	}
	if !errors.Is(err, want) {
		s.Fatalf("error %q (%s), want %s", err, backend.ReasonOf(err), want)
	}
	e, ok := errors.AsType[*backend.Error](err)
	if !ok {
		s.Fatalf("error %q is not a *backend.Error", err)
	}
	return e
}

// meta wants an entry in the error's metadata.
func (s *space) meta(e *backend.Error, name, want string) {
	s.Helper()
	if got := e.Meta[name]; got != want {
		s.Errorf("%s: metadata %s is %q, want %q", e.Reason, name, got, want)
	}
}

// alike wants two errors that a caller cannot tell apart.
func (s *space) alike(a, b *backend.Error) {
	s.Helper()
	if a.Reason != b.Reason || a.Error() != b.Error() || a.Field != b.Field || !maps.Equal(a.Meta, b.Meta) {
		s.Errorf("errors differ: %q %v, %q %v", a, a.Meta, b, b.Meta)
	}
}

// get reads the whole task.
func (s *space) get(id string) (*pb.Task, backend.GetResult) {
	s.Helper()
	res, err := s.read(id, backend.All)
	if err != nil {
		s.Fatalf("get of %q: %v", id, err)
	}
	return decodeTask(s.tb, res.Task), res
}

func (s *space) read(id string, extent backend.Extent) (backend.GetResult, error) {
	return s.store.Get(s.Context(), &backend.GetRequest{Key: s.key(id), Owner: s.owner, Extent: extent})
}

// holds wants the stored task to be equal to the message, unknown fields included.
func (s *space) holds(want *pb.Task) {
	s.Helper()
	got, _ := s.get(want.GetId())
	s.equal(got, want)
}

func (s *space) equal(got, want proto.Message) {
	s.Helper()
	if !proto.Equal(want, got) { // unlike cmp, it takes NaN as equal to itself
		s.Fatalf("not what was stored (-want +got):\n%s", cmp.Diff(want, got, protocmp.Transform()))
	}
}

// missing wants no task under the id.
func (s *space) missing(id string) {
	s.Helper()
	_, err := s.read(id, backend.All)
	s.reason(err, backend.ErrTaskNotFound)
}

// state is all that can be seen of an id, whoever owns it.
type state struct {
	Get    backend.GetResult
	GetErr string
	Log    backend.LogPage
	LogErr string
}

func (s *space) everything(id string) state {
	s.Helper()
	trusted := s.as(backend.Owner{})
	var st state
	var err error
	if st.Get, err = trusted.read(id, backend.All); err != nil {
		s.reason(err, backend.ErrTaskNotFound)
		st.GetErr = err.Error()
	}
	st.Get.Now = st.Get.UpdatedAt
	st.Get.Task = s.normal(st.Get.Task)
	if st.Log, err = trusted.readAll(id); err != nil {
		s.reason(err, backend.ErrTaskNotFound)
		st.LogErr = err.Error()
	}
	return st
}

// normal encodes a task anew: a store may put fields into another order at any time.
func (s *space) normal(task []byte) []byte {
	s.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(decodeTask(s.tb, task))
	if err != nil {
		s.Fatalf("encoding: %v", err)
	}
	return b
}

func (s *space) unchanged(id string, before state) {
	s.Helper()
	if diff := cmp.Diff(before, s.everything(id)); diff != "" {
		s.Errorf("%q changed (-before +after):\n%s", id, diff)
	}
}

// readLog reads a page of up to n events.
func (s *space) readLog(id string, start backend.Start, n int) (backend.LogPage, error) {
	return s.store.ReadLog(s.Context(), &backend.ReadLogRequest{
		Key: s.key(id), Owner: s.owner, Start: start, MaxEvents: n, MaxBytes: 1 << 30,
	})
}

// readAll reads what there is of a log: all of it, or what retention has left.
func (s *space) readAll(id string) (backend.LogPage, error) {
	page, err := s.readLog(id, backend.Start{}, 1<<20)
	if e, ok := errors.AsType[*backend.Error](err); ok && e.Reason == backend.ErrLogRange {
		earliest, convErr := strconv.ParseInt(e.Meta["earliest_seq"], 10, 64)
		if convErr != nil {
			return page, convErr
		}
		return s.readLog(id, backend.Start{N: earliest - 1}, 1<<20)
	}
	return page, err
}

// log returns what there is of a log.
func (s *space) log(id string) []backend.Event {
	s.Helper()
	page, err := s.readAll(id)
	if err != nil {
		s.Fatalf("log of %q: %v", id, err)
	}
	return page.Events
}

// seqs returns the positions of events.
func seqs(events []backend.Event) []int64 {
	out := []int64{}
	for _, e := range events {
		out = append(out, e.Seq)
	}
	return out
}

// append appends to a log.
func (s *space) append(req *backend.AppendRequest) backend.AppendResult {
	s.Helper()
	res, err := s.store.AppendEvents(s.Context(), req)
	if err != nil {
		s.Fatalf("append to %q: %v", req.Key.TaskID, err)
	}
	return res
}

// appending returns a request that appends the events.
func (s *space) appending(id string, events ...*pb.StreamResponse) *backend.AppendRequest {
	s.Helper()
	return &backend.AppendRequest{Key: s.key(id), Owner: s.owner, Events: parseEvents(s.tb, events...)}
}

func (s *space) notAppended(req *backend.AppendRequest, want backend.Reason) *backend.Error {
	s.Helper()
	before := s.everything(req.Key.TaskID)
	_, err := s.store.AppendEvents(s.Context(), req)
	e := s.reason(err, want)
	s.unchanged(req.Key.TaskID, before)
	return e
}

// delete removes a task, of a version unless it is 0.
func (s *space) delete(id string, version int64) (bool, error) {
	return s.store.Delete(s.Context(), &backend.DeleteRequest{Key: s.key(id), Owner: s.owner, Version: version})
}

func (s *space) mustDelete(id string) {
	s.Helper()
	deleted, err := s.delete(id, 0)
	if err != nil || !deleted {
		s.Fatalf("delete of %q: %v, %v", id, deleted, err)
	}
}
