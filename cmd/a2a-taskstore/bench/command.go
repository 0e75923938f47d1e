// Package bench measures the store, and in the same run the floors under it: what the transport, the engine and the disk
// allow, and what other stores cost. Its figures are ratios within one run, because machines and their neighbours differ
// more than stores do.
//
// What serves runs in child processes (see child), so that its memory, allocations and CPU time are its own. The systems
// of a comparison take turns, sample by sample (see session.compare), and each figure is a median over the repetitions.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// Command is the configuration of a run, in the tags of kong. A zero field of a workload's size means its default.
type Command struct {
	Workload []string `help:"Workloads to run, by name; see --list. Default: all." placeholder:"NAME" short:"w"`
	Backend  []string `help:"Backends to measure: memory, pebble, postgres. Default: all that can be started." placeholder:"NAME" short:"b"`
	Postgres string   `help:"Connection string of a PostgreSQL database that the run may write to; without it, postgres is left out." placeholder:"DSN"`
	Address  string   `help:"Measure the store that serves there, on top of what it holds, in tenants named bench-*, instead of starting any." placeholder:"HOST:PORT"`
	Dir      string   `help:"Where files go while it runs; the disk is part of what is measured. Default: the directory for temporary files." type:"path" placeholder:"DIR"`

	Size        []int         `help:"Sizes of tasks in bytes, for save, get, list and mix." placeholder:"BYTES"`
	Callers     []int         `help:"Numbers of concurrent callers." placeholder:"N"`
	Tasks       []int         `help:"Numbers of stored tasks, for pages, churn and start." placeholder:"N"`
	Repetitions int           `help:"Samples of each system; 0: 5, or 1 with --quick." default:"0"`
	Duration    time.Duration `help:"Length of a sample of the workloads that run for a time; 0: 1s." default:"0s"`
	Quick       bool          `help:"Sizes that finish in a minute: to see that it works, not how fast."`

	Output  string   `help:"table for people, json for programs." enum:"table,json" default:"table" short:"o"`
	JSON    string   `help:"Write the report to a file, too." type:"path" placeholder:"FILE"`
	SVG     string   `help:"Write plots into a directory: cost per event against stream length, throughput against callers." type:"path" placeholder:"DIR"`
	Profile string   `help:"Write CPU and allocation profiles of the served processes into a directory, one of each per workload and backend." type:"path" placeholder:"DIR"`
	Check   []string `help:"Run nothing: compare the reports in files, of one run or of several, with the goals, and fail if one is missed." type:"existingfile" placeholder:"FILE"`
	List    bool     `help:"List the workloads."`

	// Connection says how to connect to Address, where plain text without a credential is not enough.
	Connection []grpc.DialOption `kong:"-"`

	Child bool `hidden:"" help:"Be the served process of another bench."`
}

// ErrMissed is returned by a check that found a goal missed.
var ErrMissed = errors.New("not every goal is reached")

// Validate reports what is wrong with the configuration; kong calls it.
func (c *Command) Validate() error {
	for _, name := range c.Workload {
		if !slices.ContainsFunc(workloads, func(w workload) bool { return w.name == name }) {
			return fmt.Errorf("there is no workload %q, see --list", name)
		}
	}
	for _, name := range c.Backend {
		e, ok := engineNamed(name)
		if !ok {
			return fmt.Errorf("there is no backend %q", name)
		}
		if e.needsDSN && c.Postgres == "" {
			return fmt.Errorf("backend %s needs --postgres", name)
		}
	}
	for _, list := range [][]int{c.Size, c.Callers, c.Tasks} {
		if len(list) > 0 && slices.Min(list) < 1 {
			return errors.New("sizes, callers and tasks must be positive")
		}
	}
	if c.Repetitions < 0 || c.Duration < 0 {
		return errors.New("repetitions and duration must not be negative")
	}
	if c.Address != "" && len(c.Backend) > 0 {
		return errors.New("--address measures what serves there: leave --backend out")
	}
	return nil
}

// Run executes the command. The report, and the outcome of a check, go to stdout; progress goes to stderr.
func (c *Command) Run(ctx context.Context, stdout, stderr io.Writer) error {
	switch {
	case c.Child:
		return serveChild(ctx, os.Stdin, stdout)
	case c.List:
		return listWorkloads(stdout)
	case len(c.Check) > 0:
		return checkFiles(c.Check, stdout)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	report := newReport()
	err := c.measure(ctx, report, stderr)
	if len(report.Results) > 0 { // what was measured before a failure, or an interrupt, may have taken hours
		err = errors.Join(err, c.write(report, stdout))
	}
	return err
}

func (c *Command) measure(ctx context.Context, report *Report, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp(c.Dir, "a2a-taskstore-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if c.Profile != "" {
		if err := os.MkdirAll(c.Profile, 0o755); err != nil {
			return err
		}
	}
	s := &session{
		scale: c.scale(), dir: dir, dsn: c.Postgres, external: c.Address, connection: c.Connection, profiles: c.Profile,
		progress: progress, report: report,
	}
	for _, w := range workloads {
		if len(c.Workload) > 0 && !slices.Contains(c.Workload, w.name) {
			continue
		}
		for _, backend := range c.backends(&w) {
			if err := w.run(ctx, s, backend); err != nil {
				return fmt.Errorf("%s on %s: %w", w.name, backend, err)
			}
		}
	}
	return nil
}

// backends are those that a workload runs on.
func (c *Command) backends(w *workload) []string {
	switch {
	case w.disk:
		return []string{"disk"}
	case c.Address != "" && w.owns:
		return nil
	case c.Address != "":
		return []string{external}
	}
	var names []string
	for _, e := range engines {
		switch {
		case len(c.Backend) > 0 && !slices.Contains(c.Backend, e.name):
		case e.needsDSN && c.Postgres == "":
		case w.durable && !e.durable:
		default:
			names = append(names, e.name)
		}
	}
	return names
}

func (c *Command) write(report *Report, stdout io.Writer) error {
	if c.JSON != "" {
		if err := report.save(c.JSON); err != nil {
			return err
		}
	}
	if c.SVG != "" {
		if err := os.MkdirAll(c.SVG, 0o755); err != nil {
			return err
		}
		for name, chart := range report.charts() {
			if err := os.WriteFile(filepath.Join(c.SVG, name), chart.svg(), 0o644); err != nil {
				return err
			}
		}
	}
	if c.Output == "json" {
		return report.writeJSON(stdout)
	}
	return report.writeTable(stdout)
}

func listWorkloads(w io.Writer) error {
	var b strings.Builder
	for _, each := range workloads {
		fmt.Fprintf(&b, "%-8s %s\n", each.name, each.help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
