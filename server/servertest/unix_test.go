package servertest

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/a2a-taskstore/taskstore/backend/memory"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/transport/certtest"
)

// TestUnixSocketCredentials calls over a unix socket, which asks for credentials as TCP does unless it is trusted. Trust is for
// calls without a token, and for that socket only.
func TestUnixSocketCredentials(t *testing.T) {
	t.Parallel()
	member := newCredential("member", `tenants: [acme], access: read-only`)
	for name, trust := range map[string]bool{"trusted": true, "not trusted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "credentials.yaml")
			certtest.ReplaceFile(t, file, []byte(credentialsFile(member)))
			who, err := auth.Open(auth.Config{File: file, TrustUnix: trust, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			store, err := memory.Open(memory.Config{MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			s := server.New(store, server.Config{Logger: slog.New(slog.DiscardHandler), Auth: who})
			socket, err := server.ListenUnix(filepath.Join(dir, "s"), server.OwnerOnly)
			if err != nil {
				t.Fatal(err)
			}
			tcp := listenLoopback(t)
			served := make(chan error, 1)
			go func() { served <- s.Serve(socket, tcp) }()
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := errors.Join(s.Shutdown(ctx), <-served, store.Close()); err != nil {
					t.Error(err)
				}
			})

			list := func(target string, authorization ...string) string {
				conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_, err = pb.NewTaskStoreServiceClient(conn).List(authorized(t.Context(), authorization...), &pb.ListRequest{}, grpc.WaitForReady(true))
				if err != nil && reasonOf(err) == "" {
					t.Error(err)
				}
				return reasonOf(err)
			}
			unix, loopback := "unix:"+socket.Addr().String(), tcp.Addr().String()
			anonymous := string(auth.ErrMissing)
			if trust {
				anonymous = ""
			}
			for _, test := range []struct {
				target        string
				authorization []string
				want          string
			}{
				{unix, nil, anonymous},
				{unix, []string{"Bearer wrong"}, string(auth.ErrInvalid)},
				{unix, []string{"Bearer " + member.token}, string(auth.ErrTenant)},
				{loopback, nil, string(auth.ErrMissing)},
				{loopback, []string{"Bearer " + member.token}, string(auth.ErrTenant)},
			} {
				if got := list(test.target, test.authorization...); got != test.want {
					t.Errorf("%s with %d headers: %q, want %q", test.target, len(test.authorization), got, test.want)
				}
			}
		})
	}
}
