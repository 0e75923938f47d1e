// Package servertest runs the conformance suite of backends once more through a server and the Go client: whatever the
// contract promises must hold for the callers of the service, too.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/client"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
)

// remote is a Store that is a client of servers, each over a Store of its own, and spreads its calls over them. Watch, Heads,
// Ping and Sweep are the first store's own: no caller of the service has them.
type remote struct {
	backend.Store
	client   *client.Client
	replicas []replica
}

type replica struct {
	store  backend.Store
	server *server.Server
	served chan error
}

var _ backend.Store = (*remote)(nil)

// serve serves the stores in memory, to a client of its own. What is in one of them must be in all of them.
func serve(tb testing.TB, stores ...backend.Store) *remote {
	tb.Helper()
	r := &remote{Store: stores[0]}
	listeners := map[string]*bufconn.Listener{}
	var addresses resolver.State
	for i, store := range stores {
		address, lis := strconv.Itoa(i), bufconn.Listen(1<<20)
		listeners[address] = lis
		addresses.Addresses = append(addresses.Addresses, resolver.Address{Addr: address})
		rep := replica{
			store:  store,
			server: server.New(store, server.Config{Logger: slog.New(slog.DiscardHandler), SweepInterval: -1}),
			served: make(chan error, 1),
		}
		go func() { rep.served <- rep.server.Serve(lis) }()
		r.replicas = append(r.replicas, rep)
	}
	names := manual.NewBuilderWithScheme("replicas")
	names.InitialState(addresses)
	var err error
	r.client, err = client.Dial("replicas:///all", client.WithInsecure(), client.WithDialOptions(
		grpc.WithResolvers(names),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return listeners[address].DialContext(ctx)
		}),
	))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// Close ends the client, the servers and the stores.
func (r *remote) Close() error {
	err := r.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, rep := range r.replicas {
		err = errors.Join(err, rep.server.Shutdown(ctx), <-rep.served, rep.store.Close())
	}
	return err
}

// fault turns the client's error back into the one that the store returned to the server.
func fault(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Reason == "" {
		return err
	}
	out := &backend.Error{Reason: backend.Reason(e.Reason), Detail: e.Message, Meta: e.Metadata, Cause: err}
	if len(e.Violations) == 1 {
		out.Field, out.Detail = e.Violations[0].Field, e.Violations[0].Description
	}
	return out
}

// payload decodes what a request holds encoded.
func payload[M proto.Message](b []byte, m M) (M, error) {
	if err := proto.Unmarshal(b, m); err != nil {
		return m, fmt.Errorf("decoding: %w", err)
	}
	return m, nil
}

func scope(tenant string, o backend.Owner) *pb.Scope {
	s := &pb.Scope{Tenant: tenant}
	if o.Set {
		s.Owner = &o.Name
	}
	return s
}

func claimOf(ref *backend.ClaimRef) *pb.Claim {
	if ref == nil {
		return nil
	}
	return &pb.Claim{Key: ref.Key, Token: ref.Token}
}

// stored encodes a task that was received.
func stored(task *pb.Task, version int64, owner string) (backend.Stored, error) {
	b, err := proto.Marshal(task)
	return backend.Stored{Task: b, Version: version, Owner: owner}, err
}

// history is an extent's in a request, where absence means all.
func history(x *backend.Extent) *int32 {
	if x.History < 0 {
		return nil
	}
	n := int32(x.History)
	return &n
}
