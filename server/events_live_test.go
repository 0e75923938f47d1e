package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestReadEventsLive(t *testing.T) { eachStore(t, testReadEventsLive) }

func testReadEventsLive(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	early, err := f.open(t.Context(), reading(terminal))
	if err != nil {
		t.Fatal(err)
	}
	f.mustAppend(t, "t", "one")
	if err := early.next(); err != nil {
		t.Fatal(err)
	}
	f.mustSave(t, whole(working("t")))
	input := working("t")
	input.Status.State = pb.TaskState_TASK_STATE_INPUT_REQUIRED
	f.mustSave(t, whole(input))
	late, err := f.open(t.Context(), fromNow(reading(terminal)))
	if err != nil {
		t.Fatal(err)
	}
	f.mustSave(t, whole(completed("t")))
	f.mustAppend(t, "t", "behind the end")
	for name, r := range map[string]*read{"early": early, "late": late} {
		if err := r.drain(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.end.GetReason() != endTerminal || r.end.GetLastSeq() != 4 {
			t.Errorf("%s: end %v", name, r.end)
		}
	}
	if got := early.seqs(); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("early: %v", got)
	}
	if got := late.seqs(); !slices.Equal(got, []int64{4}) {
		t.Errorf("late: %v", got)
	}
}

func TestDeletionEndsReaders(t *testing.T) { eachStore(t, testDeletionEndsReaders) }

func testDeletionEndsReaders(t *testing.T, open opener) {
	t.Parallel()
	for _, test := range []struct{ empty, again bool }{{}, {again: true}, {empty: true}, {true, true}} {
		f := start(t, open(t), Config{})
		first := whole(working("t"))
		if test.empty {
			first.Events = nil
		}
		f.mustSave(t, first)
		var open []*read
		for _, req := range []*pb.ReadEventsRequest{reading(terminal), reading(forever), fromNow(reading(forever))} {
			r, err := f.open(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, r)
		}
		if _, err := f.Delete(t.Context(), &pb.DeleteRequest{TaskId: "t"}); err != nil {
			t.Fatal(err)
		}
		if test.again {
			f.mustSave(t, whole(completed("t")))
		}
		for _, r := range open {
			wantReason(t, r.drain(), backend.ErrTaskNotFound)
			if len(r.events) > 1 {
				t.Errorf("events of the next task: %v", r.events)
			}
		}
	}
}

// TestJoinAtAnyInstant has readers join a log while it is written at full speed.
func TestJoinAtAnyInstant(t *testing.T) { eachStore(t, testJoinAtAnyInstant) }

func testJoinAtAnyInstant(t *testing.T, open opener) {
	t.Parallel()
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	f := start(t, open(t), Config{})
	const events, readers = 30, 3
	slots := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for round := range rounds {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			id := fmt.Sprint("t", round)
			final, err := joinRound(t.Context(), f, id, events, readers)
			if err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			if final != events {
				t.Errorf("round %d: final seq %d", round, final)
			}
		})
	}
	wg.Wait()
}

// joinRound writes a log to its end, and has readers join it at random positions of the writer. Each must see every event
// once, in order, up to the one that is final.
func joinRound(ctx context.Context, f *fixture, id string, events, readers int) (final int64, err error) {
	written := make([]chan struct{}, events)
	for i := range written {
		written[i] = make(chan struct{})
	}
	results := make(chan error, readers)
	for range readers {
		joins, spin := rand.IntN(events+1), rand.IntN(2000)
		go func() {
			if joins > 0 {
				<-written[joins-1]
			}
			for range spin { // somewhere between two writes
				runtime.Gosched()
			}
			r, err := f.readAll(ctx, &pb.ReadEventsRequest{TaskId: id, IncludeTask: true})
			if err != nil {
				results <- err
				return
			}
			for i, e := range r.events {
				if e.GetSeq() != int64(i+1) {
					results <- fmt.Errorf("event %d has seq %d", i, e.GetSeq())
					return
				}
			}
			last := r.events[len(r.events)-1].GetEvent().GetTask().GetStatus().GetState()
			if len(r.events) != events || last != pb.TaskState_TASK_STATE_COMPLETED || r.end.GetLastSeq() != int64(events) {
				results <- fmt.Errorf("%d events up to %v, end %v", len(r.events), last, r.end)
				return
			}
			// Each event came with one write of the task, so that version and seq go together.
			if o := r.opened; o.GetTask().GetVersion() != o.GetLastSeq() {
				results <- fmt.Errorf("opened at version %d and seq %d", o.GetTask().GetVersion(), o.GetLastSeq())
				return
			}
			results <- nil
		}()
	}
	for i := range events {
		task := working(id)
		if i == events-1 {
			task = completed(id)
		}
		res, serr := f.Save(ctx, whole(task))
		err = errors.Join(err, serr)
		final = res.GetSeq()
		close(written[i])
	}
	for range readers {
		err = errors.Join(err, <-results)
	}
	return final, err
}
