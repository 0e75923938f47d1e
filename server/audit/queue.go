package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxQueued bounds the lines that wait, in bytes: some ten thousand.
	maxQueued = 4 << 20
	// lineDelay is how long a line may wait for others, so that many are written at once.
	lineDelay = 5 * time.Millisecond
	// retryDelay is how long after a failure the log is tried again.
	retryDelay = 500 * time.Millisecond
	// closeTimeout bounds how long the end waits for lines to be written.
	closeTimeout = 5 * time.Second
)

// queue holds lines until they are written, which run does. Write may be called by any number of goroutines.
type queue struct {
	out    *file // run's alone
	logger *slog.Logger

	mu      sync.Mutex
	waiting []byte // whole lines
	missing int64  // lines that were lost behind those that wait
	inBatch int    // bytes of batch, as long as it is not written as a whole

	batch []byte // run's alone: what is being written
	done  int    // bytes of it that are written

	failing       atomic.Bool
	written, lost atomic.Int64

	wake    chan struct{} // has a token when lines wait
	closing chan struct{}
	ended   chan struct{}
}

func newQueue(out *file, logger *slog.Logger) *queue {
	return &queue{
		out: out, logger: logger,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Write takes a line. It never fails, and never waits for the disk: a line that has no room is lost.
func (q *queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	held := len(q.waiting) + q.inBatch
	room := held+len(line) <= maxQueued
	if room {
		q.waiting = append(q.waiting, line...)
	} else {
		q.missing++
	}
	q.mu.Unlock()
	if !room {
		q.lost.Add(1)
	}
	if held > maxQueued/2 { // a disk that hangs returns no error, and calls under way still have lines to come
		q.fail(errSlow)
	}
	select { // also for a line that is lost, or else a failure could be noted behind the last flush and stay
	case q.wake <- struct{}{}:
	default:
	}
	return len(line), nil
}

var errSlow = errors.New("lines come faster than they are written")

// fail notes that the log cannot be written, and says so once.
func (q *queue) fail(err error) {
	if q.failing.CompareAndSwap(false, true) {
		q.logger.Error("the audit log cannot be written", "error", err)
	}
}

// recovered notes that everything up to now was written.
func (q *queue) recovered() {
	if q.failing.CompareAndSwap(true, false) {
		q.logger.Info("the audit log is written again", "lost_lines", q.lost.Load())
	}
}

// run writes lines until close.
func (q *queue) run() {
	defer close(q.ended)
	for {
		select {
		case <-q.wake:
		case <-q.closing:
		}
		last := q.rest(lineDelay)
		for {
			err := q.flush()
			if err == nil {
				q.recovered()
				break
			}
			q.fail(err)
			if last {
				break
			}
			last = q.rest(retryDelay)
		}
		if last {
			return
		}
	}
}

// rest waits, and reports whether the queue is to end.
func (q *queue) rest(d time.Duration) (last bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-q.closing:
		return true
	}
}

// flush writes the rest of the batch, and what waits. What it does not get done, the next one goes on with.
func (q *queue) flush() error {
	for q.next() {
		moved, err := q.out.follow()
		if err != nil {
			return err
		}
		if moved { // a line that was begun in the old file is written whole to the new one
			q.done = bytes.LastIndexByte(q.batch[:q.done], '\n') + 1
		}
		before := q.done
		n, err := q.out.f.Write(q.batch[q.done:])
		q.done += n
		q.written.Add(int64(bytes.Count(q.batch[before:q.done], []byte{'\n'})))
		if err != nil {
			return err
		}
	}
	return nil
}

// next makes a batch of what waits, once the one before is written. It reports whether there is anything to write.
func (q *queue) next() bool {
	if q.done < len(q.batch) {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	written := q.batch[:0]
	if cap(written) > maxQueued/8 {
		written = nil // an outage does not keep its memory
	}
	q.batch, q.waiting, q.done = q.waiting, written, 0
	if q.missing > 0 {
		q.batch = q.gap(q.batch)
	}
	q.inBatch = len(q.batch)
	return len(q.batch) > 0
}

// gap appends the line that says how many are missing in this place. It is called under mu.
func (q *queue) gap(lines []byte) []byte {
	out := bytes.NewBuffer(lines)
	r := slog.NewRecord(time.Now().UTC(), slog.LevelError, "lines are missing here", 0)
	r.AddAttrs(slog.Int64("lost", q.missing))
	_ = slog.NewJSONHandler(out, nil).Handle(context.Background(), r) // a buffer takes everything
	q.missing = 0
	return out.Bytes()
}

func (q *queue) close() error {
	close(q.closing)
	select {
	case <-q.ended:
	case <-time.After(closeTimeout):
		return errors.New("close the audit log: it hangs, and lines are left")
	}
	q.mu.Lock()
	left := bytes.Count(q.batch[q.done:], []byte{'\n'}) + bytes.Count(q.waiting, []byte{'\n'})
	q.mu.Unlock()
	if left > 0 {
		q.lost.Add(int64(left))
		return errors.Join(fmt.Errorf("close the audit log: %d lines are left", left), q.out.close())
	}
	return q.out.close()
}
