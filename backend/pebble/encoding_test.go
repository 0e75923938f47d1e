package pebble

import (
	"bytes"
	"cmp"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
)

// fill gives every field below v a random value, whatever fields there are: one that an encoding forgets is found out.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int64"))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "int32")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Uint8Max(uint8(backend.RowTombstone)).Draw(t, "kind")))
	case reflect.Slice:
		v.SetBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	default:
		t.Fatalf("no value for a %s", v.Kind())
	}
}

func draw[T any](t *rapid.T) *T {
	v := new(T)
	fill(t, reflect.ValueOf(v).Elem())
	return v
}

func same(t *rapid.T, want, got any, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(record{}, appended{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestEncodingsAreInverse(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(*rapid.T){
		"record": func(t *rapid.T) {
			want := draw[record](t)
			got, err := decodeRecord(appendRecord(nil, want))
			same(t, want, got, err)
		},
		"event": func(t *rapid.T) {
			want := backend.Event{
				Seq: rapid.Int64Min(1).Draw(t, "seq"), Version: rapid.Int64().Draw(t, "version"),
				Appended: rapid.Bool().Draw(t, "appended"),
				Origin:   rapid.String().Draw(t, "origin"), WriteID: rapid.String().Draw(t, "write id"),
				CreatedAt: time.Unix(0, rapid.Int64().Draw(t, "created")).UTC(),
				Bytes:     append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...),
			}
			got, err := decodeEvent(want.Seq, appendEvent(nil, &want))
			same(t, want, got, err)
		},
		"append": func(t *rapid.T) {
			want := appended{first: rapid.Int64().Draw(t, "first"), last: 7, version: rapid.Int64().Draw(t, "version")}
			got, err := decodeAppended(appendAppended(nil, want))
			same(t, want, got, err)
		},
		"artifact": func(t *rapid.T) {
			want := draw[backend.ArtifactInfo](t)
			got, err := decodeInfo(appendInfo(nil, want))
			same(t, *want, got, err)
		},
		"claim": func(t *rapid.T) {
			want := draw[backend.Claim](t)
			got, err := decodeClaim(appendClaim(nil, want))
			same(t, want, got, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, check)
		})
	}
}

// decoders decode and encode again.
var decoders = map[string]func([]byte) ([]byte, error){
	"record": func(b []byte) ([]byte, error) {
		v, err := decodeRecord(b)
		return appendRecord(nil, v), err
	},
	"event": func(b []byte) ([]byte, error) {
		v, err := decodeEvent(1, b)
		return appendEvent(nil, &v), err
	},
	"append": func(b []byte) ([]byte, error) {
		v, err := decodeAppended(b)
		return appendAppended(nil, v), err
	},
	"artifact": func(b []byte) ([]byte, error) {
		v, err := decodeInfo(b)
		return appendInfo(nil, &v), err
	},
	"claim": func(b []byte) ([]byte, error) {
		v, err := decodeClaim(b)
		return appendClaim(nil, v), err
	},
}

// Whatever the bytes: an error, or a value that encodes to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	f.Add(appendRecord(nil, &record{Row: backend.Row{Kind: backend.RowTask, Owner: "o", Version: 3}}))
	f.Add(appendEvent(nil, &backend.Event{Version: 1, Origin: "o", CreatedAt: time.Unix(1, 1), Bytes: []byte("x")}))
	f.Add(appendAppended(nil, appended{1, 2, 3}))
	f.Add(appendInfo(nil, &backend.ArtifactInfo{Holds: 1, Parts: 2}))
	f.Add(appendClaim(nil, &backend.Claim{MessageID: "m", Expires: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, decode := range decoders {
			once, err := decode(b)
			if err != nil {
				if !errors.Is(err, errEncoding) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if twice, err := decode(once); err != nil || !bytes.Equal(once, twice) {
				t.Errorf("%s: %x became %x, %v", name, once, twice, err)
			}
		}
	})
}

func TestTruncatedValuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"record":   appendRecord(nil, &record{Row: backend.Row{Kind: backend.RowTask, Owner: "owner", WriteID: "w"}}),
		"append":   appendAppended(nil, appended{1, 2, 3}),
		"artifact": appendInfo(nil, &backend.ArtifactInfo{Holds: 1, Parts: 2}),
		"claim":    appendClaim(nil, &backend.Claim{MessageID: "m", Expires: 1}),
	} {
		for n := range len(b) {
			if _, err := decoders[name](b[:n]); !errors.Is(err, errEncoding) {
				t.Errorf("%s: the first %d of %d bytes: %v", name, n, len(b), err)
			}
		}
		if _, err := decoders[name](append([]byte{encodingVersion + 1}, b[1:]...)); !errors.Is(err, errEncoding) {
			t.Errorf("%s of another version: %v", name, err)
		}
	}
}

// id draws strings that are prefixes of each other, and hold the bytes next to the separator.
var id = rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"\x01", "a", "b", "/", "\x7f", "é", "\U0010ffff"}), 0, 3),
	func(s []string) string { return strings.Join(s, "") })

func TestKeysKeepTheOrderOfTheirTuples(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := backend.Key{Tenant: id.Draw(t, "tenant"), TaskID: id.Draw(t, "id")}
		b := backend.Key{Tenant: id.Draw(t, "tenant"), TaskID: id.Draw(t, "id")}
		m, n := rapid.Int64Min(0).Draw(t, "seq"), rapid.Int64Min(0).Draw(t, "seq")
		keys := cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.TaskID, b.TaskID))
		if got := bytes.Compare(rowKey(a), rowKey(b)); got != keys {
			t.Fatalf("rows of %q and %q: %d, want %d", a, b, got, keys)
		}
		if got, want := bytes.Compare(eventKey(a, m), eventKey(b, n)), cmp.Or(keys, cmp.Compare(m, n)); got != want {
			t.Fatalf("events %d and %d: %d, want %d", m, n, got, want)
		}
		if got := seqOf(eventKey(a, m)); got != m {
			t.Fatalf("seq %d came back as %d", m, got)
		}
		if got, ok := parseRowKey(rowKey(a)); !ok || got != a {
			t.Fatalf("%q came back as %q", a, got)
		}
		c := backend.ClaimKey{
			Tenant: a.Tenant, Key: b.TaskID,
			Owner: backend.Owner{Set: rapid.Bool().Draw(t, "owner is set")},
		}
		if c.Owner.Set {
			c.Owner.Name = a.TaskID
		}
		if got, ok := parseClaimKey(claimKey(c)); !ok || got != c {
			t.Fatalf("%v came back as %v", c, got)
		}
		for _, space := range []byte{spaceDocument, spaceEvent, spaceAppend} {
			lower := taskPrefix(space, a)
			other := append(taskPrefix(space, b), 0xff)
			if inside := bytes.Compare(other, lower) >= 0 && bytes.Compare(other, after(lower)) < 0; inside != (a == b) {
				t.Fatalf("%x in the range of %x: %t", other, lower, inside)
			}
		}
	})
}

// Operands come in any grouping, as reads and compactions meet them.
func TestMergeConcatenates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		operand := rapid.SliceOfN(rapid.Byte(), 0, 50)
		want := operand.Draw(t, "first")
		m, err := merger.Merge(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 30).Draw(t, "operands") {
			b := operand.Draw(t, "operand")
			if rapid.Bool().Draw(t, "newer") {
				want, err = append(append([]byte{}, want...), b...), m.MergeNewer(b)
			} else {
				want, err = append(append([]byte{}, b...), want...), m.MergeOlder(b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got, _, err := m.Finish(true); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x, %v; want %x", got, err, want)
		}
	})
}
