package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/a2a-taskstore/taskstore/server/limit"
	"github.com/a2a-taskstore/taskstore/server/reload"
	"github.com/a2a-taskstore/taskstore/server/transport"
)

// Config says whom to believe.
type Config struct {
	// File is the path of the credentials file.
	File string
	// TrustUnix makes calls over a unix socket that come without a token the calls of a principal that may do everything:
	// who may connect is then the business of the socket's mode.
	TrustUnix bool
	// Logger is told when the file was replaced, and when it cannot be used. nil: slog.Default().
	Logger *slog.Logger
	// Now is the clock by which credentials expire. nil: time.Now.
	Now func() time.Time
}

// Authenticator knows the principals. Its methods are safe for concurrent use.
type Authenticator struct {
	cfg  Config
	file *reload.Value[credentials]

	mu    sync.Mutex
	open  map[*watch]struct{}
	ended int64
}

// Open reads the file.
func Open(cfg Config) (*Authenticator, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	file, err := reload.Open(func(contents [][]byte) (*credentials, error) { return parseFile(contents[0]) }, cfg.File)
	if err != nil {
		return nil, err
	}
	a := &Authenticator{cfg: cfg, file: file, open: map[*watch]struct{}{}}
	a.warnOfMode()
	return a, nil
}

// evidence is what a call came with. It never holds the token itself.
type evidence struct {
	hash     Hash
	hasToken bool
	peer     *transport.Peer // nil without TLS
	unix     bool
}

// unixPrincipal makes the calls over a trusted unix socket.
var unixPrincipal = &Principal{Name: "unix:trusted", Grants: Grants{Tenants: []string{"*"}, AnyOwner: true, Write: true}}

// Authenticate returns a session for the call whose context this is. A token decides, right or wrong; a client certificate
// counts for calls without one.
func (a *Authenticator) Authenticate(ctx context.Context) (*Session, error) {
	s := &Session{auth: a}
	if from, ok := peer.FromContext(ctx); ok {
		s.peer, _ = from.AuthInfo.(*transport.Peer)
		s.unix = transport.IsUnix(from.LocalAddr)
	}
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) > 0 {
		hash, err := parseBearer(values)
		if err != nil {
			return nil, err
		}
		s.hash, s.hasToken = hash, true
	}
	p, err := a.resolve(&s.evidence)
	if err != nil {
		return nil, err
	}
	s.Principal = p
	return s, nil
}

// resolve returns whom the evidence proves, as of now.
func (a *Authenticator) resolve(e *evidence) (*Principal, error) {
	known, now := a.file.Load(), a.cfg.Now()
	if e.hasToken {
		entry := known.tokens.find(&e.hash)
		switch {
		case entry == nil:
			return nil, errInvalid
		case !entry.expires.IsZero() && !now.Before(entry.expires):
			return nil, errExpired
		}
		return entry.principal, nil
	}
	if e.peer != nil {
		names, err := e.peer.Identities(now)
		switch {
		case errors.Is(err, transport.ErrExpired):
			return nil, errExpired
		case err != nil:
			return nil, errInvalid
		case len(names) > 0:
			return known.named(names)
		}
	}
	if e.unix && a.cfg.TrustUnix {
		return unixPrincipal, nil
	}
	return nil, errMissing
}

// named returns the one principal that the names in a certificate stand for.
func (c *credentials) named(names []string) (*Principal, error) {
	var found *Principal
	for _, name := range names {
		p := c.identities[name]
		if p != nil && found != nil && p != found {
			return nil, errInvalid // who it is must not depend on the order of names
		}
		if p != nil {
			found = p
		}
	}
	if found == nil {
		return nil, errInvalid
	}
	return found, nil
}

// Run reads the file again, at every interval, and ends the watched calls that are not allowed any more, until ctx ends.
func (a *Authenticator) Run(ctx context.Context, interval time.Duration) {
	reload.Every(ctx, interval, a.Refresh)
}

// Refresh is one step of Run.
func (a *Authenticator) Refresh() {
	changed, err := a.file.Refresh()
	switch {
	case err != nil:
		a.cfg.Logger.Error("the credentials file cannot be used, the last good one stays", "path", a.cfg.File, "error", err)
	case changed:
		a.cfg.Logger.Info("credentials replaced", "path", a.cfg.File, "principals", a.Principals())
		a.warnOfMode()
	}
	// Whether or not the file has changed: credentials expire, and a client CA may have been replaced.
	a.sweep()
}

// TenantLimits are those of a tenant.
func (a *Authenticator) TenantLimits(tenant string) limit.Limits {
	return a.file.Load().limitsOf(tenant)
}

// Principals is how many principals the file names.
func (a *Authenticator) Principals() int { return a.file.Load().principals }

// Stats counts how often the file was read.
func (a *Authenticator) Stats() reload.Stats { return a.file.Stats() }

func (a *Authenticator) warnOfMode() {
	if reload.OpenToOthers(a.cfg.File) {
		a.cfg.Logger.Warn("the credentials file is open to other users of this machine; who can write it can do everything", "path", a.cfg.File)
	}
}
