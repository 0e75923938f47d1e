// Command demo shows the store at work: a real store process, two replicas of an A2A agent that share it, and a client.
// It streams an answer through one replica, reads, lists and cancels through the other, kills the store with kill -9 in the
// middle of a stream, starts it again, and checks that nothing was lost. It exits with 1 if anything was.
//
// Run it in a checkout: go run ./cmd/demo
//
// With "agent" it is one replica of that agent alone, as deploy/compose.yaml runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

func main() {
	var cl struct {
		Show  showCmd  `cmd:"" default:"1" help:"Show the store at work, in a checkout; the default."`
		Agent agentCmd `cmd:"" help:"Run one replica of the agent."`
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed := kong.Parse(&cl, kong.Name("demo"), kong.BindTo(ctx, (*context.Context)(nil)))
	if err := parsed.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "\nFAILED: %v\n", err)
		os.Exit(1)
	}
}

type showCmd struct{}

// Run tells and checks the whole story.
func (showCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := show(ctx); err != nil {
		return err
	}
	fmt.Println("\nNothing was lost.")
	return nil
}
