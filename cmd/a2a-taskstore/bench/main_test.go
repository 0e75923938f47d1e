package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
)

// TestMain lets the test binary be the served process of its own runs, as the command is of its.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"bench", "--child"}) {
		c := Command{Child: true}
		if err := c.Run(context.Background(), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
