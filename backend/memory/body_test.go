package memory

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

func field(dst []byte, num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), value)
}

// plainArtifact and plainTask are a task kept in the plainest way.
type plainArtifact struct {
	id, fields string
	parts      [][]byte
}

type plainTask struct {
	head      []byte
	artifacts []plainArtifact
	history   [][]byte
}

func (a *plainArtifact) encodeFields() []byte {
	return field(field(nil, 1, []byte(a.id)), 2, []byte(a.fields))
}

func (a *plainArtifact) encode() []byte {
	b := a.encodeFields()
	for _, p := range a.parts {
		b = field(b, 4, p)
	}
	return b
}

func (p *plainTask) encode(e backend.Extent) []byte {
	b := bytes.Clone(p.head)
	if !e.OmitArtifacts {
		for i := range p.artifacts {
			b = field(b, 4, p.artifacts[i].encode())
		}
	}
	history := p.history
	if e.History >= 0 && e.History < len(history) {
		history = history[len(history)-e.History:]
	}
	for _, m := range history {
		b = field(b, 5, m)
	}
	return b
}

// head ends with its status, so that a replaced status leaves it in place.
func plainHead(size int, state byte) []byte {
	b := field(nil, 1, []byte("id"))
	b = field(b, 6, nil)
	b = field(b, 9, bytes.Repeat([]byte("h"), size))
	return field(b, 3, []byte{1 << 3, state})
}

