package postgres_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// proxy stands between stores and a server, and can cut or blacken their connections.
type proxy struct {
	// DSN leads to the server through the proxy.
	DSN string

	listener net.Listener
	// requests counts what clients sent, in pieces: one for each round trip, if it is not large.
	requests atomic.Int64

	mu    sync.Mutex
	links map[*link]struct{}
	// dropReply is called with what the server answers; the link is cut instead of passing it on when it returns true.
	dropReply func(reply []byte) bool
	// black holds everything back until it is closed; nil lets everything pass.
	black chan struct{}
}

type link struct {
	client, server net.Conn

	// Under the proxy's mu.
	listens bool          // the client has sent a LISTEN
	black   chan struct{} // as the proxy's, for this link only
}

// newProxy starts a proxy to the server and the database of the DSN.
func newProxy(tb testing.TB, dsn string) *proxy {
	tb.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "proxy-") // the path of a socket must be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{
		DSN:      fmt.Sprintf("host=%s port=5432 user=%s password='%s' dbname=%s", dir, cfg.User, cfg.Password, cfg.Database),
		listener: l, links: map[*link]struct{}{},
	}
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				client.Close()
				continue
			}
			k := &link{client: client, server: server}
			p.mu.Lock()
			p.links[k] = struct{}{}
			p.mu.Unlock()
			wg.Go(func() { p.pump(k, client, server, true) })
			wg.Go(func() { p.pump(k, server, client, false) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		p.pass()
		p.cut()
		wg.Wait()
	})
	return p
}

// pump passes on what comes from one side, and closes both when it ends.
func (p *proxy) pump(k *link, from, to net.Conn, request bool) {
	defer func() {
		from.Close()
		to.Close()
		p.mu.Lock()
		delete(p.links, k)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if request {
				p.requests.Add(1)
			}
			p.mu.Lock()
			drop := p.dropReply
			k.listens = k.listens || request && bytes.Contains(buf[:n], []byte("LISTEN"))
			black := p.black
			if black == nil {
				black = k.black
			}
			p.mu.Unlock()
			if black != nil {
				<-black
			}
			if !request && drop != nil && drop(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// blacken holds back everything that is under way, until pass.
func (p *proxy) blacken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.black == nil {
		p.black = make(chan struct{})
	}
}

// blackenListeners holds back what is under way on the connections that listen now, until pass.
func (p *proxy) blackenListeners() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		if k.listens && k.black == nil {
			k.black = make(chan struct{})
			n++
		}
	}
	return n
}

func (p *proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		if k.black != nil {
			close(k.black)
			k.black = nil
		}
	}
	if p.black != nil {
		close(p.black)
		p.black = nil
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.client.Close()
		k.server.Close()
	}
}

// cutInsteadOfReply cuts the connection that the server next answers on once happened reports true, in place of the answer.
// It returns whether that has come to pass.
func (p *proxy) cutInsteadOfReply(happened func() bool) (done func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var once sync.Mutex
	cut := false
	p.dropReply = func([]byte) bool {
		once.Lock()
		defer once.Unlock()
		if cut || !happened() {
			return false
		}
		cut = true
		return true
	}
	return func() bool {
		once.Lock()
		defer once.Unlock()
		return cut
	}
}
