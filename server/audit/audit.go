// Package audit writes who did what to which task: one line of JSON for each call, to a file or to standard output.
//
// Lines are collected in memory and written behind the calls, some milliseconds later and many at once, so that a call never
// waits for a disk. That memory is bounded: while the log cannot be written, lines wait in it, and what does not fit is lost. Each
// outage is logged once, lines that are lost are counted, and the log itself says how many are missing. Or, with
// Config.Required, calls that would leave a line are not to be carried out then; see Log.Ready.
//
// Lines are written, not synced: the crash of the process takes those of the last milliseconds, a loss of power some more.
package audit

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// Stdout is the path that stands for standard output.
const Stdout = "-"

// Calls says which calls leave a line.
type Calls uint8

const (
	// Writes are the calls that may change something.
	Writes Calls = iota
	// All are those that read, too.
	All
)

// Config configures a Log.
type Config struct {
	// Path is a file, made with mode 0600 if it is not there and appended to, or Stdout. A file that was renamed or removed is
	// opened anew under its path.
	Path string
	// Calls says which calls leave a line.
	Calls Calls
	// Required says that calls must not be carried out while their line cannot be written.
	Required bool
	// Logger is told when an outage begins and when it ends. nil: slog.Default().
	Logger *slog.Logger
}

// Entry is what a line says of a call. It holds what callers sent only as far as it names things, never contents or secrets.
// One goroutine at a time may use it.
type Entry struct {
	RequestID string
	// Principal is "" where the server asks nobody who they are, or could not find out.
	Principal string
	Peer      net.Addr // nil: not known
	Method    string   // without the service
	// Scoped says that the tenant and the owner are known: the call got as far as naming them.
	Scoped bool
	Tenant string
	// Owner is nil if the call is about the tasks of all owners.
	Owner *string
	Task  string // "": none is named
	Key   string // of a claim; "": none is named
	// Version is that of the task after a write, or as it was read; 0: not known.
	Version int64
	Code    codes.Code
	// Reason is why a call failed.
	Reason backend.Reason
	// Result is what came of a call that can end well in several ways.
	Result string

	attrs []slog.Attr
}

// most is how many attributes an entry has at most.
const most = 12

var entries = sync.Pool{New: func() any { return &Entry{attrs: make([]slog.Attr, 0, most)} }}

// NewEntry returns an empty entry, which Log.Write takes back.
func NewEntry() *Entry { return entries.Get().(*Entry) }

// record is the entry as it is written. Its attributes are the entry's own.
func (e *Entry) record() slog.Record {
	add := func(key, value string) {
		if value != "" {
			e.attrs = append(e.attrs, slog.String(key, value))
		}
	}
	add("method", e.Method)
	add("code", e.Code.String())
	add("reason", string(e.Reason))
	add("result", e.Result)
	add("principal", e.Principal)
	if e.Scoped {
		e.attrs = append(e.attrs, slog.String("tenant", e.Tenant))
		if e.Owner != nil {
			e.attrs = append(e.attrs, slog.String("owner", *e.Owner))
		}
	}
	add("task", e.Task)
	add("key", e.Key)
	if e.Version != 0 {
		e.attrs = append(e.attrs, slog.Int64("version", e.Version))
	}
	add("request_id", e.RequestID)
	if e.Peer != nil {
		add("peer", e.Peer.String())
	}
	r := slog.NewRecord(time.Now().UTC(), slog.LevelInfo, "audit", 0)
	// A group without a name is its attributes: they stay in the entry's memory, where a record has room for five.
	r.AddAttrs(slog.Attr{Value: slog.GroupValue(e.attrs...)})
	return r
}

// Log writes entries. A nil *Log is one that is off. Its methods are safe for concurrent use.
type Log struct {
	calls    Calls
	required bool
	lines    slog.Handler
	queue    *queue
}

// Open opens the log, and fails if it cannot be written to at all.
func Open(cfg Config) (*Log, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	out, err := openFile(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	q := newQueue(out, cfg.Logger)
	go q.run()
	return &Log{calls: cfg.Calls, required: cfg.Required, lines: slog.NewJSONHandler(q, nil), queue: q}, nil
}

// Close writes the lines that wait, for at most closeTimeout, and closes the log. It fails if lines were left. What is written
// to the log after it is lost.
func (l *Log) Close() error { return l.queue.close() }

// Wants reports whether calls of this access leave a line.
func (l *Log) Wants(access auth.Access) bool {
	return l != nil && (l.calls == All || access != auth.Read)
}

var errNotReady = &backend.Error{Reason: backend.ErrUnavailable, Detail: "the audit log cannot be written"}

// Ready returns an ErrUnavailable for a call whose line is required and cannot be written at present.
func (l *Log) Ready(access auth.Access) error {
	if l.Wants(access) && l.required && l.queue.failing.Load() {
		return errNotReady
	}
	return nil
}

// Write puts an entry into the log, and takes it back.
func (l *Log) Write(e *Entry) {
	_ = l.lines.Handle(context.Background(), e.record()) // a queue takes everything, and counts what it loses
	clear(e.attrs)
	*e = Entry{attrs: e.attrs[:0]}
	entries.Put(e)
}

// Stats are counters, for metrics.
type Stats struct {
	// Lines were written, Lost were not.
	Lines, Lost int64
	// Failing says that the log cannot be written at present.
	Failing bool
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	return Stats{Lines: l.queue.written.Load(), Lost: l.queue.lost.Load(), Failing: l.queue.failing.Load()}
}
