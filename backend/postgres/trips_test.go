package postgres_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// TestRoundTrips: a lone caller's write is one statement, in one round trip, as long as the replica knows the row; so is a
// read.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	p := newProxy(t, database(t))
	s := closing(t, open(t, postgres.Config{DSN: p.DSN, PollOnly: true, Committers: 1, MaxConns: 3}))
	key := backend.Key{Tenant: "t", TaskID: "id"}
	part, err := proto.Marshal(&pb.Part{Content: &pb.Part_Text{Text: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := document.ParseParts([][]byte{part})
	if err != nil {
		t.Fatal(err)
	}
	artifact, err := document.ParseArtifact([]byte("\x0a\x01a"))
	if err != nil {
		t.Fatal(err)
	}
	saves := func(req *backend.SaveRequest) error {
		_, err := s.Save(t.Context(), req)
		return err
	}
	changes := func(d document.Delta) error {
		d.MaxHistory = -1
		return saves(&backend.SaveRequest{
			Key: key, Delta: &d, Pre: anyState, Events: []backend.EventInput{{Event: statusEvent(t, "id")}},
		})
	}
	n := 0
	for _, tc := range []struct {
		name string
		call func() error
	}{
		{"insert", func() error {
			n++
			return saves(save(t, fmt.Sprint("new-", n), working, backend.Precondition{}))
		}},
		{"save", func() error { return saves(save(t, "id", working, anyState)) }},
		{"status", func() error {
			return changes(document.Delta{Status: &document.Status{State: 2, Bytes: []byte{8, 2}}})
		}},
		{"parts", func() error {
			return changes(document.Delta{Append: &document.AppendToArtifact{ID: "a", Parts: parts, Base: -1}})
		}},
		{"messages", func() error {
			return changes(document.Delta{History: document.List{Bytes: []byte("\x2a\x00"), Count: 1}})
		}},
		{"messages in a full history", func() error {
			d := document.Delta{History: document.List{Bytes: []byte("\x2a\x00"), Count: 1}, MaxHistory: 20}
			return saves(&backend.SaveRequest{Key: key, Delta: &d, Pre: anyState})
		}},
		{"append", func() error {
			_, err := s.AppendEvents(t.Context(), &backend.AppendRequest{
				Key: key, Events: []document.Event{statusEvent(t, "id")}, WriteID: fmt.Sprint(p.requests.Load()),
			})
			return err
		}},
		{"get", func() error {
			_, err := s.Get(t.Context(), &backend.GetRequest{Key: key, Extent: backend.All})
			return err
		}},
		{"list", func() error {
			_, err := s.List(t.Context(), &backend.ListRequest{Tenant: "t", Size: 10, MaxBytes: 1 << 20, Extent: backend.All})
			return err
		}},
		{"read of a log", func() error {
			_, err := s.ReadLog(t.Context(), &backend.ReadLogRequest{Key: key, MaxEvents: 10})
			return err
		}},
	} {
		if tc.name == "parts" {
			if err := changes(document.Delta{Put: artifact}); err != nil {
				t.Fatal(err)
			}
		}
		if tc.name == "messages in a full history" {
			list := document.List{Bytes: bytes.Repeat([]byte("\x2a\x00"), 30), Count: 30}
			if err := changes(document.Delta{History: list}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // which also prepare the statements
			if err := tc.call(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		const calls = 5
		before := p.requests.Load()
		for range calls {
			if err := tc.call(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		if got := p.requests.Load() - before; got != calls {
			t.Errorf("%s: %d round trips for %d calls", tc.name, got, calls)
		}
	}
}
