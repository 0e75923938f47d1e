package server

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func reading(until pb.ReadUntil) *pb.ReadEventsRequest {
	return &pb.ReadEventsRequest{TaskId: "t", Until: until}
}

func afterSeq(r *pb.ReadEventsRequest, n int64) *pb.ReadEventsRequest {
	r.Start = &pb.ReadEventsRequest_AfterSeq{AfterSeq: n}
	return r
}

func afterVersion(r *pb.ReadEventsRequest, n int64) *pb.ReadEventsRequest {
	r.Start = &pb.ReadEventsRequest_AfterVersion{AfterVersion: n}
	return r
}

func fromNow(r *pb.ReadEventsRequest) *pb.ReadEventsRequest {
	r.Start = &pb.ReadEventsRequest_FromNow{FromNow: &emptypb.Empty{}}
	return r
}

func limited(r *pb.ReadEventsRequest, n int32) *pb.ReadEventsRequest {
	r.Limit = n
	return r
}

const (
	head     = pb.ReadUntil_READ_UNTIL_HEAD
	terminal = pb.ReadUntil_READ_UNTIL_TERMINAL
	forever  = pb.ReadUntil_READ_UNTIL_FOREVER

	endHead     = pb.EndReason_END_REASON_HEAD
	endLimit    = pb.EndReason_END_REASON_LIMIT
	endTerminal = pb.EndReason_END_REASON_TERMINAL
)

// finishedLog makes a log of 6 events: the Save of version 1 wrote 1, the Save of version 2, which is terminal, wrote 4, and
// the others were appended, 5 by "b" and all others by "a".
func finishedLog(t *testing.T, f *fixture) {
	t.Helper()
	first, last := whole(working("t")), whole(completed("t"))
	first.Origin, last.Origin = "a", "a"
	f.mustSave(t, first)
	add := func(origin string, texts ...string) {
		req := &pb.AppendEventRequest{TaskId: "t", Origin: origin}
		for _, text := range texts {
			req.Events = append(req.Events, said(text))
		}
		if _, err := f.AppendEvent(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	add("a", "two", "three")
	f.mustSave(t, last)
	add("b", "five")
	add("a", "six")
}

func TestReadEventsRange(t *testing.T) { eachStore(t, testReadEventsRange) }

func testReadEventsRange(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	finishedLog(t, f)
	withoutA := reading(head)
	withoutA.ExcludeOrigin = "a"
	withoutB := limited(reading(head), 5)
	withoutB.ExcludeOrigin = "b"
	for name, test := range map[string]struct {
		req    *pb.ReadEventsRequest
		want   []int64
		reason pb.EndReason
		last   int64
	}{
		"head":                         {reading(head), []int64{1, 2, 3, 4, 5, 6}, endHead, 6},
		"terminal":                     {reading(terminal), []int64{1, 2, 3, 4}, endTerminal, 4},
		"default":                      {reading(0), []int64{1, 2, 3, 4}, endTerminal, 4},
		"resumed before the final seq": {afterSeq(reading(terminal), 3), []int64{4}, endTerminal, 4},
		"at the final seq":             {afterSeq(reading(terminal), 4), nil, endTerminal, 4},
		"behind the final seq":         {afterSeq(reading(terminal), 5), nil, endTerminal, 5},
		"now, terminal":                {fromNow(reading(terminal)), nil, endTerminal, 6},
		"after a seq":                  {afterSeq(reading(head), 2), []int64{3, 4, 5, 6}, endHead, 6},
		"after the last":               {afterSeq(reading(head), 6), nil, endHead, 6},
		"after version 0":              {afterVersion(reading(head), 0), []int64{1, 2, 3, 4, 5, 6}, endHead, 6},
		"after version 1":              {afterVersion(reading(head), 1), []int64{2, 3, 4, 5, 6}, endHead, 6},
		"after version 2":              {afterVersion(reading(head), 2), []int64{5, 6}, endHead, 6},
		"now":                          {fromNow(reading(head)), nil, endHead, 6},
		"limit":                        {limited(reading(head), 2), []int64{1, 2}, endLimit, 2},
		"limit, resumed":               {limited(afterSeq(reading(head), 2), 2), []int64{3, 4}, endLimit, 4},
		"limit at the head":            {limited(reading(head), 6), []int64{1, 2, 3, 4, 5, 6}, endHead, 6},
		"without one origin":           {withoutA, []int64{5}, endHead, 6},
		"without the other, limited":   {withoutB, []int64{1, 2, 3, 4, 6}, endHead, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := f.readAll(t.Context(), test.req)
			if err != nil {
				t.Fatal(err)
			}
			if o := r.opened; o.GetEarliestSeq() != 1 || o.GetLastSeq() != 6 || o.GetFinalSeq() != 4 || o.FinalSeq == nil || o.GetTask() != nil {
				t.Errorf("opened %v", o)
			}
			if !slices.Equal(r.seqs(), test.want) {
				t.Errorf("events %v, want %v", r.seqs(), test.want)
			}
			if r.end.GetReason() != test.reason || r.end.GetLastSeq() != test.last {
				t.Errorf("end %v, want %v at %d", r.end, test.reason, test.last)
			}
		})
	}
	for name, req := range map[string]*pb.ReadEventsRequest{
		"seq past the head":     afterSeq(reading(head), 7),
		"live past the head":    afterSeq(reading(forever), 7),
		"version past the task": afterVersion(reading(terminal), 3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := f.open(t.Context(), req)
			meta := wantReason(t, err, backend.ErrLogRange)
			if meta["earliest_seq"] != "1" || meta["last_seq"] != "6" {
				t.Errorf("metadata %v", meta)
			}
		})
	}
}

