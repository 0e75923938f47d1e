package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/a2a-taskstore/taskstore/client"
)

// binary is the program under test, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "a2a-taskstore-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "a2a-taskstore")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the image: Pebble's memory is the runtime's, then
	out, err := build.CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return path, err
})

func TestMain(m *testing.M) {
	if os.Getenv(envAttack) != "" {
		os.Exit(attackMain())
	}
	code := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is a serve on a directory of its own, which can be killed and started again.
type process struct {
	t       *testing.T
	binary  string
	address string
	dataDir string
	options []client.Option // of clients
	env     []string        // on top of the test's
	cmd     *exec.Cmd
	log     output
}

// output collects what a process writes, while it is read.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) contains(text string) bool { return strings.Contains(o.String(), text) }

func (o *output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Reset()
}

func newProcess(t *testing.T) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("go build: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &process{t: t, binary: path, address: l.Addr().String(), dataDir: filepath.Join(t.TempDir(), "data")}
	t.Cleanup(p.kill)
	return p
}

// start starts serve and waits until it serves.
func (p *process) start(args ...string) {
	p.t.Helper()
	p.log.Reset()
	// No admin port, of which a machine has one by default, unless the test gives one.
	p.cmd = exec.Command(p.binary, append([]string{"serve", "--admin-listen=", "--listen", p.address, "--data-dir", p.dataDir}, args...)...)
	p.cmd.Stderr = &p.log
	p.cmd.Env = append(os.Environ(), p.env...)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn := p.client()
	defer conn.Close()
	// The connection waits until the server listens, and the server says NOT_SERVING until it has asked the store.
	for {
		reply, err := healthpb.NewHealthClient(conn.Conn()).Check(ctx, &healthpb.HealthCheckRequest{})
		if err == nil && reply.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return
		}
		if ctx.Err() != nil {
			p.kill()
			p.t.Fatalf("the server does not serve: %v %v\n%s", reply, err, p.log.String())
		}
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.cmd = nil
}

// stop ends the process as an orchestrator does, and returns its exit code.
func (p *process) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Wait()
	code := p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	return code
}

func (p *process) client() *client.Client {
	p.t.Helper()
	c, err := client.Dial(p.address, append(p.options, client.WithRetryBudget(time.Minute))...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}
