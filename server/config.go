package server

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/audit"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/transport"
)

// Config is what a Server can be told. The zero value is usable.
type Config struct {
	// Logger gets one line per call (at debug, warn or error) and one per change of the server's state. nil: slog.Default().
	Logger *slog.Logger

	// Audit gets a line for each call that changes, or reads, a task. The caller closes it after Shutdown. nil: none.
	Audit *audit.Log

	// Metrics gets the metrics of this one server. nil: none.
	Metrics prometheus.Registerer
	// TracerProvider makes a span of every call. nil: calls are not traced, which costs nothing.
	TracerProvider trace.TracerProvider

	// MaxMessageBytes bounds a request. 0: DefaultMaxMessageBytes; at least MinMessageBytes. The store's limit for tasks must
	// be TaskBytes of it, so that what is accepted can be read.
	MaxMessageBytes int
	// MaxConcurrentStreams bounds the calls that run on one connection, open readers included; more wait in the client.
	// 0: 16,384.
	MaxConcurrentStreams uint32

	// Limits bound what the server has in hand.
	Limits Limits

	// TLS secures connections, except those over unix sockets. nil: plain text.
	TLS *transport.TLS
	// Auth says who may do what. nil: whoever can connect may do everything.
	Auth *auth.Authenticator
	// ReloadInterval is how often the files of TLS and Auth are read again, and open calls are asked whether they are still
	// allowed. 0: 2 s.
	ReloadInterval time.Duration

	// Retention is how long things are kept. The zero value keeps everything for ever; backend.DefaultRetention is what the
	// contract names.
	Retention backend.Retention
	// SweepInterval is the time between two rounds of the sweeper. 0: one minute; negative: this server does not sweep.
	SweepInterval time.Duration
	// SweepBatch is how many rows the sweeper looks at in one step. 0: 256.
	SweepBatch int

	// PingInterval is how often the store is asked whether it can serve, which is what the health service answers. 0: 2 s.
	PingInterval time.Duration
	// DrainDelay is how long Shutdown goes on serving after health has said NOT_SERVING, so that load balancers notice. 0: not
	// at all.
	DrainDelay time.Duration
}

// Bounds of the size of messages, in bytes.
const (
	DefaultMaxMessageBytes = 16 << 20
	MinMessageBytes        = 64 << 10
)

// envelope bounds what a message holds around one payload, ids and page token of the largest size included.
const envelope = 1 << 10

// TaskBytes is the size of the largest task whose full Get, or snapshot in a log, is a message of at most maxMessageBytes, of
// which 0 is the default: the backend.Limits.TaskBytes to go with a Config.MaxMessageBytes.
func TaskBytes(maxMessageBytes int) int64 {
	return int64(messageBytes(maxMessageBytes) - envelope)
}

func messageBytes(n int) int {
	if n == 0 {
		return DefaultMaxMessageBytes
	}
	return max(n, MinMessageBytes)
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.MaxMessageBytes = messageBytes(c.MaxMessageBytes)
	if c.MaxConcurrentStreams == 0 {
		c.MaxConcurrentStreams = 16 << 10
	}
	c.Limits = c.Limits.withDefaults()
	if c.SweepInterval == 0 {
		c.SweepInterval = time.Minute
	}
	if c.SweepBatch <= 0 {
		c.SweepBatch = 256
	}
	if c.ReloadInterval <= 0 {
		c.ReloadInterval = 2 * time.Second
	}
	if c.PingInterval <= 0 {
		c.PingInterval = 2 * time.Second
	}
	return c
}
