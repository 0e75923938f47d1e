package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/a2a-taskstore/taskstore/server/transport/certtest"
)

// fixture is a TLS of files, and what clients of it know.
type fixture struct {
	*TLS
	serverCA, clientCA *certtest.Authority
	pair               certtest.Pair
	caFile             string
	credentials        credentials.TransportCredentials
	log                bytes.Buffer
}

func newFixture(t *testing.T, cfg Config) *fixture {
	t.Helper()
	f := &fixture{
		serverCA: certtest.New(t, "servers"), clientCA: certtest.New(t, "clients"),
		pair: certtest.NewPair(t, "server"), caFile: filepath.Join(t.TempDir(), "clients.pem"),
	}
	cert, key := f.serverCA.Server(t)
	f.pair.Replace(t, cert, key)
	certtest.ReplaceFile(t, f.caFile, f.clientCA.PEM())
	cfg.CertFile, cfg.KeyFile, cfg.ClientCAFile = f.pair.Cert, f.pair.Key, f.caFile
	cfg.Logger = slog.New(slog.NewTextHandler(&f.log, nil))
	var err error
	if f.TLS, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	f.credentials = f.Credentials()
	return f
}

// connect makes a connection, with these changes to a client's usual configuration, and returns the server's view of it.
func (f *fixture) connect(t *testing.T, change func(*tls.Config)) (server net.Conn, peer *Peer, client *tls.Conn, err error) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}, ServerName: "127.0.0.1"}
	config.RootCAs.AppendCertsFromPEM(f.serverCA.PEM())
	if change != nil {
		change(config)
	}
	raw, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client = tls.Client(raw, config)
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	accepted, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server, info, err := f.credentials.ServerHandshake(accepted)
	if err = errors.Join(err, <-shaken); err != nil {
		_, _ = accepted.Close(), raw.Close()
		return nil, nil, nil, err
	}
	t.Cleanup(func() { _, _ = server.Close(), client.Close() })
	peer, ok := info.(*Peer)
	if !ok {
		t.Fatalf("auth info %T", info)
	}
	return server, peer, client, nil
}

func presenting(t *testing.T, by *certtest.Authority, template *x509.Certificate) func(*tls.Config) {
	t.Helper()
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	cert, key := by.Issue(t, template)
	return func(c *tls.Config) {
		// A client sends a certificate that the server does not ask for, too.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}, nil
		}
	}
}

func uris(t *testing.T, ids ...string) (out []*url.URL) {
	t.Helper()
	for _, id := range ids {
		uri, err := url.Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, uri)
	}
	return out
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	f, strict, old := newFixture(t, Config{}), newFixture(t, Config{RequireClientCert: true}), newFixture(t, Config{MinVersion: tls.VersionTLS12})
	atMost := func(version uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MaxVersion = version }
	}
	spiffe := &x509.Certificate{URIs: uris(t, "spiffe://example.org/agent")}
	for name, test := range map[string]struct {
		fixture *fixture
		change  func(*tls.Config)
		ok      bool
		names   []string
	}{
		"plain":                  {f, nil, true, nil},
		"TLS 1.2":                {f, atMost(tls.VersionTLS12), false, nil},
		"TLS 1.2, allowed":       {old, atMost(tls.VersionTLS12), true, nil},
		"TLS 1.1, never":         {old, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, false, nil},
		"no h2":                  {f, func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, false, nil},
		"none, required":         {strict, nil, false, nil},
		"SPIFFE":                 {f, presenting(t, f.clientCA, spiffe), true, []string{"spiffe://example.org/agent"}},
		"SPIFFE, required":       {strict, presenting(t, strict.clientCA, spiffe), true, []string{"spiffe://example.org/agent"}},
		"another authority":      {f, presenting(t, strict.clientCA, spiffe), false, nil},
		"the server's authority": {f, presenting(t, f.serverCA, spiffe), false, nil},
		"DNS": {f, presenting(t, f.clientCA, &x509.Certificate{DNSNames: []string{"Agent.example.org", "b"}}), true,
			[]string{"dns:agent.example.org", "dns:b"}},
		"two URIs are no SPIFFE id": {f, presenting(t, f.clientCA, &x509.Certificate{
			URIs: uris(t, "spiffe://example.org/agent", "spiffe://example.org/admin")}), true, nil},
		"another kind of URI": {f, presenting(t, f.clientCA, &x509.Certificate{URIs: uris(t, "https://example.org/agent")}), true, nil},
		"a server's certificate": {f, presenting(t, f.clientCA, &x509.Certificate{
			DNSNames: []string{"agent"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}), false, nil},
		"expired": {f, presenting(t, f.clientCA, &x509.Certificate{
			URIs: spiffe.URIs, NotAfter: time.Now().Add(-time.Minute)}), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, peer, client, err := test.fixture.connect(t, test.change)
			if err == nil {
				// In TLS 1.3 the client is done before the server has judged its certificate.
				go func() { _, _ = server.Write([]byte("x")) }()
				_, err = client.Read(make([]byte, 1))
			}
			if (err == nil) != test.ok {
				t.Fatalf("%v, want success: %v", err, test.ok)
			}
			if !test.ok {
				return
			}
			if names, err := peer.Identities(time.Now()); err != nil || !slices.Equal(names, test.names) {
				t.Errorf("names %q, %v, want %q", names, err, test.names)
			}
		})
	}
}

