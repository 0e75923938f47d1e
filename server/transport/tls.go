// Package transport secures the server's connections: TLS on TCP, with certificates that can be replaced while it runs, and
// plain text on unix sockets, which the file system guards.
package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/a2a-taskstore/taskstore/server/reload"
)

// Config names the files, all in PEM.
type Config struct {
	// CertFile holds the server's certificate, followed by intermediates; KeyFile its key.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities whose client certificates are accepted. "": none are asked for.
	ClientCAFile string
	// RequireClientCert refuses connections without a client certificate. Otherwise, one that is given must be good.
	RequireClientCert bool
	// MinVersion is tls.VersionTLS12 or tls.VersionTLS13. 0: 1.3.
	MinVersion uint16
	// Logger is told when files were replaced, and when they cannot be used. nil: slog.Default().
	Logger *slog.Logger
}

// TLS holds the certificates. Every handshake uses those of the latest good files.
type TLS struct {
	cfg   Config
	files *reload.Value[material]
	conns certifiedConns
}

// material is what the files hold.
type material struct {
	server    *tls.Config // for a handshake
	clientCAs *x509.CertPool
	notAfter  time.Time
}

// expiryMargin is by how much a connection ends before its certificate does, besides the time until it is looked at.
const expiryMargin = time.Second

// Open reads the files.
func Open(cfg Config) (*TLS, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.MinVersion == 0 {
		cfg.MinVersion = tls.VersionTLS13
	}
	paths := []string{cfg.CertFile, cfg.KeyFile}
	if cfg.ClientCAFile != "" {
		paths = append(paths, cfg.ClientCAFile)
	} else if cfg.RequireClientCert {
		return nil, errors.New("client certificates cannot be required without a client CA")
	}
	var err error
	t := &TLS{cfg: cfg}
	if t.files, err = reload.Open(t.parser(), paths...); err != nil {
		return nil, err
	}
	warnOfMode(cfg.Logger, cfg.KeyFile)
	return t, nil
}

// parser returns what makes material of the files. Pools are told apart by their address, see Peer, so that one is only made
// again when the authorities have changed.
func (t *TLS) parser() func([][]byte) (*material, error) {
	var pool *x509.CertPool
	var poolOf []byte
	return func(contents [][]byte) (*material, error) {
		cert, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", t.cfg.CertFile, t.cfg.KeyFile, err)
		}
		m := &material{notAfter: cert.Leaf.NotAfter}
		auth := tls.NoClientCert
		if t.cfg.ClientCAFile != "" {
			auth = tls.VerifyClientCertIfGiven
			if t.cfg.RequireClientCert {
				auth = tls.RequireAndVerifyClientCert
			}
			if pool == nil || !bytes.Equal(poolOf, contents[2]) {
				next := x509.NewCertPool()
				if !next.AppendCertsFromPEM(contents[2]) {
					return nil, fmt.Errorf("%s holds no certificate", t.cfg.ClientCAFile)
				}
				// Before any call on them is refused: their clients try again, with the certificates that they have by now.
				t.closeUntrusted(next)
				pool, poolOf = next, contents[2]
			}
			m.clientCAs = pool
		}
		m.server = &tls.Config{
			Certificates: []tls.Certificate{cert},
			ClientCAs:    m.clientCAs,
			ClientAuth:   auth,
			MinVersion:   t.cfg.MinVersion,
			NextProtos:   []string{"h2"},
			// A resumed session would go on with what an earlier handshake has verified. Connections are few and long.
			SessionTicketsDisabled: true,
		}
		return m, nil
	}
}

// NotAfter is when the server's certificate expires.
func (t *TLS) NotAfter() time.Time { return t.files.Load().notAfter }

// Stats counts how often the files were read.
func (t *TLS) Stats() reload.Stats { return t.files.Stats() }

// Run reads the files again, at every interval, until ctx ends, and closes connections whose client certificates do not hold
// any more.
func (t *TLS) Run(ctx context.Context, interval time.Duration) {
	reload.Every(ctx, interval, func() {
		t.Refresh()
		t.closeExpiring(interval + expiryMargin)
	})
}

// Refresh reads the files again, and says in the log what came of it.
func (t *TLS) Refresh() {
	changed, err := t.files.Refresh()
	switch {
	case err != nil:
		t.cfg.Logger.Error("the certificates cannot be used, the last good ones stay", "error", err)
	case changed:
		t.cfg.Logger.Info("certificates replaced", "not_after", t.NotAfter())
		warnOfMode(t.cfg.Logger, t.cfg.KeyFile)
	}
}

func warnOfMode(log *slog.Logger, path string) {
	if reload.OpenToOthers(path) {
		log.Warn("the file is open to every user of this machine", "path", path)
	}
}
