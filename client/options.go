package client

import (
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Defaults of the options.
const (
	// DefaultMaxMessageSize leaves room for what surrounds the largest task that a store keeps by default, 16 MiB.
	DefaultMaxMessageSize = 17 << 20
	// DefaultRetryBudget is how long a call without a deadline goes on.
	DefaultRetryBudget = 10 * time.Second
	// DefaultAttemptTimeout is how long one attempt of a call may take.
	DefaultAttemptTimeout = 4 * time.Second

	defaultBaseDelay        = 50 * time.Millisecond
	defaultMaxDelay         = time.Second
	defaultKeepaliveTime    = 30 * time.Second
	defaultKeepaliveTimeout = 5 * time.Second
)

// Option configures a [Client].
type Option func(*options)

type options struct {
	transport        credentials.TransportCredentials
	token            TokenSource
	perRPC           []credentials.PerRPCCredentials
	maxMessageSize   int
	keepaliveTime    time.Duration
	keepaliveTimeout time.Duration
	retryBudget      time.Duration
	attemptTimeout   time.Duration
	maxAttempts      int
	baseDelay        time.Duration
	maxDelay         time.Duration
	scope            *taskstorev1.Scope
	origin           string
	dial             []grpc.DialOption
	err              error
}

func defaultOptions() options {
	return options{
		maxMessageSize:   DefaultMaxMessageSize,
		keepaliveTime:    defaultKeepaliveTime,
		keepaliveTimeout: defaultKeepaliveTimeout,
		retryBudget:      DefaultRetryBudget,
		attemptTimeout:   DefaultAttemptTimeout,
		baseDelay:        defaultBaseDelay,
		maxDelay:         defaultMaxDelay,
	}
}

func (o *options) require(ok bool, message string) {
	if !ok {
		o.err = errors.Join(o.err, errors.New(message))
	}
}

// WithTransportCredentials says how to secure connections, where [WithTLS] is not enough.
func WithTransportCredentials(creds credentials.TransportCredentials) Option {
	return func(o *options) {
		o.require(creds != nil, "transport credentials are nil")
		o.transport = creds
	}
}

// WithInsecure allows plain text to any target. Everything, tokens included, can be read on the way.
func WithInsecure() Option {
	return func(o *options) { o.transport = insecure.NewCredentials() }
}

// WithPerRPCCredentials sends what creds provide with every call. It may be given more than once.
func WithPerRPCCredentials(creds credentials.PerRPCCredentials) Option {
	return func(o *options) {
		o.require(creds != nil, "per-RPC credentials are nil")
		o.perRPC = append(o.perRPC, creds)
	}
}

// WithMaxMessageSize bounds a message in bytes, in both directions; the default is [DefaultMaxMessageSize]. It should exceed
// the store's own limit by what surrounds a task in a message: below it, tasks that others stored cannot be read here.
func WithMaxMessageSize(bytes int) Option {
	return func(o *options) {
		o.require(bytes > 0, "the maximum message size must be positive")
		o.maxMessageSize = bytes
	}
}

// WithKeepalive says after how much silence a connection with calls under way is probed, and how long the answer may take
// before it counts as dead; on Linux, data that stays unacknowledged for timeout ends it, too. The defaults are 30 s and 5
// s; gRPC raises an interval below 10 s to that. Connections without calls are never probed.
//
// The default suits task store servers and the idle timeouts of common proxies, which start at a minute. A server that keeps
// gRPC's stock enforcement (5 min) would close a connection that has only a silent stream; gRPC then doubles the
// interval and [Client.Follow] resumes.
func WithKeepalive(interval, timeout time.Duration) Option {
	return func(o *options) {
		o.require(interval > 0 && timeout > 0, "keepalive durations must be positive")
		o.keepaliveTime, o.keepaliveTimeout = interval, timeout
	}
}

// WithRetryBudget bounds a call whose context has no deadline, all attempts together; the default is [DefaultRetryBudget].
// The wait of a Get, and a second per MiB of the request, come on top. The budget also bounds the outage that a
// [Client.Follow] until HEAD sits out.
func WithRetryBudget(d time.Duration) Option {
	return func(o *options) {
		o.require(d > 0, "the retry budget must be positive")
		o.retryBudget = d
	}
}

// WithAttemptTimeout bounds one attempt of a call, so that a connection that swallows everything cannot use up the whole
// budget; the default is [DefaultAttemptTimeout]. The wait of a Get, and a second per MiB of the request, come on top,
// and the time doubles after each attempt that ran into it, so that a call which is merely slow gets through.
func WithAttemptTimeout(d time.Duration) Option {
	return func(o *options) {
		o.require(d > 0, "the attempt timeout must be positive")
		o.attemptTimeout = d
	}
}

// WithMaxAttempts bounds the attempts of a call; 1 means no retries, 0 (the default) that only time bounds them. It does not
// concern [Client.Follow].
func WithMaxAttempts(n int) Option {
	return func(o *options) {
		o.require(n >= 0, "the maximum number of attempts must not be negative")
		o.maxAttempts = n
	}
}

// WithBackoff sets the pause before the first retry, which doubles up to limit; the defaults are 50 ms and 1 s. Each pause is
// between half of that and the whole. A server's RetryInfo, and up to a half of that, can only lengthen it.
func WithBackoff(first, limit time.Duration) Option {
	return func(o *options) {
		o.require(first > 0 && limit >= first, "backoff needs 0 < first ≤ limit")
		o.baseDelay, o.maxDelay = first, limit
	}
}

// WithScope is the scope of requests that have none. A request with a scope, an empty one too, keeps it: the two are not
// merged.
func WithScope(scope *taskstorev1.Scope) Option {
	return func(o *options) { o.scope = proto.CloneOf(scope) }
}

// WithOrigin names this writer in Saves and AppendEvents that have no origin; at most 64 bytes. Readers use it to skip
// their own events.
func WithOrigin(origin string) Option {
	return func(o *options) { o.origin = origin }
}

// WithDialOptions passes options to gRPC, for example a stats handler for tracing, or interceptors. They come last and win
// over what this package sets, except that the transport must be secured with [WithTransportCredentials].
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}
