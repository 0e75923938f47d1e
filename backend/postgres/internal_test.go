package postgres

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	code := func(c string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: c}) }
	for _, tc := range []struct {
		err  error
		want failure
	}{
		{code("40001"), conflict},
		{code("40P01"), conflict},
		{code("55P03"), locked},
		{code("25006"), lost},
		{code("57P01"), lost},
		{code("57P03"), lost},
		{code("08006"), lost},
		{code("26000"), lost},
		{code("0A000"), lost},
		{code("57014"), refused},
		{code("53100"), refused},
		{code("53300"), refused},
		{code("58030"), refused},
		{code("23505"), fault},
		{code("42703"), fault},
		{io.ErrUnexpectedEOF, lost},
		{&net.OpError{Op: "read", Err: io.EOF}, lost},
		{context.DeadlineExceeded, lost},
		{fmt.Errorf("wrapped: %w", pgconn.ErrConnClosed), lost},
		{&deadConnError{fmt.Errorf("something")}, lost},
		{fmt.Errorf("cannot encode"), fault},
	} {
		if got := classify(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestHintsRoundTrip(t *testing.T) {
	t.Parallel()
	key := rapid.Custom(func(t *rapid.T) backend.Key {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{strings.Repeat("x", 256), "/", "ü"}))
		return backend.Key{Tenant: text.Draw(t, "tenant"), TaskID: text.Draw(t, "task")}
	})
	rapid.Check(t, func(t *rapid.T) {
		sender := rapid.Uint64().Draw(t, "sender")
		want := map[backend.Key]struct{}{}
		for _, k := range rapid.SliceOfN(key, 0, 60).Draw(t, "keys") {
			want[k] = struct{}{}
		}
		got := map[backend.Key]struct{}{}
		for _, payload := range encodeHints(sender, maps.Keys(want)) {
			if len(payload) > maxPayload {
				t.Fatalf("a payload of %d bytes", len(payload))
			}
			from, keys, ok := decodeHints(payload)
			if !ok || from != sender {
				t.Fatalf("sender %d, %v", from, ok)
			}
			for _, k := range keys {
				got[k] = struct{}{}
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func FuzzDecodeHints(f *testing.F) {
	for _, p := range encodeHints(7, slices.Values([]backend.Key{{Tenant: "t", TaskID: "id"}})) {
		f.Add(p)
	}
	f.Add("")
	f.Add("AAAAAAAAAAD/////////////AQ")
	f.Fuzz(func(t *testing.T, payload string) {
		if _, keys, ok := decodeHints(payload); !ok && keys != nil {
			t.Error("keys of a malformed payload")
		}
	})
}

func TestMemories(t *testing.T) {
	t.Parallel()
	m := newMemories()
	key := func(i int) backend.Key { return backend.Key{TaskID: fmt.Sprint(i)} }
	m.put(key(0), &memory{rec: record{stamp: 7}})
	for i := 1; i < 10*maxMemories; i++ {
		m.put(key(i), &memory{})
		if got := m.get(key(0)); got == nil || got.rec.stamp != 7 {
			t.Fatalf("after %d others, what is used is forgotten", i)
		}
		if n := len(m.young) + len(m.old); n > 2*maxMemories {
			t.Fatalf("%d memories", n)
		}
	}
	if m.get(key(1)) != nil {
		t.Error("what is not used is remembered")
	}
	m.forget(key(0))
	if m.get(key(0)) != nil {
		t.Error("what was to be forgotten is remembered")
	}
}

func TestClockFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ahead = 3 * time.Hour
		c := &clock{}
		if _, ok := c.estimate(); ok {
			t.Fatal("an estimate without a sample")
		}
		ask := func(there, back time.Duration) {
			sent := time.Now()
			time.Sleep(there)
			nanos := time.Now().Add(ahead).UnixNano()
			time.Sleep(back)
			if got := c.sample(sent, nanos); got.UnixNano() != nanos {
				t.Fatalf("the sample is %v", got)
			}
		}
		off := func() time.Duration {
			got, ok := c.estimate()
			if !ok {
				t.Fatal("no estimate")
			}
			return got.Sub(time.Now().Add(ahead)).Abs()
		}
		ask(time.Millisecond, 3*time.Millisecond)
		if d := off(); d > 2*time.Millisecond {
			t.Errorf("wrong by %v", d)
		}
		ask(0, time.Second) // a worse one does not replace it
		if d := off(); d > 2*time.Millisecond {
			t.Errorf("wrong by %v after a slow answer", d)
		}
		ask(0, 0)
		if d := off(); d != 0 {
			t.Errorf("wrong by %v after an immediate answer", d)
		}
		time.Sleep(staleClock)
		if _, ok := c.estimate(); ok {
			t.Error("an estimate from a sample of long ago")
		}
	})
}

func TestPause(t *testing.T) {
	t.Parallel()
	for failures := 1; failures < 100; failures++ {
		if d := pause(failures); d <= 0 || d > 2*longestPause {
			t.Errorf("pause of %v after %d failures", d, failures)
		}
	}
}

// A cursor is nobody's to make, but a wrong one must not be taken for a fault.
func TestSweepCursorIsChecked(t *testing.T) {
	t.Parallel()
	s := &Store{}
	_, err := s.Sweep(t.Context(), &backend.SweepRequest{Cursor: []byte("no cursor"), Batch: 1})
	if backend.ReasonOf(err) != backend.ErrInvalid {
		t.Errorf("error %v", err)
	}
}

// TestRememberedHeads: what is remembered of a head is right after any change, and holds on to nothing large.
func TestRememberedHeads(t *testing.T) {
	t.Parallel()
	request := make([]byte, 1<<20)
	small, large := request[:100], request[:maxRememberedHead+1]
	from := &memory{head: []byte("before")}
	for _, tc := range []struct {
		name string
		f    facts
		c    change
		want int
	}{
		{"unknown", facts{}, change{}, 0},
		{"written", facts{}, change{head: small}, len(small)},
		{"written, too large", facts{from: from}, change{head: large}, 0},
		{"left as it is", facts{from: from}, change{}, len("before")},
		{"read and left as it is", facts{stored: &stored{head: small}}, change{}, len(small)},
		{"read and written", facts{stored: &stored{head: small}}, change{head: request[:50]}, 50},
		{"removed", facts{from: from}, change{head: []byte{}}, 0},
	} {
		got := remember(&tc.f, &tc.c).head
		if len(got) != tc.want || cap(got) > 2*maxRememberedHead {
			t.Errorf("%s: %d bytes, capacity %d, want %d", tc.name, len(got), cap(got), tc.want)
		}
	}
}
