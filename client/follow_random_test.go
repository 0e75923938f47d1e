package client_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/client"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Whatever breaks and whenever, each event that the read means is yielded exactly once and in order.
func TestFollowExactlyOnce(t *testing.T) {
	t.Parallel()
	for _, dropping := range []bool{false, true} {
		for seed := range uint64(400) {
			bubble(t, func(t *testing.T, f *fake, n *network) { followRandomly(t, f, n, seed, dropping) })
			if t.Failed() {
				t.Fatalf("seed %d, dropping %t", seed, dropping)
			}
		}
	}
}

func followRandomly(t *testing.T, f *fake, n *network, seed uint64, dropping bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	log := newUnreliableLog(f, rng)
	log.dropping = dropping && log.written > 0
	f.readEvents = log.serve
	c := connect(t, n)

	req := &taskstorev1.ReadEventsRequest{
		TaskId:      "t",
		Until:       taskstorev1.ReadUntil(1 + rng.IntN(3)),
		IncludeTask: true,
	}
	if req.GetUntil() == taskstorev1.ReadUntil_READ_UNTIL_HEAD {
		req.Limit = rng.Int32N(4) * 5
	}
	if rng.IntN(2) == 0 {
		req.ExcludeOrigin = "me"
	}
	afterSeq, afterVersion := int64(0), int64(0)
	switch rng.IntN(4) {
	case 0:
		if log.written > 0 {
			afterSeq = log.all[rng.IntN(log.written)].GetSeq()
		}
		req.Start = &taskstorev1.ReadEventsRequest_AfterSeq{AfterSeq: afterSeq}
	case 1:
		if log.written > 0 {
			afterVersion = rng.Int64N(log.all[log.written-1].GetVersion() + 1)
		}
		req.Start = &taskstorev1.ReadEventsRequest_AfterVersion{AfterVersion: afterVersion}
	case 2:
		req.Start = &taskstorev1.ReadEventsRequest_FromNow{FromNow: &emptypb.Empty{}}
	}

	var opened []*taskstorev1.OpenedFrame
	var ends []*taskstorev1.EndFrame
	// Nothing else ends a read for ever.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	events := c.Follow(ctx, req,
		client.OnOpened(func(frame *taskstorev1.OpenedFrame) { opened = append(opened, frame) }),
		client.OnEnd(func(frame *taskstorev1.EndFrame) { ends = append(ends, frame) }))

	// expected is what this read means, which the first opened frame fixes.
	expected := func() []int64 {
		if len(opened) != 1 || opened[0].GetTask() == nil {
			t.Fatalf("%d opened frames: %v", len(opened), opened)
		}
		first := opened[0]
		from := afterSeq
		if from == 0 {
			from = first.GetEarliestSeq() - 1
		}
		if req.GetFromNow() != nil {
			from = first.GetLastSeq()
		}
		var seqs []int64
		for _, e := range log.all {
			switch {
			case e.GetSeq() <= from, req.GetStart() != nil && !log.isBehind(e, afterVersion):
			case req.GetUntil() == taskstorev1.ReadUntil_READ_UNTIL_HEAD && e.GetSeq() > first.GetLastSeq():
			case req.GetLimit() > 0 && len(seqs) == int(req.GetLimit()):
			case req.GetExcludeOrigin() == e.GetOrigin():
			default:
				seqs = append(seqs, e.GetSeq())
			}
		}
		return seqs
	}

	var got []int64
	var failed error
	for event, err := range events {
		if failed != nil {
			t.Fatalf("%v, %v after the error %v", event, err, failed)
		}
		if failed = err; err == nil {
			got = append(got, event.GetSeq())
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if forever := req.GetUntil() == taskstorev1.ReadUntil_READ_UNTIL_FOREVER; forever && errors.Is(failed, context.DeadlineExceeded) {
		if diff := cmp.Diff(expected(), got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", req, diff)
		}
		return
	}
	if failed != nil {
		if !log.dropping || !errors.Is(failed, client.ErrLogRange) || len(ends) > 0 {
			t.Fatalf("error %v, end %v", failed, ends)
		}
		// Retention was faster: what came before is still without gaps.
		if len(opened) > 0 && len(got) > 0 {
			if diff := cmp.Diff(expected()[:len(got)], got); diff != "" {
				t.Errorf("before %v (-want +got):\n%s", failed, diff)
			}
		}
		return
	}
	if diff := cmp.Diff(expected(), got); diff != "" {
		t.Errorf("%v (-want +got):\n%s", req, diff)
	}
	if len(ends) != 1 {
		t.Fatalf("%d end frames: %v", len(ends), ends)
	}
	if req.GetUntil() == taskstorev1.ReadUntil_READ_UNTIL_HEAD && ends[0].GetLastSeq() > opened[0].GetLastSeq() {
		t.Errorf("ended at %v, want at most %v", ends[0], opened[0])
	}
}
