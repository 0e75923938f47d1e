package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// Report is what a run measured.
type Report struct {
	Started   time.Time `json:"started"`
	GoVersion string    `json:"go_version"`
	Platform  string    `json:"platform"`
	CPUs      int       `json:"cpus"`
	Results   []Result  `json:"results"`
}

// Case is what was measured, apart from on which system. Fields that a workload does not vary are zero.
type Case struct {
	Workload string `json:"workload"`
	Variant  string `json:"variant,omitempty"`
	Backend  string `json:"backend"`
	Size     int    `json:"size,omitempty"`    // bytes of a task or a chunk
	Callers  int    `json:"callers,omitempty"` // concurrent
	Tasks    int    `json:"tasks,omitempty"`   // in the store
	History  int    `json:"history,omitempty"` // messages of the task
	Readers  int    `json:"readers,omitempty"` // of the log
}

// Result is the samples of one system in one case. Systems of the same case took turns: samples of the same index belong
// together.
type Result struct {
	Case
	System  string   `json:"system"`
	Samples []Sample `json:"samples"`
}

// The systems.
const (
	// Service is the store as a client sees it: a server in a process of its own, over loopback TCP.
	Service = "service"
	// Echo is a gRPC server that takes the same requests, decodes nothing, and answers with the same replies.
	Echo = "echo"
	// Direct is the backend called in process, payloads parsed as the server does.
	Direct = "direct"
	// Bare is the engine without the store: one synced Pebble batch, or one SQL statement, of the same bytes.
	Bare = "bare"
	// BarePerCaller is Bare with a connection for each caller, where the engine makes a difference.
	BarePerCaller = "bare-per-caller"
	// DropIn is the store that plugs into a2a-go, over the client and the service.
	DropIn = "drop-in"
	// SDK is a2a-go's own store in memory, called in process.
	SDK = "a2a-go"
	// Empty is the service with a task that has no history.
	Empty = "empty"
	// Quiet is the service without readers.
	Quiet = "quiet"
	// Fresh is the service with the same tasks, loaded and not updated since.
	Fresh = "fresh"
)

// Metric names a figure of a sample.
type Metric string

// The metrics. Those per operation count what the system's process did, and, for systems in process, the caller too.
const (
	Throughput Metric = "ops_per_s"
	P50        Metric = "p50_us"
	P99        Metric = "p99_us"
	Wire       Metric = "wire_bytes_per_op"    // sent and received, HTTP/2 framing included
	Written    Metric = "written_bytes_per_op" // handed to the file system; WAL of a database
	Allocs     Metric = "allocs_per_op"
	AllocBytes Metric = "alloc_bytes_per_op"
	CPU        Metric = "cpu_us_per_op"
	DeliverP50 Metric = "deliver_p50_us" // from the start of the append to the reader
	DeliverP99 Metric = "deliver_p99_us"
	Memory     Metric = "memory_bytes_per_reader" // live heap and stacks of the server
	Ready      Metric = "ready_ms"                // from the start of the process to SERVING
)

// Sample is one repetition.
type Sample struct {
	Metrics map[Metric]float64 `json:"metrics"`
	// Steps are the parts of a stream, in order.
	Steps []Step `json:"steps,omitempty"`
}

// Step is a part of a stream of events.
type Step struct {
	// Events is how many events the stream has at the end of the step.
	Events int `json:"events"`
	first  int // events before it
	// Micros is what one event in it took on average, P50 the median of them, which is steadier on a busy disk.
	Micros float64 `json:"us_per_event"`
	P50    float64 `json:"p50_us"`
	// Written is how many bytes one event made the system write until the step ended, where that is known.
	Written *float64 `json:"written_bytes_per_event,omitempty"`
}

func newReport() *Report {
	return &Report{
		Started: time.Now().UTC().Truncate(time.Second), GoVersion: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Results: []Result{},
	}
}

// find returns the result of a system in a case, or nil.
func (r *Report) find(c Case, system string) *Result {
	i := slices.IndexFunc(r.Results, func(res Result) bool { return res.Case == c && res.System == system })
	if i < 0 {
		return nil
	}
	return &r.Results[i]
}

// values returns a metric of each sample; nil unless all have it.
func (r *Result) values(m Metric) []float64 {
	if r == nil {
		return nil
	}
	var out []float64
	for _, s := range r.Samples {
		v, ok := s.Metrics[m]
		if !ok {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// figure stands for all samples: the median, except of bytes written. What a flush or a compaction writes falls into few
// samples, and belongs to all.
func (r *Result) figure(m Metric) float64 {
	if m == Written {
		return mean(r.values(m))
	}
	return median(r.values(m))
}

func (r *Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

func (r *Report) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := r.writeJSON(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func loadReport(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s is not a report: %w", path, err)
	}
	return r, nil
}
