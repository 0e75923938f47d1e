package transport

import (
	"net"
	"sync"
	"time"
)

// certifiedConns are the open connections of clients with a certificate.
type certifiedConns struct {
	mu   sync.Mutex
	open map[*certifiedConn]struct{}
}

// certifiedConn is one of them.
type certifiedConn struct {
	net.Conn
	raw   net.Conn // below TLS
	peer  *Peer
	conns *certifiedConns
}

func (t *TLS) certified(conn, raw net.Conn, p *Peer) net.Conn {
	c := &certifiedConn{Conn: conn, raw: raw, peer: p, conns: &t.conns}
	t.conns.mu.Lock()
	defer t.conns.mu.Unlock()
	if t.conns.open == nil {
		t.conns.open = map[*certifiedConn]struct{}{}
	}
	t.conns.open[c] = struct{}{}
	return c
}

func (c *certifiedConn) Close() error {
	c.conns.mu.Lock()
	delete(c.conns.open, c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}

// closeStale closes the connections whose client certificates are not trusted any more, or expire within so long. A client
// that has a new certificate connects again and goes on; were its connection left open, every call on it would be refused.
func (t *TLS) closeStale(within time.Duration) {
	soon := time.Now().Add(within)
	var stale []*certifiedConn
	t.conns.mu.Lock()
	for c := range t.conns.open {
		if _, err := c.peer.Identities(soon); err != nil {
			delete(t.conns.open, c)
			stale = append(stale, c)
		}
	}
	t.conns.mu.Unlock()
	for _, c := range stale {
		_ = c.raw.Close() // TLS would wait for a peer that does not read
	}
	if len(stale) > 0 {
		t.cfg.Logger.Info("closed connections whose client certificates end", "connections", len(stale))
	}
}
