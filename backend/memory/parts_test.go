package memory

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRopeIsWhatWasAdded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want []byte
		r := ropeOf(nil)
		if rapid.Bool().Draw(t, "begun") {
			want = []byte("begun")
			r = ropeOf(bytes.Clone(want))
		}
		type earlier struct {
			rope rope
			want []byte
		}
		var held []earlier
		sizes := rapid.SliceOfN(rapid.OneOf(
			rapid.IntRange(0, 300), rapid.SampledFrom([]int{maxBlock - 1, maxBlock, maxBlock + 1, 3 * maxBlock})), 0, 60)
		for i, size := range sizes.Draw(t, "sizes") {
			held = append(held, earlier{r, bytes.Clone(want)})
			piece := bytes.Repeat([]byte{byte(i)}, size)
			r.add(piece)
			want = append(want, piece...)
		}
		held = append(held, earlier{r, want})
		for _, h := range held {
			if got := h.rope.appendTo(nil); !bytes.Equal(got, h.want) || h.rope.size != len(h.want) {
				t.Fatalf("%d bytes, size %d, want %d bytes", len(got), h.rope.size, len(h.want))
			}
		}
		room := 0
		for _, b := range append(r.sealed, r.tail) {
			room += cap(b)
		}
		if room > len(want)+max(len(want)/8, minBlock)+len(want)/64+16 { // 16: allocations are rounded up
			t.Fatalf("%d bytes take %d", len(want), room)
		}
	})
}

func TestQueueKeepsOrderAndWhatReadersHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q queue[int]
		var want []int
		held := map[int][2][]int{}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if !slices.Equal(q.live(), want) {
					t.Fatalf("got %v, want %v", q.live(), want)
				}
				if q.dead > len(q.items)/8 {
					t.Fatalf("%d dead of %d", q.dead, len(q.items))
				}
			},
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					next++
					q.push(next)
					want = append(want, next)
				}
			},
			"drop": func(t *rapid.T) {
				n := rapid.IntRange(0, len(want)).Draw(t, "n")
				q.drop(n)
				want = want[n:]
			},
			"hold": func(*rapid.T) { held[len(held)] = [2][]int{q.live(), slices.Clone(want)} },
		})
		for _, h := range held {
			if !slices.Equal(h[0], h[1]) {
				t.Fatalf("a reader saw %v become %v", h[1], h[0])
			}
		}
	})
}

func TestTableWalkSeesWhatWasThereAllTheTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tab table[int, int]
		tab.init()
		stays := map[int]bool{}
		for key := range rapid.IntRange(0, 40).Draw(t, "n") {
			*tab.add(key, 0) = -key
			stays[key] = true
		}
		seen := map[int]bool{}
		for rest, next := len(tab.slots), 1000; rest > 0; {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				if keys := slices.Sorted(maps.Keys(tab.byKey)); len(keys) > 0 && rapid.Bool().Draw(t, "remove") {
					key := rapid.SampledFrom(keys).Draw(t, "key")
					tab.remove(key)
					delete(stays, key)
				} else {
					next++
					tab.add(next, -next)
				}
			}
			if rest = min(rest, len(tab.slots)); rest == 0 {
				break
			}
			e := tab.slots[rest-1]
			if got := tab.get(e.key); e.slot != rest-1 || got == nil || *got != -e.key {
				t.Fatalf("slot %d holds %+v", rest-1, e)
			}
			seen[e.key] = true
			rest--
		}
		for key := range stays {
			if !seen[key] {
				t.Fatalf("the walk missed %d", key)
			}
		}
		if tab.get(-1) != nil {
			t.Fatal("found what is not there")
		}
	})
}
