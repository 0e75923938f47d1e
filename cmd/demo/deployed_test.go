package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/server"
)

// A task that one deployed agent works on is read through another, which a caller finds by its card.
func TestAgentsShareTheStore(t *testing.T) {
	t.Parallel()
	store := serveStore(t)
	a, b := runAgent(t, store), runAgent(t, store)

	var task a2a.TaskID
	for event, err := range a.SendStreamingMessage(t.Context(), request("write")) {
		if err != nil {
			t.Fatal(err)
		}
		task = event.TaskInfo().TaskID
	}
	got, err := b.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.State != a2a.TaskStateCompleted || len(got.Artifacts) != 1 || len(got.Artifacts[0].Parts) != len(verses) {
		t.Errorf("the other agent reads %s with %d artifacts", got.Status.State, len(got.Artifacts))
	}
}

func TestAgentRefusesWrongConfiguration(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]agentCmd{
		"remote store in plain text": {Store: "store.example:7420"},
		"no certificate":             {Store: "127.0.0.1:1", TLSCA: empty},
		"plain text and certificate": {Store: "127.0.0.1:1", TLSCA: empty, Plaintext: true},
	} {
		if err := c.Run(t.Context()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// serveStore serves a store in memory and returns its address.
func serveStore(t *testing.T) string {
	t.Helper()
	store, err := memory.Open(memory.Config{MaxBytes: 64 << 20, Limits: backend.Limits{TaskBytes: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(store, server.Config{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(listener)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown of the store: %v", err)
		}
		store.Close()
	})
	return listener.Addr().String()
}

// runAgent runs an agent and returns a client that was made from its card.
func runAgent(t *testing.T, store string) *a2aclient.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&agentCmd{Listen: address, Store: store}).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the agent ended: %v", err)
		}
	})

	ready, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	url := "http://" + address
	for {
		card, err := agentcard.DefaultResolver.Resolve(ready, url)
		if err == nil {
			c, err := a2aclient.NewFromCard(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Destroy() })
			return c
		}
		select {
		case err := <-ended:
			t.Fatalf("the agent ended: %v", err)
		case <-ready.Done():
			t.Fatalf("the agent has no card: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
