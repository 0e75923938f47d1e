package limit

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Listener accepts no more than a number of connections, over all listeners that share the Counter. One too many is closed at
// once: its caller then tries another server, or again, instead of waiting in the dark.
type Listener struct {
	net.Listener
	Connections *Counter
	// Refused, unless nil, is told of each connection that was closed.
	Refused func(net.Addr)
}

// Accept returns connections of which the address that RemoteAddr names is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.Connections.Take(1) {
			_ = raw.Close()
			if l.Refused != nil {
				l.Refused(raw.RemoteAddr())
			}
			continue
		}
		return &conn{Conn: raw, state: Conn{Addr: raw.RemoteAddr(), Began: time.Now(), close: raw.Close}, open: l.Connections}, nil
	}
}

type conn struct {
	net.Conn
	state  Conn
	open   *Counter
	closed sync.Once
}

func (c *conn) RemoteAddr() net.Addr { return &c.state }

func (c *conn) Close() error {
	c.closed.Do(func() { c.open.Give(1) })
	return c.Conn.Close()
}

// Conn is what is known of a connection. It is the address of the caller, too: that is what gRPC hands to calls.
type Conn struct {
	net.Addr
	// Began is when it was accepted.
	Began time.Time
	// Streams are those that are open on it.
	Streams atomic.Int64
	close   func() error
}

// Cut closes the connection.
func (c *Conn) Cut() { _ = c.close() }
