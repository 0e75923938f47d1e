package transport

import (
	"crypto/x509"
	"log/slog"
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

// closeExpiring closes the connections whose client certificates expire within so long, or are not trusted any more. A client
// that has a new certificate connects again and goes on; were its connection left open, every call on it would be refused.
func (t *TLS) closeExpiring(within time.Duration) {
	soon := time.Now().Add(within)
	t.conns.close(t.cfg.Logger, func(p *Peer) bool {
		_, err := p.Identities(soon)
		return err != nil
	})
}

// closeUntrusted does the same for client certificates that are not of these authorities.
func (t *TLS) closeUntrusted(roots *x509.CertPool) {
	now := time.Now()
	t.conns.close(t.cfg.Logger, func(p *Peer) bool { return verify(p.State.PeerCertificates, roots, now).err != nil })
}

func (c *certifiedConns) close(log *slog.Logger, which func(*Peer) bool) {
	var closing []*certifiedConn
	c.mu.Lock()
	for conn := range c.open {
		if which(conn.peer) {
			delete(c.open, conn)
			closing = append(closing, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range closing {
		_ = conn.raw.Close() // TLS would wait for a peer that does not read
	}
	if len(closing) > 0 {
		log.Info("closed connections whose client certificates end", "connections", len(closing))
	}
}
