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
	err := c.Conn.Close()
	c.closed.Do(func() {
		c.open.Give(1)
		c.state.releaseAll()
	})
	return err
}

// Conn is what is known of a connection. It is the address of the caller, too: that is what gRPC hands to calls.
type Conn struct {
	net.Addr
	// Began is when it was accepted.
	Began time.Time
	// Streams are those that are open on it.
	Streams atomic.Int64
	close   func() error

	mu     sync.Mutex
	held   map[*Held]struct{}
	closed bool
}

// Cut closes the connection.
func (c *Conn) Cut() { _ = c.close() }

// Held is something that is given back once: when it is released, or when its connection is closed.
type Held struct {
	conn *Conn
	give func()
	once sync.Once
	done chan struct{}
}

// Hold makes give be called when the Held is released or the connection is closed, whichever is first. Of a nil Conn, only
// Release counts.
func (c *Conn) Hold(give func()) *Held {
	h := &Held{conn: c, give: give, done: make(chan struct{})}
	if c == nil {
		return h
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		if c.held == nil {
			c.held = make(map[*Held]struct{})
		}
		c.held[h] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		h.Release()
	}
	return h
}

// Release gives back. It may be called again.
func (h *Held) Release() {
	h.once.Do(func() {
		if c := h.conn; c != nil {
			c.mu.Lock()
			delete(c.held, h)
			c.mu.Unlock()
		}
		h.give()
		close(h.done)
	})
}

// Done is closed when it was given back.
func (h *Held) Done() <-chan struct{} { return h.done }

// Released reports whether it was given back.
func (h *Held) Released() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

func (c *Conn) releaseAll() {
	c.mu.Lock()
	all := c.held
	c.held, c.closed = nil, true
	c.mu.Unlock()
	for h := range all {
		h.Release()
	}
}
