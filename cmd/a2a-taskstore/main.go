// Command a2a-taskstore runs the A2A task store, and asks one that runs.
//
// Every flag can be given as an environment variable: --max-message-bytes is A2A_TASKSTORE_MAX_MESSAGE_BYTES. The exit code is
// 0 on success, 1 if the work failed and 2 if the command line or the configuration is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/a2a-taskstore/taskstore/cmd/a2a-taskstore/bench"
)

// commandLine is the whole configuration: flags, environment variables, defaults and help come from its tags.
type commandLine struct {
	Serve       serveCmd       `cmd:"" help:"Run the store. Without flags: Pebble in ./data, on loopback."`
	Migrate     migrateCmd     `cmd:"" help:"Bring the stored data to the format of this version, and exit."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask a store whether it serves. Exit code 0 if it does."`
	Backup      backupCmd      `cmd:"" help:"Copy the store into a new directory, while it serves or at rest."`
	Get         getCmd         `cmd:"" help:"Show a task."`
	List        listCmd        `cmd:"" help:"List tasks, newest status first."`
	Events      eventsCmd      `cmd:"" help:"Show the events of a task."`
	Delete      deleteCmd      `cmd:"" help:"Delete a task and its events."`
	Token       tokenCmd       `cmd:"" help:"Make a token for a caller."`
	Bench       benchCmd       `cmd:"" help:"Measure stores against what their parts can do."`
	Version     versionCmd     `cmd:"" help:"Show the version."`
}

type benchCmd struct {
	bench.Command `embed:""`
	connectFlags
}

func (c *benchCmd) Run(e *env) (err error) {
	if c.Address != "" {
		if c.Connection, err = c.dialOptions(e.ctx, c.Address); err != nil {
			return err
		}
	}
	return c.Command.Run(e.ctx, e.stdout, e.stderr)
}

// env is what a command needs of its surroundings.
type env struct {
	ctx    context.Context
	stdout io.Writer
	stderr io.Writer
	// kill ends when a second signal asks to exit at once.
	kill <-chan struct{}
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks a wrong configuration that parsing alone cannot see.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	kill := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		close(kill)
	}()
	os.Exit(run(&env{ctx: ctx, stdout: os.Stdout, stderr: os.Stderr, kill: kill}, os.Args[1:]))
}

// exited is how kong's --help leaves the parser.
type exited int

// run parses and executes a command line and returns the exit code.
func run(e *env, args []string) (code int) {
	defer func() {
		if r := recover(); r != nil {
			status, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(status)
		}
	}()
	var cl commandLine
	parser, err := newParser(&cl, e)
	if err != nil {
		panic(err) // the tags above are wrong
	}
	ctx, err := parser.Parse(args)
	if err == nil {
		err = ctx.Run(e)
		if usage := (usageError{}); err != nil && !errors.As(err, &usage) {
			fmt.Fprintf(e.stderr, "a2a-taskstore: %s%s\n", hint(err), oneLine(err))
			return exitFailed
		}
	}
	if err != nil {
		fmt.Fprintf(e.stderr, "a2a-taskstore: %s (see a2a-taskstore --help)\n", oneLine(err))
		return exitUsage
	}
	return exitOK
}

// newParser makes the parser that fills cl.
func newParser(cl *commandLine, e *env) (*kong.Kong, error) {
	return kong.New(cl,
		kong.Name("a2a-taskstore"),
		kong.Description("The task store that A2A server replicas share."),
		kong.DefaultEnvars("A2A_TASKSTORE"),
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(func(status int) { panic(exited(status)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Vars{"address": defaultAddress},
		kong.NamedMapper("path", kong.MapperFunc(decodePath)),
	)
}

// decodePath makes paths absolute, like kong's own mapper, but leaves "" what it is everywhere: not set. An empty variable is how
// compose files and charts say that, and must not become the working directory.
func decodePath(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("path", &path); err != nil {
		return err
	}
	if path != "" && path != "-" {
		path = kong.ExpandPath(path)
	}
	target.SetString(path)
	return nil
}

// oneLine is the text of an error; some, such as those of several hosts that were tried, come in lines.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\t' }), "; ")
}
