package main

import (
	"strings"
	"testing"
)

// TestPasswordsAreNotSaid starts stores with databases that do not answer, and with DSNs that are none.
func TestPasswordsAreNotSaid(t *testing.T) {
	const canary = "yellowhammer"
	for _, dsn := range []string{
		"postgres://user:" + canary + "@127.0.0.1:1/db",
		"host=127.0.0.1 port=1 user=user password=" + canary,
		"host=127.0.0.1 port=none user=user password=" + canary,
		"host=127.0.0.1 port=1 user=user password='" + canary,
		"host=127.0.0.1 password=a " + canary,
		"postgres://user:" + canary + "@127.0.0.1:none/db",
		"postgres://user:a/" + canary + "@127.0.0.1:1/db",
		"postgres://user:a%" + canary + "@127.0.0.1:1/db",
		"postgres://user:a:" + canary + "@127.0.0.1:1/db",
		"postgres://user:a@" + canary + "@127.0.0.1:1/db",
		"postgres://user:a#" + canary + "@127.0.0.1:1/db",
		"postgres://user:a?" + canary + "@127.0.0.1:1/db",
		"postgres://user:a " + canary + "@127.0.0.1:1/db",
		"postgres://127.0.0.1:1/db?user=user&password=" + canary,
		"postgres://127.0.0.1:1/db?sslmode=nonsense&password=" + canary,
		"postgres:/user:" + canary + "@127.0.0.1:1/db",
		"user:" + canary + "@127.0.0.1:1/db",
	} {
		for _, args := range [][]string{
			{"serve", "--admin-listen=", "--listen", "127.0.0.1:0", "--log-level", "debug"}, {"migrate", "--log-level", "debug"},
		} {
			code, stdout, stderr := command(t, append(args, "--backend", "postgres", "--postgres-dsn", dsn)...)
			if code == exitOK || strings.TrimSpace(stderr) == "" {
				t.Errorf("%s %q: exit code %d, %s", args[0], dsn, code, stderr)
			}
			if strings.Contains(strings.ToLower(stdout+stderr), canary) { // host names are lower case
				t.Errorf("%s %q says the password: %s%s", args[0], dsn, stdout, stderr)
			}
		}
	}
}
