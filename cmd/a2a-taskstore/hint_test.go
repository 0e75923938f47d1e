package main

import (
	"errors"
	"strings"
	"testing"
)

// How a connection ends that was closed at once depends on what the store had read.
func TestHintOfAClosedConnection(t *testing.T) {
	for _, end := range []string{"EOF", "read tcp 127.0.0.1:2->127.0.0.1:1: read: connection reset by peer", "connection reset by peer"} {
		if got := hint(errors.New("connection error: desc = \"error reading server preface: " + end + "\"")); !strings.HasPrefix(got, "the connection was closed at once") {
			t.Errorf("%s: %q", end, got)
		}
	}
}

// A store that is called in another way than it listens: one line that begins with what to change, and nothing on standard output.
func TestHints(t *testing.T) {
	plain, encrypted := newProcess(t), newProcess(t)
	s := encrypted.secure("agents", "    tenants: [\"*\"]\n")
	plain.start("--backend", "memory")
	encrypted.start(append(s.serve, "--backend", "memory")...)
	for _, test := range []struct {
		want string
		args []string
	}{
		{"the store does not speak TLS", []string{"--address", plain.address, "--tls-ca", s.path("ca.pem")}},
		{"the connection was closed at once", []string{"--address", encrypted.address}},
		{"the store's certificate needs its authority", []string{"--address", encrypted.address, "--tls"}},
	} {
		for _, ask := range []string{"list", "healthcheck"} {
			code, stdout, stderr := command(t, append([]string{ask, "--timeout", "2s"}, test.args...)...)
			if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "a2a-taskstore: "+test.want) {
				t.Errorf("%s %v: exit code %d, stdout %q, stderr %q", ask, test.args, code, stdout, stderr)
			}
		}
	}
}
