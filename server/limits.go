package server

import "time"

// Limits bound what a server has in hand. What is beyond them is refused at once with RESOURCE_EXHAUSTED, health checks
// excepted. 0 is the default.
type Limits struct {
	// Calls bounds the unary calls that run. There is no line in front of them: that is the store's own, and a longer one makes
	// every call slower and none faster. 0: 512.
	Calls int
	// CallBytes bounds the bytes of large requests that run and of large responses that their callers have not taken. 0: 256 MiB.
	CallBytes int64
	// Streams bounds what is open for long on all connections: streams, those of reflection included and those of health, which
	// have bounds of their own, not, and Gets that wait. 0: 32,768.
	Streams int
	// ConnectionStreams bounds the same on one connection, and must leave room for calls below Config.MaxConcurrentStreams.
	// 0: 12,288.
	ConnectionStreams int
	// Connections bounds the connections; one too many is closed at once. 0: 16,384.
	Connections int
	// StreamBytes bounds the memory of frames that are being sent to readers. A reader that finds it used up waits. 0: 256 MiB.
	StreamBytes int64
	// StallTimeout is how long a reader may take for one frame while others wait for memory; then its stream ends, and after as
	// long again its connection. 0: 30 s.
	StallTimeout time.Duration

	// DefaultTimeout is when a unary call ends whose caller gave no deadline; it should be above the longest wait of a Get.
	// 0: 75 s.
	DefaultTimeout time.Duration
	// MaxTimeout is when a unary call ends whatever deadline its caller gave. 0: 2 min.
	MaxTimeout time.Duration

	// ConnectionAge is when a connection is closed, give or take a tenth, after what runs on it: callers connect again, perhaps
	// to another server. Streams end so that they can be resumed. 0: never.
	ConnectionAge time.Duration
	// ConnectionAgeGrace is how long what runs then may take. 0: 2 min.
	ConnectionAgeGrace time.Duration
}

// Bounds of what precedes the first call, and of every call.
const (
	// handshakeTimeout is for TLS and the first frames.
	handshakeTimeout = 10 * time.Second
	// maxHeaderBytes bounds the metadata of a call.
	maxHeaderBytes = 32 << 10
)

func (l Limits) withDefaults() Limits {
	l.Calls = orDefault(l.Calls, 512)
	l.CallBytes = orDefault(l.CallBytes, 256<<20)
	l.Streams = orDefault(l.Streams, 32<<10)
	l.ConnectionStreams = orDefault(l.ConnectionStreams, 12<<10)
	l.Connections = orDefault(l.Connections, 16<<10)
	l.StreamBytes = orDefault(l.StreamBytes, 256<<20)
	l.StallTimeout = orDefault(l.StallTimeout, 30*time.Second)
	l.DefaultTimeout = orDefault(l.DefaultTimeout, 75*time.Second)
	l.MaxTimeout = orDefault(l.MaxTimeout, 2*time.Minute)
	l.ConnectionAgeGrace = orDefault(l.ConnectionAgeGrace, 2*time.Minute)
	return l
}

func orDefault[N int | int64 | time.Duration](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}
