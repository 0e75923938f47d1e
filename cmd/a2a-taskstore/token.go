package main

import (
	"fmt"
	"time"

	"github.com/a2a-taskstore/taskstore/server/auth"
)

type tokenCmd struct {
	New tokenNewCmd `cmd:"" help:"Make a token: it goes to standard output and nowhere else; what belongs into the credentials file, to standard error."`
}

type tokenNewCmd struct {
	Expires time.Duration `help:"How long it counts; 0: until it is removed." default:"0s"`
}

// Run prints the token alone to stdout, so that it can go straight into a file or a secret, unseen.
func (c *tokenNewCmd) Run(e *env) error {
	if c.Expires < 0 {
		return usagef("--expires must not be negative")
	}
	token, hash := auth.NewToken()
	if _, err := fmt.Fprintln(e.stdout, token); err != nil {
		return err
	}
	entry := fmt.Sprintf("      - hash: %s\n", hash)
	if c.Expires > 0 {
		entry += fmt.Sprintf("        expires: %s\n", time.Now().Add(c.Expires).UTC().Format(time.RFC3339))
	}
	_, err := fmt.Fprintf(e.stderr, "The token is shown once. In the credentials file, under the principal's tokens:\n%s", entry)
	return err
}
