package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/transport/certtest"
)

func TestTokenNew(t *testing.T) {
	code, token, entry := command(t, "token", "new", "--expires", "24h")
	if code != exitOK || !regexp.MustCompile(`^a2ats_[A-Za-z0-9_-]{43}\n$`).MatchString(token) {
		t.Errorf("exit code %d, stdout %q", code, token)
	}
	if !regexp.MustCompile(`(?m)^      - hash: sha256:[0-9a-f]{64}\n        expires: 20.*Z$`).MatchString(entry) {
		t.Errorf("stderr %q", entry)
	}
	if strings.Contains(entry, strings.TrimSpace(token)) {
		t.Error("the token is on stderr, too")
	}
	if _, other, _ := command(t, "token", "new"); other == token {
		t.Error("the same token twice")
	}
}

// A store with TLS and tokens, as its operator sets it up and asks it, from a token that did not exist yet to one that does not
// count any more.
func TestSecuredStore(t *testing.T) {
	p := newProcess(t)
	s := p.secure("agents", "    tenants: [\"\", bench-*]\n    any_owner: true\n")
	path := s.path
	// On every address: what is refused without TLS and credentials.
	_, port, _ := strings.Cut(p.address, ":")
	p.start(append(s.serve, "--listen", "0.0.0.0:"+port, "--reload-interval", "10ms", "--log-level", "debug")...)
	_, err := p.client().Save(t.Context(), &taskstorev1.SaveRequest{Write: &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{
		Id: "t1", Status: &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_WORKING},
	}}})
	if err != nil {
		t.Fatal(err)
	}

	tls := []string{"--address", p.address, "--tls-ca", path("ca.pem"), "--timeout", "5s"}
	ask := func(want int, text string, args ...string) {
		t.Helper()
		code, stdout, stderr := command(t, append(args, tls...)...)
		if code != want || !strings.Contains(stdout+stderr, text) {
			t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, stderr)
		}
	}
	ask(exitOK, "SERVING", "healthcheck")
	ask(exitFailed, "CREDENTIALS_MISSING", "get", "t1")
	ask(exitOK, "working", "get", "t1", "--token-file", path("token"))
	ask(exitOK, "t1", "list", "--token-file", path("token"))
	ask(exitFailed, "TENANT_DENIED", "list", "--tenant", "other", "--token-file", path("token"))
	t.Setenv("A2A_TASKSTORE_CLIENT_TOKEN_FILE", path("token"))
	ask(exitOK, "working", "get", "t1")

	bench := []string{"bench", "--quick", "--workload", "save", "--size", "1024", "--callers", "1", "--address", p.address}
	if code, stdout, stderr := command(t, append(bench, "--tls-ca", path("ca.pem"))...); code != exitOK || !strings.Contains(stdout, "save") {
		t.Errorf("bench: exit code %d, %s, %s", code, stdout, stderr)
	}
	if code, _, stderr := command(t, bench...); code != exitFailed {
		t.Errorf("bench without TLS: exit code %d, %s", code, stderr)
	}

	// Another token takes the place of the first.
	_, _, entry := command(t, "token", "new")
	_, otherHash, _ := strings.Cut(entry, "\n")
	certtest.ReplaceFile(t, path("credentials.yaml"), []byte(strings.Replace(s.credentials, s.hash, otherHash, 1)))
	health, deadline := healthpb.NewHealthClient(p.client().Conn()), time.Now().Add(20*time.Second)
	for !strings.Contains(p.log.String(), "credentials replaced") {
		if time.Now().After(deadline) {
			t.Fatalf("the new file is not read:\n%s", p.log.String())
		}
		if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	ask(exitFailed, "CREDENTIALS_INVALID", "get", "t1")
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	// The secret is nowhere but in its file, and calls are logged with the principal.
	secret := []byte(strings.TrimSpace(s.token))
	if log := p.log.String(); strings.Contains(log, string(secret)) || !strings.Contains(log, `"principal":"agents"`) {
		t.Errorf("the log:\n%s", log)
	}
	err = filepath.WalkDir(p.dataDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, secret) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