// TestNoResumption shows that every connection verifies the client anew.
func TestNoResumption(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		f := newFixture(t, Config{MinVersion: version})
		cache := tls.NewLRUClientSessionCache(8)
		change := presenting(t, f.clientCA, &x509.Certificate{DNSNames: []string{"agent"}})
		for range 3 {
			server, _, client, err := f.connect(t, func(c *tls.Config) {
				change(c)
				c.MaxVersion, c.ClientSessionCache = version, cache
			})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = server.Write([]byte("x")) }()
			if _, err := client.Read(make([]byte, 1)); err != nil { // behind which a ticket would have come
				t.Fatal(err)
			}
			if client.ConnectionState().DidResume {
				t.Errorf("version %x: a session was resumed", version)
			}
		}
	}
}

// TestCertificatesEnd shows what becomes of an open connection when its certificate expires, or its authority is replaced.
func TestCertificatesEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	_, anonymous, anonymousClient, err := f.connect(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	connect := func(by *certtest.Authority, end time.Time) (*Peer, *tls.Conn) {
		_, peer, client, err := f.connect(t, presenting(t, by, &x509.Certificate{DNSNames: []string{"agent"}, NotAfter: end}))
		if err != nil {
			t.Fatal(err)
		}
		return peer, client
	}
	soon, later := time.Now().Add(10*time.Minute), time.Now().Add(time.Hour)
	short, shortClient := connect(f.clientCA, soon)
	long, longClient := connect(f.clientCA, later)

	if _, err := short.Identities(soon.Add(-time.Second)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	if _, err := short.Identities(soon.Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Errorf("behind its end: %v", err)
	}
	f.closeExpiring(time.Until(soon) + time.Second)
	if !isClosed(shortClient) || isClosed(longClient) || isClosed(anonymousClient) {
		t.Error("not just the connection whose certificate ends is closed")
	}

	next := certtest.New(t, "next")
	certtest.ReplaceFile(t, f.caFile, append(f.clientCA.PEM(), next.PEM()...))
	f.Refresh()
	if _, err := long.Identities(time.Now()); err != nil || isClosed(longClient) {
		t.Errorf("while both authorities count: %v", err)
	}
	_, renewedClient := connect(next, later)
	certtest.ReplaceFile(t, f.caFile, next.PEM())
	f.Refresh()
	if _, err := long.Identities(time.Now()); !errors.Is(err, ErrUntrusted) || !isClosed(longClient) {
		t.Errorf("when its authority is gone: %v", err)
	}
	if isClosed(renewedClient) || isClosed(anonymousClient) {
		t.Error("a connection is closed whose certificate is good")
	}
	if names, err := anonymous.Identities(time.Now()); err != nil || names != nil {
		t.Errorf("without a certificate: %q, %v", names, err)
	}
	if _, _, _, err := f.connect(t, presenting(t, f.clientCA, &x509.Certificate{DNSNames: []string{"agent"}})); err == nil {
		t.Error("a new connection with a certificate of the old authority")
	}
}

// isClosed reports whether the other end has closed the connection. A connection that is open says nothing.
func isClosed(c *tls.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestBadFiles shows that a server does not start with files that it cannot use, and keeps the last good ones later, saying so
// once.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	other := certtest.NewPair(t, "other")
	otherCert, otherKey := f.serverCA.Server(t)
	other.Replace(t, otherCert, otherKey)
	for name, cfg := range map[string]Config{
		"absent":          {CertFile: f.pair.Cert + "x", KeyFile: f.pair.Key},
		"a directory":     {CertFile: filepath.Dir(f.pair.Cert), KeyFile: f.pair.Key},
		"another's key":   {CertFile: f.pair.Cert, KeyFile: other.Key},
		"CA without one":  {CertFile: f.pair.Cert, KeyFile: f.pair.Key, ClientCAFile: f.pair.Key},
		"required, no CA": {CertFile: f.pair.Cert, KeyFile: f.pair.Key, RequireClientCert: true},
	} {
		if _, err := Open(cfg); err == nil {
			t.Errorf("%s: opened", name)
		}
	}

	good := f.NotAfter()
	certtest.ReplaceFile(t, f.pair.Cert, []byte("rubbish"))
	for range 3 {
		f.Refresh()
	}
	if n := strings.Count(f.log.String(), "cannot be used"); n != 1 || f.Stats().Failures != 1 || !f.Stats().Failing {
		t.Errorf("said %d times, counted %+v", n, f.Stats())
	}
	if _, _, _, err := f.connect(t, nil); err != nil || !f.NotAfter().Equal(good) {
		t.Errorf("the last good certificate is gone: %v", err)
	}
	f.pair.Replace(t, otherCert, otherKey)
	f.Refresh()
	_, _, client, err := f.connect(t, nil)
	if err != nil || client.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(otherCert.SerialNumber) != 0 || f.Stats().Failing {
		t.Errorf("the new certificate is not used: %v, %+v", err, f.Stats())
	}
}

func TestKeyForEverybodyIsWarnedOf(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	if strings.Contains(f.log.String(), "every user") {
		t.Errorf("a private key: %s", f.log.String())
	}
	if err := os.Chmod(f.pair.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if _, err := Open(Config{CertFile: f.pair.Cert, KeyFile: f.pair.Key, Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "every user") {
		t.Errorf("a key for everybody: %s", log.String())
	}
}

// TestUnixSocketsArePlain: whoever can read the traffic of a unix socket can read the server's memory.
func TestUnixSocketsArePlain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{RequireClientCert: true})
	lis, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	client, err := net.Dial("unix", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn, info, err := f.Credentials().Clone().ServerHandshake(accepted)
	if err != nil || conn != accepted {
		t.Fatalf("%v, %v", conn, err)
	}
	if _, isPeer := info.(*Peer); isPeer || credentials.CheckSecurityLevel(info, credentials.PrivacyAndIntegrity) != nil {
		t.Errorf("auth info %#v", info)
	}
	go func() { _, _ = conn.Write([]byte("x")); _ = conn.Close() }()
	if got, err := io.ReadAll(client); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}
