package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// WithTLS secures connections with TLS; nil is a config without settings, which trusts the system's authorities. See
// [TLSFromFiles] for one that presents a client certificate.
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.transport = credentials.NewTLS(config) }
}

// WithToken sends "authorization: Bearer <token>" with every call; "" sends none. It travels in plain text only where [Dial]
// connects in plain text: to loopback and unix targets, and with [WithInsecure].
func WithToken(token string) Option {
	return func(o *options) {
		o.token = nil
		if token != "" {
			o.token = func(context.Context) (string, error) { return token, nil }
		}
	}
}

// TokenSource returns the token to send with a call. It is asked in every call, by many goroutines at once. A call for which
// it fails is not made, and ends with [ErrUnauthenticated].
type TokenSource func(ctx context.Context) (string, error)

// WithTokenSource is [WithToken] for tokens that are replaced. When the store ends a [Client.Follow] because its token does
// not count any more, the follow goes on once with what the source then says.
func WithTokenSource(source TokenSource) Option {
	return func(o *options) {
		o.require(source != nil, "the token source is nil")
		o.token = source
	}
}

// tokenAge is how old what a file said may be. It is short beside the time for which a store takes both the old and the new
// token.
const tokenAge = 5 * time.Second

// TokenFromFile returns a source that reads the token from a file, white space around it aside, and reads it again every few
// seconds. When that fails, or the file does not hold one token, the last token is used.
func TokenFromFile(path string) TokenSource {
	var mu sync.Mutex
	var token string
	var at time.Time
	return func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if token != "" && time.Since(at) < tokenAge {
			return token, nil
		}
		next, err := readToken(path)
		switch {
		case err == nil:
			token = next
		case token == "":
			return "", fmt.Errorf("no token: %w", err)
		}
		at = time.Now()
		return token, nil
	}
}

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	switch {
	case token == "":
		return "", fmt.Errorf("%s is empty", path)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }): // what no header may hold
		return "", fmt.Errorf("%s must hold one token and nothing else, in one line of ASCII", path)
	}
	return token, nil
}

// TLSFromFiles makes a config of PEM files. caFile holds the authorities that the store's certificate is checked against; ""
// is the system's. certFile and keyFile hold the certificate that this client presents; both are "" if it has none. They are
// read again for every connection, so that a certificate which is renewed in its files is used for the next one.
func TLSFromFiles(caFile, certFile, keyFile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", caFile)
		}
	}
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("a client certificate needs both its certificate and its key")
	}
	if certFile == "" {
		return config, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		return &cert, nil
	}
	if _, err := load(nil); err != nil {
		return nil, err
	}
	config.GetClientCertificate = load
	return config, nil
}

// bearer sends tokens.
type bearer struct {
	source   TokenSource
	needsTLS bool
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.source(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.needsTLS }
