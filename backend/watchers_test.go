package backend_test

import (
	"slices"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
)

func TestWatchers(t *testing.T) {
	t.Parallel()
	var w backend.Watchers
	var heard []string
	hear := func(name string) func(backend.Key) {
		return func(k backend.Key) { heard = append(heard, name+k.TaskID) }
	}
	check := func(want ...string) {
		t.Helper()
		if slices.Sort(heard); !slices.Equal(heard, want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
		heard = nil
	}
	one, two := backend.Key{TaskID: "1"}, backend.Key{TaskID: "2"}
	w.Notify(one)
	check()
	stopA := w.Add(hear("a"))
	stopB := w.Add(hear("b"))
	w.Notify(one, two)
	check("a1", "a2", "b1", "b2")
	stopA()
	stopA()
	w.Notify(one)
	check("b1")
	stopB()
	w.Notify(one)
	check()
}
