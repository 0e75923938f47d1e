package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func contextWithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// outputFlags say for whom to write.
type outputFlags struct {
	Output string `help:"table for people, json for programs (one object a line)." enum:"table,json" default:"table" short:"o"`
}

func (f *outputFlags) json() bool { return f.Output == "json" }

// writeJSON writes a message as one line.
func writeJSON(w io.Writer, m proto.Message) error {
	b, err := protojson.Marshal(m)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// rows writes one row after the other.
type rows struct {
	w      io.Writer
	table  *tabwriter.Writer // nil: JSON
	header []string          // until the first row is there: an error alone needs none
}

func (f *outputFlags) rows(w io.Writer, header ...string) *rows {
	r := &rows{w: w, header: header}
	if !f.json() {
		r.table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	}
	return r
}

func (r *rows) flush() error {
	if r.table == nil {
		return nil
	}
	return r.table.Flush()
}

func (r *rows) cells(cells ...string) error {
	if r.header != nil {
		fmt.Fprintln(r.table, strings.Join(r.header, "\t"))
		r.header = nil
	}
	for i, c := range cells {
		cells[i] = clean(c)
	}
	_, err := fmt.Fprintln(r.table, strings.Join(cells, "\t"))
	return err
}

func (r *rows) task(t *taskstorev1.StoredTask) error {
	if r.table == nil {
		return writeJSON(r.w, t)
	}
	status := t.GetTask().GetStatus()
	return r.cells(t.GetTask().GetId(), strconv.FormatInt(t.GetVersion(), 10), stateText(status.GetState()),
		timeText(status.GetTimestamp()), t.GetTask().GetContextId(), t.GetOwner())
}

func (r *rows) event(e *taskstorev1.LogEvent) error {
	if r.table == nil {
		return writeJSON(r.w, e)
	}
	kind, detail := describe(e.GetEvent())
	return r.cells(strconv.FormatInt(e.GetSeq(), 10), strconv.FormatInt(e.GetVersion(), 10), timeText(e.GetCreatedAt()), kind, detail)
}

func describe(r *taskstorev1.StreamResponse) (kind, detail string) {
	switch p := r.GetPayload().(type) {
	case *taskstorev1.StreamResponse_Task:
		return "task", stateText(p.Task.GetStatus().GetState())
	case *taskstorev1.StreamResponse_Message:
		return "message", partsText(p.Message.GetParts())
	case *taskstorev1.StreamResponse_StatusUpdate:
		status := p.StatusUpdate.GetStatus()
		return "status", strings.TrimSpace(stateText(status.GetState()) + " " + partsText(status.GetMessage().GetParts()))
	case *taskstorev1.StreamResponse_ArtifactUpdate:
		a := p.ArtifactUpdate.GetArtifact()
		verb := "put"
		if p.ArtifactUpdate.GetAppend() {
			verb = "append"
		}
		return "artifact", strings.TrimSpace(verb + " " + a.GetArtifactId() + " " + partsText(a.GetParts()))
	default:
		return "unknown", ""
	}
}

// partsText shows what fits a line.
func partsText(parts []*taskstorev1.Part) string {
	const most = 60
	var b strings.Builder
	for _, p := range parts {
		switch c := p.GetContent().(type) {
		case *taskstorev1.Part_Text:
			b.WriteString(c.Text)
		case *taskstorev1.Part_Raw:
			fmt.Fprintf(&b, "[%d bytes]", len(c.Raw))
		case *taskstorev1.Part_Url:
			b.WriteString(c.Url)
		case *taskstorev1.Part_Data:
			b.WriteString("[data]")
		}
		if b.Len() > most {
			break
		}
	}
	runes := []rune(b.String())
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}

// clean keeps stored text from moving the cursor of the terminal that shows it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, s)
}

func stateText(s taskstorev1.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

func timeText(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format(time.RFC3339Nano)
}

func writeTask(w io.Writer, r *taskstorev1.GetResponse) error {
	t := r.GetTask()
	final := "-"
	if r.FinalSeq != nil {
		final = strconv.FormatInt(r.GetFinalSeq(), 10)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"Task", t.GetId()}, {"Context", t.GetContextId()}, {"Owner", r.GetOwner()},
		{"State", stateText(t.GetStatus().GetState())}, {"Status time", timeText(t.GetStatus().GetTimestamp())},
		{"Status message", partsText(t.GetStatus().GetMessage().GetParts())},
		{"Version", strconv.FormatInt(r.GetVersion(), 10)}, {"Last seq", strconv.FormatInt(r.GetLastSeq(), 10)}, {"Final seq", final},
		{"Created", timeText(r.GetCreatedAt())}, {"Updated", timeText(r.GetUpdatedAt())}, {"Finalized", timeText(r.GetFinalizedAt())},
	} {
		fmt.Fprintf(table, "%s\t%s\n", line[0], clean(line[1]))
	}
	for _, a := range t.GetArtifacts() {
		fmt.Fprintf(table, "Artifact\t%s\n", clean(fmt.Sprintf("%s %s (%d parts) %s", a.GetArtifactId(), a.GetName(), len(a.GetParts()), partsText(a.GetParts()))))
	}
	for _, m := range t.GetHistory() {
		role := strings.ToLower(strings.TrimPrefix(m.GetRole().String(), "ROLE_"))
		fmt.Fprintf(table, "History\t%s\n", clean(role+": "+partsText(m.GetParts())))
	}
	return table.Flush()
}

// taskState is a state on the command line: its name, with or without the prefix, or its number.
type taskState int32

// UnmarshalText parses a state.
func (s *taskState) UnmarshalText(text []byte) error {
	name := strings.ToUpper(strings.ReplaceAll(string(text), "-", "_"))
	if name == "" {
		return nil
	}
	n, ok := taskstorev1.TaskState_value["TASK_STATE_"+strings.TrimPrefix(name, "TASK_STATE_")]
	if !ok {
		return fmt.Errorf("%q is not a task state", text)
	}
	*s = taskState(n)
	return nil
}
