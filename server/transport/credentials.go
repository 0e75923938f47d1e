package transport

import (
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// Credentials are the server's side of connections: TLS, except on unix sockets.
func (t *TLS) Credentials() credentials.TransportCredentials {
	return &serverCredentials{
		TransportCredentials: credentials.NewTLS(&tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.files.Load().server, nil },
			MinVersion:         t.cfg.MinVersion,
		}),
		tls: t,
	}
}

type serverCredentials struct {
	credentials.TransportCredentials
	tls *TLS
}

// ServerHandshake returns a Peer as the AuthInfo of TLS connections.
func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if IsUnix(raw.LocalAddr()) {
		return raw, localInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
	}
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	tlsInfo, ok := info.(credentials.TLSInfo)
	if !ok { // gRPC has changed
		_ = conn.Close()
		return nil, nil, errUnknownInfo
	}
	p := newPeer(c.tls, tlsInfo)
	if len(p.State.PeerCertificates) == 0 {
		return conn, p, nil
	}
	return c.tls.certified(conn, raw, p), p, nil
}

func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{c.TransportCredentials.Clone(), c.tls}
}

// IsUnix reports whether an address is of a unix socket.
func IsUnix(addr net.Addr) bool { return addr != nil && addr.Network() == "unix" }

// localInfo is the AuthInfo of connections that do not leave the machine.
type localInfo struct{ credentials.CommonAuthInfo }

func (localInfo) AuthType() string { return "unix" }
