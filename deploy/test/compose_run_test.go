package test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A store and an agent with the commands of the compose file and the secrets of its script, as processes: only addresses,
// paths and the backend are others. A task goes in by the agent and is asked for at the store, with the token and without.
func TestComposeCommandsWork(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	secrets := makeSecrets(t)
	storeAddress, agentAddress := freeAddress(t), freeAddress(t)
	_, storePort, _ := net.SplitHostPort(storeAddress)

	replace := strings.NewReplacer(
		"/run/secrets/", secrets+"/",
		"--listen=:7420", "--listen="+storeAddress,
		"--admin-listen=:7421", "--admin-listen=127.0.0.1:0",
		"--backend=postgres", "--backend=memory",
		"--listen=:8080", "--listen="+agentAddress,
		"dns:///store:7420", "dns:///localhost:"+storePort,
	)
	command := func(service string) []string {
		var out []string
		for _, arg := range project.Services[service].Command {
			out = append(out, replace.Replace(arg))
		}
		return out
	}
	start(t, store, command("store-1")...)
	start(t, demo, append([]string{"agent"}, command("agent-1")...)...)

	ask := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), store, append(args, "--address=localhost:"+storePort,
			"--tls-ca="+filepath.Join(secrets, "ca.pem"), "--timeout=5s")...).CombinedOutput()
		return string(out), err
	}
	eventually(t, "the store is healthy", func() bool { _, err := ask("healthcheck"); return err == nil })
	eventually(t, "the agent is alive", func() bool {
		reply, err := http.Get("http://" + agentAddress + "/livez")
		if err != nil {
			return false
		}
		reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	})

	reply, err := http.Post("http://"+agentAddress+"/", "application/json", strings.NewReader(`{"jsonrpc": "2.0", "id": 1,
		"method": "SendMessage", "params": {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "write"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Result struct {
			Task struct {
				ID     string
				Status struct{ State string }
			}
		}
	}
	if err := json.Unmarshal(body, &got); err != nil || got.Result.Task.Status.State != "TASK_STATE_COMPLETED" {
		t.Fatalf("the agent answers %s", body)
	}
	get := []string{"get", got.Result.Task.ID, "--owner=demo-user"}
	if out, err := ask(append(slices.Clone(get), "--token-file="+filepath.Join(secrets, "agent.token"))...); err != nil || !strings.Contains(out, "completed") {
		t.Errorf("with the token: %v, %s", err, out)
	}
	if out, err := ask(get...); err == nil || strings.Contains(out, "completed") {
		t.Errorf("without the token: %s", out)
	}
}

// makeSecrets runs the script beside the compose file and returns the directory that it fills.
func makeSecrets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "credentials.sh")
	write(t, script, read(t, "compose/credentials.sh"), 0o700)
	cmd := exec.CommandContext(t.Context(), "bash", script)
	cmd.Env = append(cmd.Environ(), "A2A_TASKSTORE="+store)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "secrets")
}

// start runs a program until the test ends; a test that fails shows its log.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	startCommand(t, exec.Command(program, args...), os.Kill)
}

// startCommand starts a program that is ended with a signal.
func startCommand(t *testing.T, cmd *exec.Cmd, end os.Signal) {
	t.Helper()
	log := &buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(end)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%q:\n%s", cmd.Args, log)
		}
	})
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !within(t, 30*time.Second, condition) {
		t.Fatalf("not in time: %s", what)
	}
}

// within waits for a condition, and reports whether it came true in time.
func within(t *testing.T, limit time.Duration, condition func() bool) bool {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return true
}
