package main

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/transport"
)

// accessFlags say who may connect and call, and over what.
type accessFlags struct {
	TLS             tlsFlags      `embed:"" prefix:"tls-"`
	CredentialsFile string        `help:"File (YAML) of the principals that may call, with the hashes of their tokens, the names in their certificates, and their grants. Without it, whoever can connect may do everything." type:"path" placeholder:"FILE"`
	UnixSocketMode  fileMode      `help:"Mode of the unix socket: who may connect." default:"0600"`
	TrustUnixSocket bool          `help:"Let whoever connects to the unix socket do everything, without a credential. Otherwise --credentials-file holds there, too."`
	ReloadInterval  time.Duration `help:"How often the files of certificates and credentials are read again. Streams of a principal that was removed end within this time." default:"2s"`
}

// tlsFlags name the files of certificates.
type tlsFlags struct {
	Cert              string `help:"Certificate of the server, followed by intermediates (PEM). TLS is then spoken on the TCP address." type:"path" placeholder:"FILE"`
	Key               string `help:"Its key (PEM)." type:"path" placeholder:"FILE"`
	ClientCA          string `help:"Authorities whose client certificates are accepted (PEM)." type:"path" placeholder:"FILE"`
	RequireClientCert bool   `help:"Refuse connections without a client certificate."`
	MinVersion        string `help:"Oldest version of TLS that is spoken: 1.2 or 1.3." enum:"1.2,1.3" default:"1.3"`
}

// check finds wrong configuration. insecure lets everything be reached by everybody.
func (f *accessFlags) check(listen string, insecure bool) error {
	switch {
	case (f.TLS.Cert == "") != (f.TLS.Key == ""):
		return usagef("--tls-cert and --tls-key go together")
	case f.TLS.Cert == "" && (f.TLS.ClientCA != "" || f.TLS.RequireClientCert):
		return usagef("--tls-client-ca and --tls-require-client-cert need --tls-cert and --tls-key")
	case f.TLS.RequireClientCert && f.TLS.ClientCA == "":
		return usagef("--tls-require-client-cert needs --tls-client-ca")
	case f.TrustUnixSocket && f.CredentialsFile == "":
		return usagef("--trust-unix-socket is an exception from --credentials-file, which is not given")
	case f.ReloadInterval <= 0 || f.ReloadInterval > maxReloadInterval:
		return usagef("--reload-interval must be positive, and at most %s", maxReloadInterval)
	case insecure:
		return nil
	case isExposed(listen) && (f.TLS.Cert == "" || f.CredentialsFile == ""):
		return usagef("--listen: %s is not a loopback address: give --tls-cert, --tls-key and --credentials-file, or --insecure if the network is trusted", listen)
	case f.UnixSocketMode&0o007 != 0 && (f.CredentialsFile == "" || f.TrustUnixSocket):
		return usagef("--unix-socket-mode %s lets every user of the machine do everything: leave it to a group, or ask for credentials, or give --insecure", f.UnixSocketMode)
	}
	return nil
}

// maxReloadInterval keeps the promise that what was revoked is closed within 30 s.
const maxReloadInterval = 20 * time.Second

// isExposed reports whether others than this machine may reach a TCP address.
func isExposed(address string) bool {
	if address == "" {
		return false
	}
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// apply opens the files, and puts what they say into the configuration of a server.
func (f *accessFlags) apply(cfg *server.Config) (err error) {
	cfg.ReloadInterval = f.ReloadInterval
	if f.TLS.Cert != "" {
		version := uint16(tls.VersionTLS13)
		if f.TLS.MinVersion == "1.2" {
			version = tls.VersionTLS12
		}
		cfg.TLS, err = transport.Open(transport.Config{
			CertFile: f.TLS.Cert, KeyFile: f.TLS.Key, ClientCAFile: f.TLS.ClientCA,
			RequireClientCert: f.TLS.RequireClientCert, MinVersion: version, Logger: cfg.Logger,
		})
		if err != nil {
			return usagef("the certificates cannot be used: %w", err)
		}
	}
	if f.CredentialsFile != "" {
		cfg.Auth, err = auth.Open(auth.Config{File: f.CredentialsFile, TrustUnix: f.TrustUnixSocket, Logger: cfg.Logger})
		if err != nil {
			return usagef("--credentials-file %s: %w", f.CredentialsFile, err)
		}
	}
	return nil
}

// warn says what --insecure allows.
func (f *accessFlags) warn(log *slog.Logger, listen string) {
	if !isExposed(listen) {
		return
	}
	if f.CredentialsFile == "" {
		log.Warn("no authentication: whoever reaches the address may read and write everything", "address", listen)
	}
	if f.TLS.Cert == "" {
		log.Warn("no TLS: whoever is on the way can read everything, and the tokens of callers", "address", listen)
	}
}

// fileMode is the permissions of a file, in octal.
type fileMode fs.FileMode

// UnmarshalText parses a mode such as 0660. Execution means nothing for a socket, and is refused as a mistake.
func (m *fileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 9)
	if err != nil || n&0o111 != 0 {
		return fmt.Errorf("%q is not a mode such as 0660: three octal digits, nobody executes", text)
	}
	*m = fileMode(n)
	return nil
}

func (m fileMode) String() string { return fmt.Sprintf("%#o", uint32(m)) }
