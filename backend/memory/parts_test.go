package memory

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
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
			if got := slices.Concat(append(slices.Clone(h.rope.sealed), h.rope.tail)...); !bytes.Equal(got, h.want) || h.rope.size != len(h.want) {
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

func TestLogFindsByWriteIDAndPosition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l eventLog
		var want []backend.Event
		spans := map[string]span{} // by write id, of the latest append with it, dropped or not
		seq := int64(0)
		id := rapid.SampledFrom([]string{"", "v", "w"})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, id := range []string{"v", "w", "x"} {
					var none span
					wanted := spans[id]
					if wanted == none || len(want) == 0 || wanted.last < want[0].Seq {
						wanted = none
					}
					first, last, version, ok, err := l.ByWriteID(id)
					if got := (span{first, last, version}); got != wanted || ok != (wanted != none) || err != nil {
						t.Fatalf("%q: %+v, %t, want %+v", id, got, ok, wanted)
					}
				}
				at := rapid.Int64Range(0, seq+1).Draw(t, "position")
				i := slices.IndexFunc(want, func(e backend.Event) bool { return e.Seq == at })
				if e, ok, err := l.At(at); ok != (i >= 0) || err != nil || ok && !reflect.DeepEqual(e, want[i]) {
					t.Fatalf("at %d: %+v, %t", at, e, ok)
				}
				if l.writeIDs != writeIDsSize(want) {
					t.Fatalf("the write ids take %d, the books say %d", writeIDsSize(want), l.writeIDs)
				}
			},
			"append": func(t *rapid.T) {
				seq += rapid.Int64Range(0, 2).Draw(t, "gap")
				events := make([]backend.Event, rapid.IntRange(1, 3).Draw(t, "n"))
				s := span{first: seq + 1, version: seq}
				id := id.Draw(t, "write id")
				for i := range events {
					seq++
					events[i] = backend.Event{Seq: seq, Version: s.version, WriteID: id, Appended: true}
				}
				s.last = seq
				l.add(events)
				want = append(want, events...)
				spans[id] = s
			},
			"drop": func(t *rapid.T) {
				n := rapid.IntRange(0, len(want)).Draw(t, "n")
				l.drop(n)
				want = want[n:]
			},
		})
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
