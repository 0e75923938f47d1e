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

// Read waits first if the connection was slowed.
func (c *conn) Read(b []byte) (int, error) {
	if owed := c.state.owed.Load(); owed > 0 {
		c.state.owed.Add(-owed)
		time.Sleep(min(time.Duration(owed), maxPause))
	}
	return c.Conn.Read(b)
}

// maxPause bounds how long a connection that was slowed is not read.
const maxPause = 100 * time.Millisecond

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
	// Streams are those that are open on it, without Watches: those of health.
	Streams, Watches atomic.Int64
	// Calls are the unary calls that are in hand of it, from their headers on, without Gets that wait.
	Calls Calls

	begun, wasted atomic.Int64 // calls
	owed          atomic.Int64 // nanoseconds
	cut           atomic.Bool
	close         func() error

	mu     sync.Mutex
	held   map[*Held]struct{}
	closed bool
}

// Slow has the connection not be read for d more, at its next read: work that its caller makes for nothing then costs the
// caller, by TCP's flow control, and not whoever else the server has.
func (c *Conn) Slow(d time.Duration) { c.owed.Add(int64(d)) }

// Begin counts a call.
func (c *Conn) Begin() { c.begun.Add(1) }

// wasteFrom is from how many wasted calls on a connection may be cut for them.
const wasteFrom = 128

// Waste counts a call that was begun for nothing, and cuts the connection once there are many and most are like that: what it
// has sent already is not worked off then. It reports whether it has. What ends with the connection is not counted: callers
// leave in the midst of calls.
func (c *Conn) Waste() (cut bool) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return false
	}
	n := c.wasted.Add(1)
	if n < wasteFrom || 2*n < c.begun.Load() || !c.cut.CompareAndSwap(false, true) {
		return false
	}
	c.Cut()
	return true
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
