package servertest

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
	"path/filepath"
	"testing"
	"time"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{key: newKey(t)}
	a.cert = sign(t, template, template, &a.key.PublicKey, a.key)
	return a
}

// pem encodes the authority's certificate.
func (a *authority) pem() []byte { return encodePEM("CERTIFICATE", a.cert.Raw) }

// server issues a certificate for a server on loopback.
func (a *authority) server(t *testing.T) (cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	return a.issue(t, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// client issues a certificate for the client of a SPIFFE id.
func (a *authority) client(t *testing.T, id string) (cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	uri, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return a.issue(t, &x509.Certificate{URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func (a *authority) issue(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := newKey(t)
	return sign(t, template, a.cert, &key.PublicKey, a.key), key
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate of a template, good from an hour ago, and for an hour unless the template says otherwise.
func sign(t *testing.T, template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) *x509.Certificate {
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

// pair is a certificate and its key, in files.
type pair struct{ cert, key string }

func newPair(t *testing.T, name string) pair {
	t.Helper()
	dir := t.TempDir()
	return pair{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
}

// replace writes other contents into the files.
func (p pair) replace(t *testing.T, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, p.key, encodePEM("PRIVATE KEY", der))
	replaceFile(t, p.cert, encodePEM("CERTIFICATE", cert.Raw))
}