func TestReadEventsCarryWhatWasWritten(t *testing.T) { eachStore(t, testReadEventsCarryWhatWasWritten) }

func testReadEventsCarryWhatWasWritten(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	finishedLog(t, f)
	req := reading(head)
	req.IncludeTask = true
	r, err := f.readAll(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.opened.GetTask(); got.GetVersion() != 2 || !proto.Equal(got.GetTask(), completed("t")) {
		t.Errorf("task %v", got)
	}
	versions := []int64{1, 1, 1, 2, 2, 2}
	payloads := []*pb.StreamResponse{
		{Payload: &pb.StreamResponse_Task{Task: working("t")}}, said("two"), said("three"),
		{Payload: &pb.StreamResponse_Task{Task: completed("t")}}, said("five"), said("six"),
	}
	for i, e := range r.events {
		if e.GetVersion() != versions[i] || !proto.Equal(e.GetEvent(), payloads[i]) || !e.GetCreatedAt().IsValid() {
			t.Errorf("event %v", e)
		}
	}
	if r.events[4].GetOrigin() != "b" {
		t.Errorf("origin %q", r.events[4].GetOrigin())
	}
}

// TestReadEventsOfNothing shows that an id of another owner looks exactly like one that is unknown.
func TestReadEventsOfNothing(t *testing.T) { eachStore(t, testReadEventsOfNothing) }

func testReadEventsOfNothing(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	foreign := whole(working("foreign"))
	foreign.Scope = &pb.Scope{Owner: proto.String("somebody")}
	f.mustSave(t, foreign)
	scope := &pb.Scope{Owner: proto.String("me")}

	var texts []string
	for _, id := range []string{"unknown", "foreign"} {
		for _, req := range []*pb.ReadEventsRequest{
			reading(head), fromNow(reading(head)), afterSeq(reading(terminal), 1), afterVersion(reading(forever), 1),
		} {
			req.TaskId, req.Scope = id, scope
			_, err := f.open(t.Context(), req)
			wantReason(t, err, backend.ErrTaskNotFound)
			texts = append(texts, err.Error())
		}
	}
	if slices.Sort(texts); len(slices.Compact(texts)) != 1 {
		t.Errorf("texts differ: %q", texts)
	}

	var waiting []*read
	for _, id := range []string{"unknown", "foreign"} {
		for _, req := range []*pb.ReadEventsRequest{reading(terminal), reading(forever), fromNow(reading(forever)), afterVersion(reading(forever), 0)} {
			req.TaskId, req.Scope, req.IncludeTask = id, scope, true
			r, err := f.open(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(r.opened, &pb.OpenedFrame{EarliestSeq: 1}) {
				t.Errorf("%s: opened %v", id, r.opened)
			}
			waiting = append(waiting, r)
		}
	}
	// Both ids become the caller's, and each of the waiting reads begins with the first event.
	if _, err := f.Delete(t.Context(), &pb.DeleteRequest{TaskId: "foreign"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"unknown", "foreign"} {
		req := &pb.AppendEventRequest{Scope: scope, TaskId: id, Events: []*pb.StreamResponse{said("mine")}}
		if _, err := f.AppendEvent(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range waiting {
		if err := r.next(); err != nil || r.events[0].GetEvent().GetMessage() == nil {
			t.Errorf("read %d: %v, %v", i, r.events, err)
		}
	}
}

// TestLargeEvents shows that frames stay below what a default client reads, and that a larger event comes by itself.
func TestLargeEvents(t *testing.T) { eachStore(t, testLargeEvents) }

func testLargeEvents(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	for _, size := range []int{1 << 20, 2 << 20, 2<<20 + 1, 5 << 20, 100, 100} {
		f.mustAppend(t, "t", string(make([]byte, size)))
	}
	r, err := f.open(t.Context(), reading(head))
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for {
		before := len(r.events)
		if err := r.next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		frames++
		if got := r.events[before:]; len(got) > 1 && proto.Size(&pb.EventsFrame{Events: got}) > 3<<20 {
			t.Errorf("a frame of %d events is too large", len(got))
		}
	}
	if !slices.Equal(r.seqs(), []int64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("events %v in %d frames", r.seqs(), frames)
	}
}

// hangingStore has one read of all, once it is armed, that does not come back: a connection to a database that is dead without
// a word.
type hangingStore struct {
	backend.Store
	armed atomic.Bool
}

func (s *hangingStore) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	if s.armed.CompareAndSwap(true, false) {
		<-ctx.Done()
		return backend.LogPage{}, ctx.Err()
	}
	return s.Store.ReadLog(ctx, req)
}

// One read that hangs keeps neither the other readers of its log waiting for long, nor those of other logs.
func TestOneReadHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &hangingStore{Store: newStore(t)}
		f := start(t, store, Config{})
		f.mustAppend(t, "t", "1")
		f.mustAppend(t, "other", "1")
		ctx, cancel := context.WithCancel(t.Context())
		const readers = concurrentReads + 24
		var got [readers]atomic.Int64
		for i := range got {
			r, err := f.open(ctx, reading(forever))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for r.next() == nil {
					got[i].Store(int64(len(r.events)))
				}
			}()
		}
		synctest.Wait()
		f.mustAppend(t, "t", "2")
		time.Sleep(time.Second)
		store.armed.Store(true)
		f.mustAppend(t, "t", "3")
		time.Sleep(100 * time.Millisecond)
		other := reading(head)
		other.TaskId = "other"
		began := time.Now()
		if r, err := f.readAll(t.Context(), other); err != nil || len(r.events) != 1 || time.Since(began) > 100*time.Millisecond {
			t.Errorf("a reader of another log had %d events after %v: %v", len(r.events), time.Since(began), err)
		}
		time.Sleep(2 * time.Second)
		have := 0
		for i := range got {
			if got[i].Load() == 3 {
				have++
			}
		}
		if have != readers-1 {
			t.Errorf("%d of %d readers have the event", have, readers)
		}
		cancel()
		synctest.Wait()
	})
}

// A stream that ends with the server before it has begun is not told to go on from the start.
func TestDrainBeforeAStreamBegins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		req  *pb.ReadEventsRequest
		want string
	}{
		"after a seq": {afterSeq(reading(forever), 3), "3"},
		"from now":    {fromNow(reading(forever)), ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &hangingStore{Store: newStore(t)}
			f := start(t, store, Config{})
			f.mustAppend(t, "t", "one", "two", "three", "four")
			store.armed.Store(true)
			ended := make(chan error, 1)
			go func() {
				_, err := f.open(t.Context(), test.req)
				ended <- err
			}()
			synctest.Wait()
			down := make(chan error, 1)
			go func() { down <- f.server.Shutdown(context.Background()) }()
			if got := wantReason(t, <-ended, reasonDraining)["last_seq"]; got != test.want {
				t.Errorf("%s: resume behind %q, want %q", name, got, test.want)
			}
			if err := <-down; err != nil {
				t.Error(err)
			}
		})
	}
}
