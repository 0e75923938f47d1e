package client_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

type eventStream = grpc.ServerStreamingServer[taskstorev1.ReadEventsResponse]

// unreliableLog serves one log over streams that break at random points, in every way that streams break, while the log
// grows and, if asked to, loses its oldest events.
type unreliableLog struct {
	mu       sync.Mutex // a stream that broke may outlive the next one's beginning
	rng      *rand.Rand
	f        *fake
	all      []*taskstorev1.LogEvent // what is written in the end
	appended map[int64]bool          // by seq: by AppendEvent, not by a Save
	written  int
	dropped  int
	breaks   int // how many are left
	dropping bool
}

// newUnreliableLog makes a log with gaps in its seqs, saved and appended events, and two origins.
func newUnreliableLog(f *fake, rng *rand.Rand) *unreliableLog {
	l := &unreliableLog{rng: rng, f: f, breaks: rng.IntN(12), appended: map[int64]bool{}}
	seq, version := int64(0), int64(0)
	for range 1 + rng.IntN(40) {
		seq++
		if rng.IntN(8) == 0 {
			seq += rng.Int64N(3)
		}
		if version > 0 && rng.IntN(2) == 0 {
			l.appended[seq] = true
		} else {
			version++
		}
		l.all = append(l.all, &taskstorev1.LogEvent{Seq: seq, Version: version, Origin: []string{"me", "other"}[rng.IntN(2)]})
	}
	l.written = rng.IntN(len(l.all) + 1)
	return l
}

func (l *unreliableLog) earliest() int64 {
	if l.dropped < l.written {
		return l.all[l.dropped].GetSeq()
	}
	return l.last() + 1
}

func (l *unreliableLog) last() int64 {
	if l.written == 0 {
		return 0
	}
	return l.all[l.written-1].GetSeq()
}

func (l *unreliableLog) final() *int64 {
	if l.written < len(l.all) {
		return nil
	}
	final := l.last()
	return &final
}

// change lets other callers write, and retention work.
func (l *unreliableLog) change() {
	if l.rng.IntN(2) == 0 {
		l.written = min(l.written+l.rng.IntN(4), len(l.all))
	}
	if l.dropping && l.rng.IntN(4) == 0 {
		l.dropped = min(l.dropped+l.rng.IntN(3), max(l.written-1, l.dropped))
	}
}

// broken breaks the stream now and then. A reset may not happen often in a row.
func (l *unreliableLog) broken(progress bool) (error, bool) {
	if l.breaks == 0 || l.rng.IntN(3) > 0 {
		return nil, false
	}
	l.breaks--
	l.change()
	switch l.rng.IntN(5) {
	case 0:
		return nil, true // an end without end frame
	case 1:
		l.f.cut()
		return status.Error(codes.Unavailable, "gone"), true
	case 2:
		return status.Error(codes.Canceled, "context canceled"), true
	case 3:
		if progress {
			return status.Error(codes.Internal, "stream terminated by RST_STREAM"), true
		}
	}
	return problem(codes.Unavailable, "DRAINING", nil), true
}

func (l *unreliableLog) outOfRange() error {
	return problem(codes.OutOfRange, "LOG_RANGE", map[string]string{
		"earliest_seq": strconv.FormatInt(l.earliest(), 10), "last_seq": strconv.FormatInt(l.last(), 10),
	})
}

// isBehind tells whether e is of a later Save, or was appended at this version or later.
func (l *unreliableLog) isBehind(e *taskstorev1.LogEvent, version int64) bool {
	return e.GetVersion() > version || (l.appended[e.GetSeq()] && e.GetVersion() == version)
}

// start is the position that a request begins behind.
func (l *unreliableLog) start(req *taskstorev1.ReadEventsRequest) (int64, error) {
	switch s := req.GetStart().(type) {
	case *taskstorev1.ReadEventsRequest_FromNow:
		return l.last(), nil
	case *taskstorev1.ReadEventsRequest_AfterVersion:
		behind := slices.IndexFunc(l.all[:l.written], func(e *taskstorev1.LogEvent) bool { return l.isBehind(e, s.AfterVersion) })
		switch {
		case behind < 0:
			return l.last(), nil
		case behind < l.dropped:
			return 0, l.outOfRange()
		}
		return l.all[behind].GetSeq() - 1, nil
	}
	if after := req.GetAfterSeq(); after > 0 {
		if after < l.earliest()-1 || after > l.last() {
			return 0, l.outOfRange()
		}
		return after, nil
	}
	return l.earliest() - 1, nil
}

func (l *unreliableLog) serve(_ int, req *taskstorev1.ReadEventsRequest, stream eventStream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err, broken := l.broken(false); broken {
		return err
	}
	pos, err := l.start(req)
	if err != nil {
		return err
	}
	head, left := l.last(), int(req.GetLimit())
	opened := &taskstorev1.OpenedFrame{EarliestSeq: l.earliest(), LastSeq: l.last(), FinalSeq: l.final()}
	if req.GetIncludeTask() {
		opened.Task = &taskstorev1.StoredTask{Version: 1}
	}
	if err := stream.Send(&taskstorev1.ReadEventsResponse{Frame: &taskstorev1.ReadEventsResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	end := func(reason taskstorev1.EndReason) error {
		return stream.Send(&taskstorev1.ReadEventsResponse{
			Frame: &taskstorev1.ReadEventsResponse_End{End: &taskstorev1.EndFrame{Reason: reason, LastSeq: pos}},
		})
	}
	progress := false
	for {
		if err, broken := l.broken(progress); broken {
			return err
		}
		if l.dropped > 0 && pos < l.all[l.dropped-1].GetSeq() {
			return l.outOfRange()
		}
		var frame taskstorev1.EventsFrame
		size := 1 + l.rng.IntN(4)
		for _, event := range l.all[l.dropped:l.written] {
			if event.GetSeq() <= pos || len(frame.Events) == size {
				continue
			}
			if req.GetUntil() == taskstorev1.ReadUntil_READ_UNTIL_HEAD && (event.GetSeq() > head || (req.GetLimit() > 0 && left == 0)) {
				break
			}
			pos = event.GetSeq()
			if event.GetOrigin() != req.GetExcludeOrigin() {
				left--
				frame.Events = append(frame.Events, event)
			}
		}
		if len(frame.Events) > 0 {
			progress = true
			if err := stream.Send(&taskstorev1.ReadEventsResponse{Frame: &taskstorev1.ReadEventsResponse_Events{Events: &frame}}); err != nil {
				return err
			}
		}
		if err, broken := l.broken(progress); broken {
			return err
		}
		switch until := req.GetUntil(); {
		case until == taskstorev1.ReadUntil_READ_UNTIL_HEAD && req.GetLimit() > 0 && left == 0:
			return end(taskstorev1.EndReason_END_REASON_LIMIT)
		case until == taskstorev1.ReadUntil_READ_UNTIL_HEAD && pos >= head:
			return end(taskstorev1.EndReason_END_REASON_HEAD)
		case until == taskstorev1.ReadUntil_READ_UNTIL_TERMINAL && l.written == len(l.all) && pos >= l.last():
			return end(taskstorev1.EndReason_END_REASON_TERMINAL)
		case until == taskstorev1.ReadUntil_READ_UNTIL_FOREVER && l.written == len(l.all) && pos >= l.last():
			l.mu.Unlock()
			<-stream.Context().Done()
			l.mu.Lock()
			return stream.Context().Err()
		}
		l.change()
	}
}
