package backendtest

import (
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
)

// The model passes its own suite.
func TestModel(t *testing.T) {
	t.Parallel()
	Run(t, Harness{Open: func(_ testing.TB, opt Options) backend.Store { return newModel(opt) }})
}
