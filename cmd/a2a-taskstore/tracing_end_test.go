package main

import (
	"net"
	"syscall"
	"testing"
	"time"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// A collector that takes connections and answers nothing holds up the end of a server for a while, but not once a second signal
// has come.
func TestCollectorThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connections
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	start := func(t *testing.T) *process {
		p := newProcess(t)
		p.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + lis.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=600000"}
		p.start("--backend", "memory")
		if _, err := p.client().Get(t.Context(), &pb.GetRequest{TaskId: "t"}); err == nil {
			t.Error("found a task")
		}
		return p
	}
	t.Run("first signal", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		began := time.Now()
		code := p.stop()
		if took := time.Since(began); code != 0 || took > flushTimeout+5*time.Second {
			t.Errorf("exit code %d after %s", code, took)
		}
		if !p.log.contains("the last spans were not sent") {
			t.Errorf("the log does not say that spans were lost:\n%s", p.log.String())
		}
	})
	t.Run("second signal", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.waitForLog(`"stopped"`) // all else has ended
		began := time.Now()
		p.stop()
		if took := time.Since(began); took > flushTimeout/2 {
			t.Errorf("the server ended %s after the second signal", took)
		}
	})
}
