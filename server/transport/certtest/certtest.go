// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority of its own.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{key: newKey(t)}
	a.cert = sign(t, template, template, &a.key.PublicKey, a.key)
	return a
}

// PEM encodes the authority's certificate.
func (a *Authority) PEM() []byte { return encodePEM("CERTIFICATE", a.cert.Raw) }

// Server issues a certificate for a server on loopback.
func (a *Authority) Server(t testing.TB) (cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	return a.Issue(t, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client issues a certificate for the client of a SPIFFE id.
func (a *Authority) Client(t testing.TB, id string) (cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	uri, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return a.Issue(t, &x509.Certificate{URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Issue issues a certificate of a template: good from an hour ago, and for an hour unless the template says otherwise.
func (a *Authority) Issue(t testing.TB, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := newKey(t)
	return sign(t, template, a.cert, &key.PublicKey, a.key), key
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Pair is a certificate and its key, in files.
type Pair struct{ Cert, Key string }

// NewPair names two files that do not exist yet, in a directory of the test.
func NewPair(t testing.TB, name string) Pair {
	t.Helper()
	dir := t.TempDir()
	return Pair{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
}

// Replace writes other contents into the files.
func (p Pair) Replace(t testing.TB, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ReplaceFile(t, p.Key, encodePEM("PRIVATE KEY", der))
	ReplaceFile(t, p.Cert, encodePEM("CERTIFICATE", cert.Raw))
}

// ReplaceFile puts a new file in the place of the old one, as a whole.
func ReplaceFile(t testing.TB, path string, content []byte) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}
