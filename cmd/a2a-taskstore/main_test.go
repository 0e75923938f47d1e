package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// command runs a command line in this process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(&env{ctx: t.Context(), stdout: &out, stderr: &errs, kill: make(chan struct{})}, args)
	return code, out.String(), errs.String()
}

func TestWrongConfigurationIsOneLineAndExitCode2(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nonsense"},
		{"serve", "--no-such-flag"},
		{"serve", "--listen", "nonsense"},
		{"serve", "--listen", "127.0.0.1:99999"},
		{"serve", "--listen", "0.0.0.0:7420"},
		{"serve", "--listen", ":7420"},
		{"serve", "--listen", ""},
		{"serve", "--admin-listen", "nonsense"},
		{"serve", "--admin-listen", ":7421", "--pprof"},
		{"serve", "--admin-listen", "", "--pprof"},
		{"serve", "--listen", "0.0.0.0:7420", "--tls-cert", "c", "--tls-key", "k"},
		{"serve", "--listen", "0.0.0.0:7420", "--credentials-file", "f"},
		{"serve", "--listen", "127.0.0.1:0", "--credentials-file", filepath.Join(t.TempDir(), "absent")},
		{"serve", "--listen", "127.0.0.1:0", "--tls-cert", "absent", "--tls-key", "absent"},
		{"serve", "--tls-cert", "c"},
		{"serve", "--tls-client-ca", "c"},
		{"serve", "--tls-cert", "c", "--tls-key", "k", "--tls-require-client-cert"},
		{"serve", "--tls-cert", "c", "--tls-key", "k", "--tls-min-version", "1.1"},
		{"serve", "--audit-log-required"},
		{"serve", "--audit-log-calls", "all"},
		{"serve", "--audit-log", "a", "--audit-log-calls", "some"},
		{"serve", "--trust-unix-socket"},
		{"serve", "--unix-socket", "s", "--unix-socket-mode", "0666"},
		{"serve", "--unix-socket", "s", "--unix-socket-mode", "0755"},
		{"serve", "--unix-socket", "s", "--unix-socket-mode", "0666", "--credentials-file", "f", "--trust-unix-socket"},
		{"serve", "--reload-interval", "1m"},
		{"token", "new", "--expires", "-1h"},
		{"get", "--token-file", filepath.Join(t.TempDir(), "absent"), "id"},
		{"get", "--tls-ca", filepath.Join(t.TempDir(), "absent"), "id"},
		{"get", "--tls-cert", "c", "id"},
		{"serve", "--backend", "nonsense"},
		{"serve", "--backend", "postgres"},
		{"serve", "--admin-listen=", "--backend", "postgres", "--postgres-dsn", "host=x", "--postgres-max-conns", "0"},
		{"serve", "--admin-listen=", "--listen", "127.0.0.1:0", "--backend", "postgres", "--postgres-dsn", "::nonsense:secret"},
		{"serve", "--admin-listen=", "--listen", "127.0.0.1:0", "--backend", "postgres", "--postgres-dsn", "host=x", "--postgres-max-conns", "1"},
		{"serve", "--admin-listen=", "--listen", "127.0.0.1:0", "--data-dir", ""},
		{"migrate", "--backend", "postgres", "--postgres-dsn", "::nonsense:secret"},
		{"serve", "--notify", "maybe"},
		{"migrate", "--backend", "postgres"},
		{"serve", "--max-message-bytes", "1KiB"},
		{"serve", "--max-message-bytes", "many"},
		{"serve", "--sweep-interval", "0s"},
		{"serve", "--retain-terminal", "-1h"},
		{"serve", "--log-level", "loud"},
		{"migrate", "--backend", "memory"},
		{"migrate", "--data-dir", filepath.Join(t.TempDir(), "absent")},
		{"backup", "--data-dir", filepath.Join(t.TempDir(), "absent"), "copy"},
		{"get"},
		{"get", "--address", "store.example:7420", "id"},
		{"list", "--status", "busy"},
		{"list", "--limit", "-1"},
		{"events", "--from-now", "id"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			code, stdout, stderr := command(t, args...)
			if code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if strings.Contains(stderr, "secret") {
				t.Error("the line holds a secret")
			}
			if stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "a2a-taskstore: ") {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}

// What a value may be is in the line that refuses another one.
func TestErrorsSayWhatIsTaken(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"debug, info, warn or error":   {"serve", "--log-level", "trace"},
		"must hold one token":          {"list", "--token-file", tokens},
		`"pebble","postgres","memory"`: {"serve", "--backend", "mysql"},
		"such as 64MiB":                {"serve", "--max-message-bytes", "many"},
	} {
		if code, _, stderr := command(t, args...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestEnvironmentConfigures(t *testing.T) {
	t.Setenv("A2A_TASKSTORE_LISTEN", "nonsense")
	code, _, stderr := command(t, "serve")
	if code != exitUsage || !strings.Contains(stderr, `"nonsense"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestHelpNamesFlagsDefaultsAndEnvironment(t *testing.T) {
	code, stdout, _ := command(t, "serve", "--help")
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"--listen", "127.0.0.1:7420", "$A2A_TASKSTORE_LISTEN", "--data-dir"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("help lacks %q:\n%s", want, stdout)
		}
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{"0": 0, "17": 17, "1KiB": 1 << 10, "64MiB": 64 << 20, "2GiB": 2 << 30, "3B": 3} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		var again byteSize
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != want {
			t.Errorf("%s: written as %s", text, got)
		}
	}
	for _, text := range []string{"", "-1", "x", "1.5GiB", "9999999TiB", "MiB"} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

// The life of a store as an operator sees it: serve, write, look, back up while it serves, stop, start from the copy.
func TestOperator(t *testing.T) {
	p := newProcess(t)
	p.start()
	if log := p.log.String(); !strings.Contains(log, p.dataDir) || !strings.Contains(log, p.address) {
		t.Errorf("the log says neither where it listens nor where the data are: %s", log)
	}
	conn := p.client()
	owner := "ann"
	_, err := conn.Save(t.Context(), &taskstorev1.SaveRequest{
		Scope: &taskstorev1.Scope{Owner: &owner},
		Write: &taskstorev1.SaveRequest_Task{Task: &taskstorev1.Task{
			Id: "t1", ContextId: "c1", Status: &taskstorev1.TaskStatus{State: taskstorev1.TaskState_TASK_STATE_WORKING},
			Artifacts: []*taskstorev1.Artifact{{ArtifactId: "a", Parts: []*taskstorev1.Part{{Content: &taskstorev1.Part_Text{Text: "bad \x1b[2J text"}}}}},
		}},
		Events: []*taskstorev1.EventInput{{Input: &taskstorev1.EventInput_Snapshot{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := []string{"--address", p.address}

	look := func(want string, args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t, append(args, at...)...)
		if code != exitOK || !strings.Contains(stdout, want) || strings.Contains(stdout, "\x1b") {
			t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, stderr)
		}
		return stdout
	}
	look("SERVING", "healthcheck")
	look("working", "get", "t1")
	look("working", "list", "--owner", "ann", "--context", "c1", "--status", "working")
	look("working", "events", "t1")
	for _, args := range [][]string{{"get", "t1"}, {"list"}, {"events", "t1"}} {
		var v map[string]any
		if err := json.Unmarshal([]byte(look("t1", append(args, "-o", "json")...)), &v); err != nil {
			t.Errorf("%v is not JSON: %v", args, err)
		}
	}
	if code, _, stderr := command(t, append([]string{"get", "t1", "--owner", "bob"}, at...)...); code != exitFailed || !strings.Contains(stderr, "not found") {
		t.Errorf("get of another owner's task: exit code %d, %s", code, stderr)
	}

	backup := filepath.Join(t.TempDir(), "backup")
	for i, want := range []int{exitOK, exitFailed} { // the second time, the directory exists
		if code, _, stderr := command(t, "backup", "--data-dir", p.dataDir, backup); code != want {
			t.Errorf("backup %d while it serves: exit code %d, %s", i, code, stderr)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(p.dataDir, link); err != nil {
		t.Fatal(err)
	}
	refuseInside := func() {
		t.Helper()
		for _, dir := range []string{filepath.Join(p.dataDir, "backup"), filepath.Join(p.dataDir, "a", "b"), filepath.Join(link, "backup")} {
			if code, _, stderr := command(t, "backup", "--data-dir", p.dataDir, dir); code != exitFailed || !strings.Contains(stderr, "inside the data directory") {
				t.Errorf("backup into %s: exit code %d, %s", dir, code, stderr)
			}
		}
	}
	refuseInside()
	if code, _, stderr := command(t, "migrate", "--data-dir", p.dataDir); code != exitFailed || !strings.Contains(stderr, "another") {
		t.Errorf("migrate while it serves: exit code %d, %s", code, stderr)
	}
	look("deleted", "delete", "t1", "--if-version", "1")
	look("nothing", "delete", "t1")
	if code := p.stop(); code != exitOK {
		t.Errorf("SIGTERM: exit code %d\n%s", code, p.log.String())
	}
	refuseInside()
	if code, _, stderr := command(t, append([]string{"healthcheck", "--timeout", "100ms"}, at...)...); code != exitFailed {
		t.Errorf("healthcheck of a stopped store: exit code %d, %s", code, stderr)
	}

	p.dataDir = backup
	p.start()
	look("working", "get", "t1")
	p.stop()
	second := filepath.Join(t.TempDir(), "backup")
	if code, _, stderr := command(t, "backup", "--data-dir", backup, second); code != exitOK {
		t.Errorf("backup at rest: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := command(t, "migrate", "--data-dir", second); code != exitOK {
		t.Errorf("migrate: exit code %d, %s", code, stderr)
	}
}

// A unix socket that a killed server left does not stop the next one, and a live one is not taken.
func TestUnixSocket(t *testing.T) {
	p := newProcess(t)
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "store.sock")
	p.start("--unix-socket", socket)
	p.kill()
	p.start("--unix-socket", socket)

	other := newProcess(t)
	code, _, stderr := command(t, "serve", "--listen", "", "--unix-socket", socket, "--data-dir", other.dataDir)
	if code != exitFailed || !strings.Contains(stderr, "another server") {
		t.Errorf("a second server on the socket: exit code %d, %s", code, stderr)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Errorf("the first server lost its socket: %v", err)
	} else {
		conn.Close()
	}
	if code, _, stderr := command(t, "healthcheck", "--address", "unix://"+socket); code != exitOK {
		t.Errorf("healthcheck over the socket: exit code %d, %s", code, stderr)
	}
}

func TestVersion(t *testing.T) {
	if code, stdout, _ := command(t, "version"); code != exitOK || !strings.HasPrefix(stdout, "a2a-taskstore ") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

func TestMemorySaysThatItKeepsNothing(t *testing.T) {
	var log bytes.Buffer
	flags := storeFlags{Backend: "memory", MemoryMaxBytes: 1 << 20, MaxMessageBytes: 16 << 20}
	store, err := flags.open(t.Context(), (&logFlags{LogFormat: "auto"}).logger(&log), flags.limits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	// Not a terminal, so the line is JSON.
	var line struct{ Level, Msg string }
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Level != "WARN" || !strings.Contains(line.Msg, "keeps nothing") {
		t.Errorf("%q, %v", log.String(), err)
	}
}
