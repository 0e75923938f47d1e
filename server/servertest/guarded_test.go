package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/transport/certtest"
)

// eachBackend runs a test over every backend.
func eachBackend(t *testing.T, test func(*testing.T, backend.Store)) {
	limits := backend.Limits{TaskBytes: server.TaskBytes(0)}
	for name, open := range map[string]func(*testing.T) (backend.Store, error){
		"memory": func(*testing.T) (backend.Store, error) {
			return memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: limits})
		},
		"pebble": func(t *testing.T) (backend.Store, error) {
			return pebble.Open(pebble.Config{Dir: t.TempDir(), Limits: limits})
		},
		"postgres": func(t *testing.T) (backend.Store, error) {
			return postgres.Open(t.Context(), postgres.Config{DSN: pgtest.Database(t, migrate), Limits: limits})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, store)
		})
	}
}

// soon is a reload interval with which tests do not wait.
const soon = 5 * time.Millisecond

// guarded is a server that asks callers for credentials, and a connection to it.
type guarded struct {
	pb.TaskStoreServiceClient
	conn  *grpc.ClientConn
	store *countingStore
	file  string // the credentials file
	auth  *auth.Authenticator
	stop  func() // returns when no call runs any more; the end of the test does it, too
}

// guard serves the store, with a credentials file.
func guard(t *testing.T, store backend.Store, credentials string, options ...func(*server.Config)) *guarded {
	t.Helper()
	g := &guarded{store: &countingStore{Store: store}, file: filepath.Join(t.TempDir(), "credentials.yaml")}
	g.replace(t, credentials)
	var err error
	g.auth, err = auth.Open(auth.Config{File: g.file, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{
		Logger: slog.New(slog.DiscardHandler), SweepInterval: -1, Auth: g.auth, ReloadInterval: soon,
	}
	for _, o := range options {
		o(&cfg)
	}
	s := server.New(g.store, cfg)
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	g.conn, err = grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	g.TaskStoreServiceClient = pb.NewTaskStoreServiceClient(g.conn)
	g.stop = sync.OnceFunc(func() {
		_ = g.conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(g.stop)
	return g
}

// replace writes a new credentials file in the place of the old one, as a whole.
func (g *guarded) replace(t *testing.T, text string) {
	t.Helper()
	certtest.ReplaceFile(t, g.file, []byte(text))
}

// countingStore counts what callers make a store do.
type countingStore struct {
	backend.Store
	calls, gets atomic.Int64
}

func (s *countingStore) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	s.calls.Add(1)
	return s.Store.Save(ctx, req)
}

func (s *countingStore) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	s.calls.Add(1)
	s.gets.Add(1)
	return s.Store.Get(ctx, req)
}

func (s *countingStore) List(ctx context.Context, req *backend.ListRequest) (backend.ListResult, error) {
	s.calls.Add(1)
	return s.Store.List(ctx, req)
}

func (s *countingStore) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	s.calls.Add(1)
	return s.Store.Delete(ctx, req)
}

func (s *countingStore) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	s.calls.Add(1)
	return s.Store.ClaimKey(ctx, req)
}

func (s *countingStore) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	s.calls.Add(1)
	return s.Store.ReleaseKey(ctx, req)
}

func (s *countingStore) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	s.calls.Add(1)
	return s.Store.AppendEvents(ctx, req)
}

func (s *countingStore) ReadLog(ctx context.Context, req *backend.ReadLogRequest) (backend.LogPage, error) {
	s.calls.Add(1)
	return s.Store.ReadLog(ctx, req)
}

// credential is a principal's entry in the file, and the token to call with.
type credential struct {
	name, token, hash string
	expires           string
	grants            string
}

func newCredential(name, grants string) *credential {
	token, hash := auth.NewToken()
	return &credential{name: name, token: token, hash: hash.String(), grants: grants}
}

// credentialsFile writes the entries as a file.
func credentialsFile(entries ...*credential) string {
	var b strings.Builder
	b.WriteString("principals:\n")
	for _, c := range entries {
		expires := ""
		if c.expires != "" {
			expires = ", expires: " + c.expires
		}
		fmt.Fprintf(&b, "  - {name: %s, tokens: [{hash: \"%s\"%s}], %s}\n", c.name, c.hash, expires, c.grants)
	}
	return b.String()
}

// authorized returns a context for calls with the values of the authorization header.
func authorized(ctx context.Context, values ...string) context.Context {
	for _, v := range values {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
	}
	return ctx
}

func (c *credential) authorize(ctx context.Context) context.Context {
	return authorized(ctx, "Bearer "+c.token)
}
