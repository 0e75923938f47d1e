package backend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)

const (
	working   = int32(pb.TaskState_TASK_STATE_WORKING)
	completed = int32(pb.TaskState_TASK_STATE_COMPLETED)
	failed    = int32(pb.TaskState_TASK_STATE_FAILED)
)

var (
	alice   = backend.OwnerOf("alice")
	bob     = backend.OwnerOf("bob")
	nobody  = backend.OwnerOf("")
	trusted = backend.Owner{}
	key     = backend.Key{Tenant: "tenant", TaskID: "t"}
)

func taskIn(t testing.TB, contextID string, state int32) *document.Task {
	t.Helper()
	b, err := proto.Marshal(&pb.Task{Id: "t", ContextId: contextID, Status: &pb.TaskStatus{State: pb.TaskState(state)}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.ParseTask(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func statusDelta(t testing.TB, state int32) *document.Delta {
	t.Helper()
	b, err := proto.Marshal(&pb.TaskStatus{State: pb.TaskState(state)})
	if err != nil {
		t.Fatal(err)
	}
	st, err := document.ParseStatus(b)
	if err != nil {
		t.Fatal(err)
	}
	return &document.Delta{Status: st, MaxHistory: -1}
}

func textEvent(t testing.TB, text string) document.Event {
	t.Helper()
	b, err := proto.Marshal(&pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: &pb.Message{MessageId: text}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := document.ParseEvent(b)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The rows that can stand under a key. Version 5 and seq 7 were issued, where anything was.
var rows = []struct {
	name string
	row  backend.Row
}{
	{"nothing", backend.Row{}},
	{"tombstone", backend.Row{Kind: backend.RowTombstone, Incarnation: 2, Version: 5, LastSeq: 7, Touched: 50}},
	{"log", backend.Row{
		Kind: backend.RowLog, Owner: "alice", Incarnation: 1, StartSeq: 1, FirstSeq: 1, LastSeq: 7, LogEvents: 7, LogBytes: 700,
		Created: 10, Touched: 40,
	}},
	{"log after a task", backend.Row{
		Kind: backend.RowLog, Owner: "alice", Incarnation: 3, Version: 5, StartSeq: 6, FirstSeq: 6, LastSeq: 7, DroppedMark: 11,
		LogEvents: 2, LogBytes: 200, Created: 10, Touched: 40,
	}},
	{"open task", taskRow(working)},
	{"terminal task", taskRow(failed)},
}

func taskRow(state int32) backend.Row {
	row := backend.Row{
		Kind: backend.RowTask, Owner: "alice", Incarnation: 1, Version: 5, ContextID: "ctx", State: state,
		StartSeq: 1, FirstSeq: 3, LastSeq: 7, DroppedMark: 3, LogEvents: 5, LogBytes: 500,
		Created: 10, Updated: 30, Touched: 40, WriteID: "w5", WriteSeq: 6, Size: 100, Artifacts: 2, Messages: 3,
	}
	if document.Terminal(state) {
		row.Final, row.FinalSeq, row.Finalized = true, 4, 20
	}
	return row
}

// exists tells a row that the owner sees a task or a log under.
func exists(row *backend.Row) bool { return row.Kind == backend.RowTask || row.Kind == backend.RowLog }

// fakeDocument is a stored task with one artifact "a" of two parts, two artifacts "twice", and three messages of 10 bytes.
type fakeDocument struct{ err error }

func (d fakeDocument) Head() ([]byte, error)       { return []byte{}, d.err }
func (d fakeDocument) ArtifactBytes() (int, error) { return 60, d.err }
func (d fakeDocument) OldestMessages(n int) (int, error) {
	return 10 * n, d.err
}
func (d fakeDocument) Artifact(id string) (backend.ArtifactInfo, error) {
	switch id {
	case "a":
		return backend.ArtifactInfo{Holds: 1, Index: 1, Parts: 2, FieldBytes: 10, PartBytes: 20}, d.err
	case "twice":
		return backend.ArtifactInfo{Holds: 2}, d.err
	}
	return backend.ArtifactInfo{}, d.err
}

var errDisk = errors.New("disk")

func wantReason(t rapid.TB, err error, want backend.Reason) {
	t.Helper()
	if got := backend.ReasonOf(err); got != want || (want == "" && err != nil) {
		t.Fatalf("error %v (%q), want %q", err, got, want)
	}
}

func wantMeta(t rapid.TB, err error, name string, want any) {
	t.Helper()
	e, ok := errors.AsType[*backend.Error](err)
	if !ok || e.Meta[name] != fmt.Sprint(want) {
		t.Errorf("metadata of %v: %s is not %v", err, name, want)
	}
}
