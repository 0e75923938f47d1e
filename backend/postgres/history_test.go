package postgres_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// TestHistoriesOverReplicas: whatever changes a task and its history, through whichever of two replicas, each of which
// remembers what it wrote last, it leaves what the store in memory does; and the size that limits go by is the task's.
func TestHistoriesOverReplicas(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	both := replicas(t, 2, postgres.Config{DSN: dsn, PollOnly: true})
	closing(t, both)
	model, err := memory.Open(memory.Config{MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, model)
	var runs, messages int
	rapid.Check(t, func(t *rapid.T) {
		runs++
		key := backend.Key{Tenant: "t", TaskID: fmt.Sprint("id-", runs)}
		history := func(n int) (list []*pb.Message) {
			for range n {
				messages++
				list = append(list, &pb.Message{MessageId: fmt.Sprintf("%0*d", 1+messages%7, messages)})
			}
			return list
		}
		for step := range 30 {
			var call func(s backend.Store) (int64, error)
			kind := rapid.IntRange(0, 20).Draw(t, "kind")
			switch {
			case kind == 20 && step > 0:
				call = func(s backend.Store) (int64, error) {
					_, err := s.Delete(t.Context(), &backend.DeleteRequest{Key: key})
					return 0, err
				}
			case kind > 17 && step > 0:
				call = func(s backend.Store) (int64, error) {
					res, err := s.AppendEvents(t.Context(), &backend.AppendRequest{Key: key, Events: make([]document.Event, 1)})
					return res.LastSeq, err
				}
			default:
				req := &backend.SaveRequest{Key: key, Pre: anyState}
				if kind > 15 || step == 0 {
					raw, err := proto.Marshal(&pb.Task{Id: key.TaskID, History: history(rapid.IntRange(0, 5).Draw(t, "messages"))})
					if err != nil {
						t.Fatal(err)
					}
					if req.Task, err = document.ParseTask(raw); err != nil {
						t.Fatal(err)
					}
				} else {
					added := rapid.IntRange(0, 2).Draw(t, "added")
					raw, err := proto.Marshal(&pb.Task{History: history(added)})
					if err != nil {
						t.Fatal(err)
					}
					req.Delta = &document.Delta{
						History:    document.List{Bytes: raw, Count: added},
						MaxHistory: rapid.SampledFrom([]int{3, 3, 3, 3, 4, 0, 1, -1, -1}).Draw(t, "max history"),
					}
				}
				call = func(s backend.Store) (int64, error) {
					res, err := s.Save(t.Context(), req)
					return res.Version, err
				}
			}
			replica := both.replicas[rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "replica")]
			got, err := call(replica)
			want, wantErr := call(model)
			if got != want || backend.ReasonOf(err) != backend.ReasonOf(wantErr) || (err == nil) != (wantErr == nil) {
				t.Fatalf("%d, %v, want %d, %v", got, err, want, wantErr)
			}
			read := func(s backend.Store) []byte {
				res, err := s.Get(t.Context(), &backend.GetRequest{Key: key, Extent: backend.All})
				if err != nil && backend.ReasonOf(err) != backend.ErrTaskNotFound {
					t.Fatal(err)
				}
				return res.Task
			}
			if got, want := read(replica), read(model); !bytes.Equal(got, want) {
				t.Fatalf("the task is\n%q\nwant\n%q", got, want)
			}
		}
	})
	wrong := query[int64](t, dsn, `SELECT count(*) FROM a2a_taskstore.tasks t WHERE kind = 2 AND size <> octet_length(head)
		+ octet_length(artifacts) + octet_length(history) + coalesce((SELECT sum(octet_length(m.entry)) FROM a2a_taskstore.messages m
			WHERE m.row_id = t.row_id), 0)`)
	if wrong != 0 {
		t.Errorf("%d tasks have another size than their row says", wrong)
	}
}
