package auth

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// BenchmarkAuthenticate is what a call with a token costs on top of one that nobody asks for it.
func BenchmarkAuthenticate(b *testing.B) {
	token, hash := NewToken()
	file := filepath.Join(b.TempDir(), "credentials.yaml")
	text := fmt.Sprintf(`principals: [{name: a, tokens: [{hash: "%s"}], tenants: ["", "team-*"], access: read-write}]`, hash)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	a, err := Open(Config{File: file, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx := metadata.NewIncomingContext(b.Context(), metadata.Pairs("authorization", "Bearer "+token, "user-agent", "x"))
	ctx = peer.NewContext(ctx, &peer.Peer{LocalAddr: &net.TCPAddr{}})
	b.ReportAllocs()
	for b.Loop() {
		s, err := a.Authenticate(ctx)
		if err == nil {
			err = s.Authorize(Write, "team-x", true)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
