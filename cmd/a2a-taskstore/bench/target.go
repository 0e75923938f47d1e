package bench

import (
	"context"
	"errors"
	"net"
	"path"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	wirev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/wire/v1"
)

// api are the calls that workloads make. Requests and replies are those of the wire twin: callers hold payloads as bytes,
// so that what is measured is the store, and hardly the callers.
type api interface {
	save(context.Context, *wirev1.SaveRequest) error
	get(context.Context, *taskstorev1.GetRequest) error
	list(context.Context, *taskstorev1.ListRequest) (*wirev1.ListResponse, error)
	claim(context.Context, *taskstorev1.ClaimKeyRequest) (taskstorev1.ClaimOutcome, error)
}

// target is a system under load.
type target struct {
	api
	tenant  string
	address string   // of a server
	process *process // that serves; nil if this run has not started it
	remote  *remote  // the api, of a server
	meters  []meter
	close   func() error
}

func (t *target) scope() *taskstorev1.Scope {
	return &taskstorev1.Scope{Tenant: t.tenant, Owner: proto.String(owner)}
}

// maxMessage is more than any message here has.
const maxMessage = 64 << 20

// remote calls a server over one connection, as a client does.
type remote struct {
	conn *grpc.ClientConn
	wire atomic.Int64
}

var _ api = (*remote)(nil)

func dial(address string, options ...grpc.DialOption) (*remote, error) {
	r := &remote{}
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		countingDialer(&r.wire),
	}, options...)...)
	r.conn = conn
	return r, err
}

// countingDialer adds the bytes that connections carry, both ways, to a counter.
func countingDialer(bytes *atomic.Int64) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return countingConn{conn, bytes}, nil
	})
}

type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (r *remote) count(context.Context) (counters, error) {
	return counters{Wire: float64(r.wire.Load())}, nil
}

// callTimeout is the deadline of a call: clients have one, and servers do more for those that have not.
const callTimeout = time.Minute

func (r *remote) invoke(ctx context.Context, method string, req, resp proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.conn.Invoke(ctx, fullMethod(method), req, resp)
}

func (r *remote) save(ctx context.Context, req *wirev1.SaveRequest) error {
	return r.invoke(ctx, "Save", req, &taskstorev1.SaveResponse{})
}

func (r *remote) get(ctx context.Context, req *taskstorev1.GetRequest) error {
	return r.invoke(ctx, "Get", req, &wirev1.GetResponse{})
}

func (r *remote) list(ctx context.Context, req *taskstorev1.ListRequest) (*wirev1.ListResponse, error) {
	resp := &wirev1.ListResponse{}
	return resp, r.invoke(ctx, "List", req, resp)
}

func (r *remote) claim(ctx context.Context, req *taskstorev1.ClaimKeyRequest) (taskstorev1.ClaimOutcome, error) {
	resp := &taskstorev1.ClaimKeyResponse{}
	err := r.invoke(ctx, "ClaimKey", req, resp)
	return resp.GetOutcome(), err
}

// recordReplies returns the reply of a server to the latest call of each method in calls: what an echo answers.
func recordReplies(ctx context.Context, address string, calls func(context.Context, api) error) (map[string][]byte, error) {
	replies := map[string][]byte{}
	r, err := dial(address, grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			replies[path.Base(method)] = encode(reply.(proto.Message))
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return replies, errors.Join(calls(ctx, r), r.conn.Close())
}
