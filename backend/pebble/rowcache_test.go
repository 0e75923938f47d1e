package pebble

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
)

// What a cache knows of a key is what was set last, or nothing.
func TestRowCacheIsNeverStale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c rowCache
		latest := map[backend.Key]*record{}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			key := backend.Key{Tenant: rapid.SampledFrom([]string{"", "a"}).Draw(t, "tenant"), TaskID: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "id"))}
			var rec *record
			if rapid.IntRange(0, 3).Draw(t, "forget") > 0 {
				rec = &record{}
			}
			latest[key] = rec
			c.set(key, rec)
			if rec != nil && c.get(key) != rec {
				t.Fatal("what was just set is not there")
			}
			for k, want := range latest {
				if got := c.get(k); got != nil && got != want {
					t.Fatalf("%v is stale", k)
				}
			}
		}
	})
}
