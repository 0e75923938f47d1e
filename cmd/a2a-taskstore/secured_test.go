package main

import (
	"path/filepath"
	"strings"

	"github.com/a2a-taskstore/taskstore/client"
	"github.com/a2a-taskstore/taskstore/server/transport/certtest"
)

// secured is what a store with TLS and one principal is set up with.
type secured struct {
	dir         string
	token       string // and the end of its line in a file
	hash        string // its lines in the credentials file
	credentials string // the file
	serve       []string
}

// secure makes certificates, a token and a credentials file for p, and its clients use them. grants are those of the principal.
func (p *process) secure(principal, grants string) *secured {
	p.t.Helper()
	s := &secured{dir: p.t.TempDir()}
	ca, pair := certtest.New(p.t, "ca"), certtest.NewPair(p.t, "store")
	cert, key := ca.Server(p.t)
	pair.Replace(p.t, cert, key)
	certtest.ReplaceFile(p.t, s.path("ca.pem"), ca.PEM())
	var entry string
	_, s.token, entry = command(p.t, "token", "new")
	certtest.ReplaceFile(p.t, s.path("token"), []byte(s.token))
	_, s.hash, _ = strings.Cut(entry, "\n")
	s.credentials = "principals:\n  - name: " + principal + "\n" + grants + "    access: read-write\n    tokens:\n" + s.hash
	certtest.ReplaceFile(p.t, s.path("credentials.yaml"), []byte(s.credentials))
	config, err := client.TLSFromFiles(s.path("ca.pem"), "", "")
	if err != nil {
		p.t.Fatal(err)
	}
	p.options = []client.Option{client.WithTLS(config), client.WithTokenSource(client.TokenFromFile(s.path("token")))}
	s.serve = []string{"--tls-cert", pair.Cert, "--tls-key", pair.Key, "--credentials-file", s.path("credentials.yaml")}
	return s
}

func (s *secured) path(name string) string { return filepath.Join(s.dir, name) }
