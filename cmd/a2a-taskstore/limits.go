package main

import (
	"time"

	"github.com/a2a-taskstore/taskstore/server"
)

// limitFlags bound what a server has in hand.
type limitFlags struct {
	MaxConcurrentCalls   int           `help:"Unary calls that run at once. One too many is refused with RESOURCE_EXHAUSTED and when to try again; it does not wait." default:"512"`
	MaxCallBytes         byteSize      `help:"Bytes of requests and responses of 64 KiB and more that are in hand; beyond it, large calls are refused. At least --max-message-bytes." default:"256MiB"`
	MaxStreams           int           `help:"Streams that are open, and Gets that wait, on all connections." default:"32768"`
	MaxConnectionStreams int           `help:"The same on one connection, at most 12288, so that calls beside them get through." default:"12288"`
	MaxConnections       int           `help:"Connections; one too many is closed at once." default:"16384"`
	StreamBufferBytes    byteSize      `help:"Memory of the frames that are being sent to readers of events, beside up to 64 KiB of small ones for each reader that stalls. A reader that finds it used up waits. At least --max-message-bytes." default:"256MiB"`
	StallTimeout         time.Duration `help:"How long a reader may take for one frame while others wait for --stream-buffer-bytes. Then its stream ends, so that it can be resumed, and after as long again its connection." default:"30s"`
	DefaultTimeout       time.Duration `help:"When a unary call ends whose caller gave no deadline. Below 60 s it cuts off Gets that wait." default:"75s"`
	MaxTimeout           time.Duration `help:"When a unary call ends whatever deadline its caller gave." default:"2m"`
	MaxConnectionAge     time.Duration `help:"When a connection is closed, give or take a tenth, so that callers spread over servers anew; streams end so that they can be resumed. 0: never." default:"1h"`
	MaxConnectionGrace   time.Duration `help:"How long calls that run on it then may take." default:"2m"`
}

// maxConnectionStreams leaves a quarter of the streams that HTTP/2 has on a connection to unary calls.
const maxConnectionStreams = 12 << 10

func (f *limitFlags) check(maxMessage byteSize) error {
	switch {
	case f.MaxConcurrentCalls < 1 || f.MaxStreams < 1 || f.MaxConnectionStreams < 1 || f.MaxConnections < 1:
		return usagef("--max-concurrent-calls, --max-streams, --max-connection-streams and --max-connections must be positive")
	case f.MaxConnectionStreams > maxConnectionStreams:
		return usagef("--max-connection-streams must be at most %d", maxConnectionStreams)
	case f.MaxCallBytes < maxMessage || f.StreamBufferBytes < maxMessage:
		return usagef("--max-call-bytes and --stream-buffer-bytes must be at least --max-message-bytes")
	case f.StallTimeout <= 0 || f.DefaultTimeout <= 0 || f.MaxTimeout <= 0 || f.MaxConnectionGrace <= 0 || f.MaxConnectionAge < 0:
		return usagef("--stall-timeout, --default-timeout, --max-timeout and --max-connection-grace must be positive, --max-connection-age must not be negative")
	case f.DefaultTimeout > f.MaxTimeout:
		return usagef("--default-timeout must be at most --max-timeout")
	}
	return nil
}

func (f *limitFlags) limits() server.Limits {
	return server.Limits{
		Calls:              f.MaxConcurrentCalls,
		CallBytes:          int64(f.MaxCallBytes),
		Streams:            f.MaxStreams,
		ConnectionStreams:  f.MaxConnectionStreams,
		Connections:        f.MaxConnections,
		StreamBytes:        int64(f.StreamBufferBytes),
		StallTimeout:       f.StallTimeout,
		DefaultTimeout:     f.DefaultTimeout,
		MaxTimeout:         f.MaxTimeout,
		ConnectionAge:      f.MaxConnectionAge,
		ConnectionAgeGrace: f.MaxConnectionGrace,
	}
}
