package test

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The unit and its example of an environment name flags and variables that the program has.
func TestSystemd(t *testing.T) {
	t.Parallel()
	unit := map[string][]string{}
	for _, line := range lines(read(t, "systemd/a2a-taskstore.service")) {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			unit[key] = append(unit[key], value)
		}
	}
	var variables []string
	for _, line := range lines(read(t, "systemd/env.example")) {
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "#"), "=")
		if ok && strings.HasPrefix(name, "A2A_TASKSTORE_") {
			variables = append(variables, name)
		}
	}
	if len(variables) < 5 {
		t.Errorf("the example has only the variables %v", variables)
	}
	for _, value := range unit["Environment"] {
		name, _, _ := strings.Cut(value, "=")
		variables = append(variables, name)
	}
	if len(unit["ExecStart"]) != 1 {
		t.Fatalf("ExecStart %q", unit["ExecStart"])
	}
	command := strings.Fields(unit["ExecStart"][0])
	checkCommand(t, store, command[1:], variables)

	// The defaults of the drain must fit.
	if stop, err := time.ParseDuration(unit["TimeoutStopSec"][0]); err != nil || stop < 30*time.Second {
		t.Errorf("TimeoutStopSec %v, %v", stop, err)
	}
}

// systemd itself finds nothing wrong with the unit, and counts it as well protected.
func TestSystemdReadsTheUnit(t *testing.T) {
	t.Parallel()
	unit := bytes.ReplaceAll(read(t, "systemd/a2a-taskstore.service"), []byte("/usr/local/bin/a2a-taskstore"), []byte(store))
	path := filepath.Join(t.TempDir(), "a2a-taskstore.service")
	write(t, path, unit, 0o644)
	for _, args := range [][]string{
		{"verify", "--man=no", path},
		{"security", "--offline=true", "--threshold=20", path}, // tenths of the exposure that is acceptable
	} {
		if out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

func lines(b []byte) []string {
	var out []string
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		out = append(out, s.Text())
	}
	return out
}
