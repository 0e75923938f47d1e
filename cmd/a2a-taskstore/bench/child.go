package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/observe"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/gcpace"
	"github.com/a2a-taskstore/taskstore/server/metrics"
)

// A child is told what to serve in the first line that it reads, and answers where it serves. Then it answers each
// question, a line too. It drains and ends when its input does, so none outlives the run.

// childConfig is what a child serves: a store, or, with Replies, an echo.
type childConfig struct {
	Place place
	// Seed is put into the store before it serves.
	Seed *seed
	// Replies holds, by method, what an echo answers.
	Replies map[string][]byte
}

// question is what a child is asked.
type question struct {
	Do   string // "stats", "collect" (stats behind a garbage collection), "profile" (start), "profiled" (stop and write)
	Path string // of profiles, without the ending
}

// answer is what a child answers. Numbers count from its start, except Live.
type answer struct {
	Address string `json:",omitempty"` // in the first answer
	Error   string `json:",omitempty"`

	Mallocs    uint64
	AllocBytes uint64
	Live       uint64 // bytes of heap and stacks in use
	CPU        time.Duration
	Written    int64 // by the store
}

func serveChild(ctx context.Context, in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewReader(in), json.NewEncoder(out)
	var config childConfig
	if err := readLine(lines, &config); err != nil {
		return err
	}
	c, err := startChild(ctx, &config)
	if err != nil {
		return errors.Join(err, answers.Encode(answer{Error: err.Error()}))
	}
	err = answers.Encode(answer{Address: c.listener.Addr().String()})
	for err == nil {
		var q question
		if err = readLine(lines, &q); err == nil {
			err = answers.Encode(c.answer(&q))
		}
	}
	if !errors.Is(err, io.EOF) {
		return errors.Join(err, c.stop(context.WithoutCancel(ctx)))
	}
	return c.stop(context.WithoutCancel(ctx))
}

func readLine(r *bufio.Reader, into any) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}

// served is what a child serves.
type served struct {
	listener net.Listener
	written  func() int64
	shutdown func(context.Context) error
	close    func() error
	profile  *os.File
}

func startChild(ctx context.Context, config *childConfig) (*served, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	gcpace.Start() // as serve does, and for the echo, too, so that it is no easier to keep up with
	c := &served{listener: listener, written: func() int64 { return 0 }, close: func() error { return nil }}
	if config.Replies != nil {
		e := newEcho(config.Replies)
		go e.Serve(listener)
		c.shutdown = func(context.Context) error { e.Stop(); return nil }
		return c, nil
	}
	store, written, err := config.Place.open(ctx)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if config.Seed != nil {
		if err := config.Seed.plant(ctx, &target{api: direct{store}, tenant: config.Place.Tenant}); err != nil {
			return nil, errors.Join(err, store.Close(), listener.Close())
		}
	}
	registry := metrics.NewRegistry("bench") // what serve counts by default is part of what is measured
	srv := server.New(observe.Wrap(store, registry), server.Config{
		Logger: slog.New(slog.DiscardHandler), Retention: backend.DefaultRetention, Metrics: registry,
	})
	go srv.Serve(listener)
	c.written, c.shutdown, c.close = written, srv.Shutdown, store.Close
	return c, nil
}

// drainTimeout is when calls of a child that ends are cut off.
const drainTimeout = 5 * time.Second

func (c *served) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := c.shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // readers that are still open
	}
	return errors.Join(err, c.close())
}

func (c *served) answer(q *question) answer {
	var err error
	switch q.Do {
	case "stats":
	case "collect":
		runtime.GC()
		runtime.GC() // what finalizers and pools held goes with the second
	case "profile":
		if c.profile, err = os.Create(q.Path + ".cpu.pprof"); err == nil {
			err = pprof.StartCPUProfile(c.profile)
		}
	case "profiled":
		pprof.StopCPUProfile()
		err = errors.Join(c.profile.Close(), writeAllocs(q.Path+".allocs.pprof"))
	default:
		err = fmt.Errorf("unknown question %q", q.Do)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return answer{
		Mallocs: m.Mallocs, AllocBytes: m.TotalAlloc, Live: m.HeapAlloc + m.StackInuse, CPU: cpuTime(), Written: c.written(),
	}
}

func writeAllocs(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
