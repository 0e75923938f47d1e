package transport

import (
	"crypto/x509"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// Errors of Peer.Identities.
var (
	// ErrExpired: the certificate, or one that it hangs on, has expired.
	ErrExpired = errors.New("the client's certificate has expired")
	// ErrUntrusted: no client CA vouches for the certificate any more.
	ErrUntrusted = errors.New("the client's certificate is not trusted")

	errUnknownInfo = errors.New("the handshake has no TLS information")
)

// Peer is the other end of a TLS connection. It is the AuthInfo of the connection's calls, and safe for concurrent use.
type Peer struct {
	credentials.TLSInfo
	tls        *TLS
	identities []string
	verified   atomic.Pointer[verification]
}

// verification is what came of verifying the peer's certificate.
type verification struct {
	roots *x509.CertPool // against which it was done
	until time.Time      // ErrExpired from here on
	err   error
}

func newPeer(t *TLS, info credentials.TLSInfo) *Peer {
	p := &Peer{TLSInfo: info, tls: t}
	if chain := info.State.PeerCertificates; len(chain) > 0 {
		p.identities = identitiesOf(chain[0])
	}
	return p
}

// Identities returns the names in the client's certificate: its SPIFFE id as it is, DNS names in lower case behind "dns:".
// Without a certificate there are none. A connection outlives what it began with, so that the certificate is verified again
// when the client CA has been replaced, and its expiry is looked at in every call.
func (p *Peer) Identities(now time.Time) ([]string, error) {
	chain := p.State.PeerCertificates
	if len(chain) == 0 {
		return nil, nil
	}
	roots := p.tls.files.Load().clientCAs
	v := p.verified.Load()
	if v == nil || v.roots != roots {
		v = verify(chain, roots, now)
		p.verified.Store(v)
	}
	switch {
	case v.err != nil:
		return nil, v.err
	case !now.Before(v.until):
		return nil, ErrExpired
	}
	return p.identities, nil
}

func verify(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) *verification {
	v := &verification{roots: roots}
	if roots == nil {
		v.err = ErrUntrusted
		return v
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	chains, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		v.err = ErrUntrusted
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
			v.err = ErrExpired
		}
		return v
	}
	for _, c := range chains { // the one that holds longest
		until := c[0].NotAfter
		for _, cert := range c[1:] {
			if cert.NotAfter.Before(until) {
				until = cert.NotAfter
			}
		}
		if until.After(v.until) {
			v.until = until
		}
	}
	return v
}

// identitiesOf returns the names in a certificate that may stand for a principal.
func identitiesOf(cert *x509.Certificate) []string {
	var names []string
	// A SPIFFE certificate has one URI; one with more is not a SPIFFE certificate, and none of them counts.
	if len(cert.URIs) == 1 && cert.URIs[0].Scheme == "spiffe" {
		names = append(names, cert.URIs[0].String())
	}
	for _, name := range cert.DNSNames {
		names = append(names, "dns:"+strings.ToLower(name))
	}
	return names
}