var (
	someBytes = rapid.Custom(func(t *rapid.T) []byte {
		size := rapid.OneOf(rapid.IntRange(0, 40), rapid.SampledFrom([]int{200, 5000})).Draw(t, "size")
		return bytes.Repeat([]byte{byte(rapid.IntRange('a', 'z').Draw(t, "letter"))}, size)
	})
	somePart = rapid.Map(someBytes, func(b []byte) []byte { return field(nil, 1, b) })
	someID   = rapid.SampledFrom([]string{"", "a", "b", "c"})

	someArtifact = rapid.Custom(func(t *rapid.T) plainArtifact {
		return plainArtifact{
			id: someID.Draw(t, "id"), fields: string(someBytes.Draw(t, "fields")),
			parts: rapid.SliceOfN(somePart, 0, 3).Draw(t, "parts"),
		}
	})
	someMessages = rapid.SliceOfN(rapid.Map(someBytes, func(b []byte) []byte { return field(nil, 1, b) }), 0, 4)
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestBodyIsTheTask applies random writes, and compares with a plain model the task, each extent of it, the sizes that the
// row keeps, and every view that a reader took on the way.
func TestBodyIsTheTask(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var (
			plain plainTask
			row   backend.Row
			b     body
		)
		type reading struct {
			view view
			want []byte
		}
		var readings []reading
		save := func(t *rapid.T, req *backend.SaveRequest) bool {
			req.Key, req.Pre.Condition = backend.Key{TaskID: "id"}, backend.Any
			plan, err := backend.PlanSave(&row, req, &b, nil, backend.Limits{}, time.Unix(1, 0))
			if err != nil {
				if r := backend.ReasonOf(err); r != backend.ErrArtifactAmbiguous && r != backend.ErrArtifactUnknown {
					t.Fatal(err)
				}
				return false
			}
			row = plan.Row
			b.apply(&plan.Change)
			return true
		}
		saveWhole := func(t *rapid.T) {
			plain = plainTask{
				head:      plainHead(rapid.SampledFrom([]int{0, 10, 3000}).Draw(t, "head"), 2),
				artifacts: rapid.SliceOfN(someArtifact, 0, 4).Draw(t, "artifacts"),
				history:   someMessages.Draw(t, "history"),
			}
			save(t, &backend.SaveRequest{Task: must(document.ParseTask(plain.encode(backend.All)))})
		}
		delta := func(t *rapid.T, d document.Delta) bool {
			if d.MaxHistory == 0 {
				d.MaxHistory = -1
			}
			return save(t, &backend.SaveRequest{Delta: &d})
		}
		holding := func(id string) (at []int) {
			for i := range plain.artifacts {
				if plain.artifacts[i].id == id {
					at = append(at, i)
				}
			}
			return at
		}

		saveWhole(t)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				e := backend.Extent{History: rapid.IntRange(-1, 6).Draw(t, "messages"), OmitArtifacts: rapid.Bool().Draw(t, "omit")}
				v := b.view(e)
				v.keep(e.History)
				want := plain.encode(e)
				readings = append(readings, reading{v, want})
				if got := v.appendTo(nil); !bytes.Equal(got, want) || v.size() != len(want) {
					t.Fatalf("extent %+v, size %d:\n got %q\nwant %q", e, v.size(), got, want)
				}
				if n := len(plain.encode(backend.All)); row.Size != int64(n) {
					t.Fatalf("the row's size is %d, the task's %d", row.Size, n)
				}
				if row.Artifacts != int64(len(plain.artifacts)) || row.Messages != int64(len(plain.history)) {
					t.Fatalf("the row counts %d artifacts and %d messages", row.Artifacts, row.Messages)
				}
			},
			"whole": saveWhole,
			"head": func(t *rapid.T) {
				plain.head = plainHead(rapid.SampledFrom([]int{0, 10, 3000}).Draw(t, "head"), 2)
				delta(t, document.Delta{Head: must(document.ParseTask(plain.head))})
			},
			"status": func(t *rapid.T) {
				state := byte(rapid.SampledFrom([]int{1, 2, 6}).Draw(t, "state"))
				cut := len(plain.head) - 4
				plain.head = field(bytes.Clone(plain.head[:cut]), 3, []byte{1 << 3, state})
				delta(t, document.Delta{Status: must(document.ParseStatus([]byte{1 << 3, state}))})
			},
			"artifacts": func(t *rapid.T) {
				plain.artifacts = rapid.SliceOfN(someArtifact, 0, 4).Draw(t, "artifacts")
				var items [][]byte
				for i := range plain.artifacts {
					items = append(items, plain.artifacts[i].encode())
				}
				delta(t, document.Delta{Artifacts: new(must(document.ParseArtifacts(items)))})
			},
			"put": func(t *rapid.T) {
				a := someArtifact.Draw(t, "artifact")
				at := holding(a.id)
				if delta(t, document.Delta{Put: must(document.ParseArtifact(a.encode()))}) != (len(at) < 2) {
					t.Fatalf("an artifact held %d times was put, or not", len(at))
				}
				plain.artifacts = slices.Clone(plain.artifacts)
				switch len(at) {
				case 0:
					plain.artifacts = append(plain.artifacts, a)
				case 1:
					plain.artifacts[at[0]] = a
				}
			},
			"append": func(t *rapid.T) {
				id := someID.Draw(t, "id")
				parts := rapid.SliceOfN(somePart, 0, 3).Draw(t, "parts")
				at := holding(id)
				d := document.AppendToArtifact{ID: id, Parts: must(document.ParseParts(parts)), Base: -1}
				if len(at) == 1 {
					d.Base = len(plain.artifacts[at[0]].parts)
				}
				renamed := plainArtifact{id: id, fields: string(someBytes.Draw(t, "fields"))}
				if d.Replace = rapid.Bool().Draw(t, "replace"); d.Replace {
					d.Fields = renamed.encodeFields()
				}
				if delta(t, document.Delta{Append: &d}) != (len(at) == 1) {
					t.Fatalf("an artifact held %d times was appended to, or not", len(at))
				}
				if len(at) == 1 {
					plain.artifacts = slices.Clone(plain.artifacts)
					a := &plain.artifacts[at[0]]
					a.parts = append(slices.Clip(a.parts), parts...)
					if d.Replace {
						a.fields = renamed.fields
					}
				}
			},
			"history": func(t *rapid.T) {
				messages := someMessages.Draw(t, "messages")
				keep := rapid.IntRange(-1, 8).Draw(t, "keep")
				if keep == 0 {
					keep = -1
				}
				delta(t, document.Delta{History: must(document.ParseHistory(messages)), MaxHistory: keep})
				plain.history = append(slices.Clip(plain.history), messages...)
				if keep > 0 && len(plain.history) > keep {
					plain.history = plain.history[len(plain.history)-keep:]
				}
			},
		})
		for i, r := range readings {
			if got := r.view.appendTo(nil); !bytes.Equal(got, r.want) {
				t.Fatalf("what reader %d saw has changed:\n got %q\nwant %q", i, got, r.want)
			}
		}
	})
}

// A piece that a delta replaced does not keep the memory of the whole task that it came with.
func TestBaseIsLeftWhenLittleOfItIsUsed(t *testing.T) {
	t.Parallel()
	for head := range 3 {
		t.Run(fmt.Sprint(head), func(t *testing.T) {
			t.Parallel()
			plain := plainTask{
				head:      plainHead(1000*head, 2),
				artifacts: []plainArtifact{{id: "a", parts: [][]byte{field(nil, 1, make([]byte, 4000))}}},
				history:   [][]byte{field(nil, 1, make([]byte, 1000))},
			}
			var b body
			b.apply(&backend.Change{Whole: must(document.ParseTask(plain.encode(backend.All)))})
			if b.base.size == 0 {
				t.Fatal("a whole task was copied")
			}
			b.apply(&backend.Change{Head: plainHead(0, 3)})
			if copied := b.base.size == 0; copied != (head > 0) {
				t.Errorf("a head of %d KB was replaced; the rest was copied: %t", head, copied)
			}
			b.apply(&backend.Change{Append: &document.AppendToArtifact{ID: "a"}})
			if b.base.size != 0 {
				t.Error("the base is kept for the history alone")
			}
		})
	}
}
