package server

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// TestEagerPingsAreTolerated has an idle client ping as often as gRPC lets it.
func TestEagerPingsAreTolerated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lis := bufconn.Listen(1 << 20)
		s := New(newStore(t), Config{Logger: slog.New(slog.DiscardHandler)})
		go s.Serve(lis)
		dials := 0
		conn, err := grpc.NewClient("passthrough:bufconn", insecureCredentials,
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				dials++
				return lis.DialContext(ctx)
			}))
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			_, err := pb.NewTaskStoreServiceClient(conn).Get(t.Context(), &pb.GetRequest{TaskId: "t"})
			wantReason(t, err, backend.ErrTaskNotFound)
			time.Sleep(20 * time.Minute)
		}
		if dials != 1 {
			t.Errorf("%d connections", dials)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// deadConn is a connection whose other side can vanish without a word.
type deadConn struct {
	net.Conn
	dead *atomic.Bool
	gone chan struct{}
}

func (c deadConn) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c deadConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.dead.Load() {
		<-c.gone
	}
	return n, err
}

func TestDeadReadersAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		gone := make(chan struct{})
		lis := bufconn.Listen(1 << 20)
		var log logBuffer
		s := New(newStore(t), Config{Logger: log.logger()})
		go s.Serve(lis)
		conn, err := grpc.NewClient("passthrough:bufconn", insecureCredentials,
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				c, err := lis.DialContext(ctx)
				return deadConn{c, &dead, gone}, err
			}))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := pb.NewTaskStoreServiceClient(conn).ReadEvents(t.Context(), reading(forever))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if ended := log.lines("ReadEvents"); len(ended) != 0 {
			t.Fatalf("ended while the client lives: %q", ended)
		}
		dead.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if ended := log.lines("ReadEvents"); len(ended) != 1 {
			t.Errorf("after the client has died: %q", ended)
		}
		close(gone)
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
