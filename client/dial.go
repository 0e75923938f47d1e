package client

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Round robin makes use of every replica behind a name (dns:///) and, unlike the default policy, moves on to the next one
// when a connection breaks.
const serviceConfig = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// Reconnecting must be quick after an outage of any length: gRPC's own default waits up to two minutes between attempts,
// much longer than the calls that wait for the connection.
var connectParams = grpc.ConnectParams{
	Backoff: backoff.Config{
		BaseDelay:  100 * time.Millisecond,
		Multiplier: 1.6,
		Jitter:     0.2,
		MaxDelay:   3 * time.Second,
	},
	MinConnectTimeout: 5 * time.Second,
}

// Client calls one task store. Its methods may be called concurrently.
type Client struct {
	conn *grpc.ClientConn
	rpc  taskstorev1.TaskStoreServiceClient
	opts options

	closing sync.Once
	closed  chan struct{} // wakes calls that wait for their next attempt
}

// Dial returns a client for the store at target, in gRPC's syntax: "localhost:7420", "unix:///run/taskstore.sock", or
// "dns:///store.example:7420" for every address behind a name. It does not connect yet, so it succeeds while the
// store is away; its errors are those of the arguments.
//
// Loopback and unix targets are plain text unless told otherwise. For any other target Dial fails unless
// [WithTLS], [WithTransportCredentials] or [WithInsecure] says how to connect.
func Dial(target string, opts ...Option) (*Client, error) {
	o := defaultOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if o.err != nil {
		return nil, fmt.Errorf("taskstore: dial %s: %w", target, o.err)
	}
	if o.transport == nil {
		if !isLocal(target) {
			return nil, fmt.Errorf("taskstore: dial %s: %w", target,
				errors.New("not a loopback or unix target: give transport credentials, or say that it may be insecure"))
		}
		o.transport = insecure.NewCredentials()
	}
	dialOpts := []grpc.DialOption{
		grpc.WithTransportCredentials(o.transport),
		grpc.WithDefaultServiceConfig(serviceConfig),
		// A policy published in DNS must not add retries of its own below ours.
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(connectParams),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: o.keepaliveTime, Timeout: o.keepaliveTimeout}),
		grpc.WithUserAgent("a2ataskstore-go"),
		grpc.WithDefaultCallOptions(
			grpc.WaitForReady(true),
			grpc.MaxCallRecvMsgSize(o.maxMessageSize),
			grpc.MaxCallSendMsgSize(o.maxMessageSize),
		),
	}
	if o.token != nil {
		plain := o.transport.Info().SecurityProtocol == insecure.NewCredentials().Info().SecurityProtocol
		o.perRPC = append(o.perRPC, bearer{source: o.token, needsTLS: !plain})
	}
	for _, creds := range o.perRPC {
		dialOpts = append(dialOpts, grpc.WithPerRPCCredentials(creds))
	}
	conn, err := grpc.NewClient(target, append(dialOpts, o.dial...)...)
	if err != nil {
		return nil, fmt.Errorf("taskstore: dial %s: %w", target, withoutStatus(err))
	}
	return &Client{
		conn:   conn,
		rpc:    taskstorev1.NewTaskStoreServiceClient(conn),
		opts:   o,
		closed: make(chan struct{}),
	}, nil
}

// Close closes the connections. Calls and follows that are under way end with [ErrClosed], as do later ones. Closing a
// closed client does nothing.
func (c *Client) Close() error {
	var err error
	c.closing.Do(func() {
		close(c.closed)
		err = withoutStatus(c.conn.Close())
	})
	return err
}

// Conn is the connection that the client uses, for other services of the same server, such as health and reflection. What
// is called on it directly is not retried, and its errors are gRPC's. It is the client's to close.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// isLocal tells whether target stays on this machine whatever a resolver says.
func isLocal(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	// The authority between the slashes names a DNS server, which could answer anything, so that form does not match.
	for _, scheme := range []string{"dns:///", "dns:", "passthrough:///", "passthrough:"} {
		if rest, ok := strings.CutPrefix(target, scheme); ok {
			target = rest
			break
		}
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = strings.Trim(target, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
