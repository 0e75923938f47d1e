// Package test checks what deploy/ holds against the programs that it runs, with the libraries of the tools that read it.
package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// store and demo are the paths of the real programs.
var store, demo string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "taskstore-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	build := exec.Command("go", "build", "-o", dir, "./cmd/a2a-taskstore", "./cmd/demo")
	build.Dir = "../.."
	code := 1
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
	} else {
		store, demo = filepath.Join(dir, "a2a-taskstore"), filepath.Join(dir, "demo")
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// checkCommand fails the test unless the program takes the arguments and knows the environment variables. Asked for help
// behind them, it parses them first and does nothing; whether values are among those of an enumeration it does not see.
func checkCommand(t *testing.T, program string, args, environment []string) {
	t.Helper()
	cmd := exec.Command(program, append(args[:len(args):len(args)], "--help")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	help, err := cmd.Output()
	if err != nil {
		t.Errorf("%s %s: %v: %s", filepath.Base(program), strings.Join(args, " "), err, stderr.String())
		return
	}
	for _, name := range environment {
		// Health checks run in the same environment.
		if strings.HasPrefix(name, "A2A_TASKSTORE_") && !known(string(help), name) && !known(healthcheckHelp(t), name) {
			t.Errorf("%s %s does not know %s", filepath.Base(program), args[0], name)
		}
	}
}

func healthcheckHelp(t *testing.T) string {
	t.Helper()
	help, err := exec.Command(store, "healthcheck", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(help)
}

func known(help, variable string) bool {
	return regexp.MustCompile(`\$` + regexp.QuoteMeta(variable) + `\b`).MatchString(help)
}

func TestWrongFlagsAreSeen(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"serve", "--no-such-flag"}, {"serve", "--drain-delay=5"}, {"nonsense"}} {
		var exit *exec.ExitError
		if err := exec.Command(store, append(args, "--help")...).Run(); !errors.As(err, &exit) {
			t.Errorf("%v is accepted", args)
		}
	}
	if known("($A2A_TASKSTORE_LISTEN).", "A2A_TASKSTORE_LIST") || !known("($A2A_TASKSTORE_LISTEN).", "A2A_TASKSTORE_LISTEN") {
		t.Error("variables are mistaken")
	}
}

func write(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
}

// read reads a file of deploy/.
func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
