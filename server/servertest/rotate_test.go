package servertest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/client"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/transport"
	"github.com/a2a-taskstore/taskstore/server/transport/certtest"
)

// secured is a server that speaks TLS on loopback.
type secured struct {
	address      string
	tls          *transport.TLS
	auth         *auth.Authenticator
	serverPair   certtest.Pair
	clientCAFile string
	authFile     string
}

// serveTLS serves a store in memory with the certificates and credentials that its files get first.
func serveTLS(t *testing.T, serverCA, clientCA *certtest.Authority, credentials string) *secured {
	t.Helper()
	dir := t.TempDir()
	s := &secured{
		serverPair:   certtest.NewPair(t, "server"),
		clientCAFile: filepath.Join(dir, "clients.pem"),
		authFile:     filepath.Join(dir, "credentials.yaml"),
	}
	cert, key := serverCA.Server(t)
	s.serverPair.Replace(t, cert, key)
	certtest.ReplaceFile(t, s.clientCAFile, clientCA.PEM())
	certtest.ReplaceFile(t, s.authFile, []byte(credentials))
	log := slog.New(slog.DiscardHandler)
	var err error
	s.tls, err = transport.Open(transport.Config{
		CertFile: s.serverPair.Cert, KeyFile: s.serverPair.Key, ClientCAFile: s.clientCAFile, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.auth, err = auth.Open(auth.Config{File: s.authFile, Logger: log}); err != nil {
		t.Fatal(err)
	}
	store, err := memory.Open(memory.Config{MaxBytes: 1 << 30, Limits: backend.Limits{TaskBytes: server.TaskBytes(0)}})
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(store, server.Config{Logger: log, TLS: s.tls, Auth: s.auth, ReloadInterval: soon, SweepInterval: -1})
	lis := listenLoopback(t)
	s.address = lis.Addr().String()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(srv.Shutdown(ctx), <-served, store.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

// reloaded does something to the files of certificates, and returns when the server has noticed.
func (s *secured) reloaded(t *testing.T, change func()) {
	t.Helper()
	loads := s.tls.Stats().Loads
	change()
	waitUntil(t, func() bool { return s.tls.Stats().Loads > loads && !s.tls.Stats().Failing })
}

// credentials replaces the credentials file, and returns when the server has noticed.
func (s *secured) credentials(t *testing.T, text string) {
	t.Helper()
	loads := s.auth.Stats().Loads
	certtest.ReplaceFile(t, s.authFile, []byte(text))
	waitUntil(t, func() bool { return s.auth.Stats().Loads > loads })
}

// serial connects, and returns the serial number of the server's certificate.
func (s *secured) serial(t *testing.T, config *tls.Config) *big.Int {
	t.Helper()
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", s.address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber
}

// dial returns a client that tries for as long as the test waits, so that a call fails by what the server says, not because the
// machine has no time for it.
func (s *secured) dial(t *testing.T, options ...client.Option) *client.Client {
	t.Helper()
	standard := []client.Option{client.WithBackoff(time.Millisecond, 10*time.Millisecond), client.WithRetryBudget(patience)}
	c, err := client.Dial(s.address, append(standard, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// load keeps saving and reading a task, until the end of the test or the first error.
type load struct {
	client *client.Client
	task   string
	calls  atomic.Int64
	ended  chan error
}

func startLoad(ctx context.Context, wg *sync.WaitGroup, c *client.Client, task string) *load {
	l := &load{client: c, task: task, ended: make(chan error, 1)}
	wg.Go(func() {
		for ctx.Err() == nil {
			save := saveRequest(l.task)
			save.Scope = &pb.Scope{Tenant: theTenant}
			_, err := c.Save(ctx, save)
			if err == nil {
				_, err = c.Get(ctx, &pb.GetRequest{Scope: save.Scope, TaskId: l.task})
			}
			if err != nil && ctx.Err() == nil {
				l.ended <- err
				return
			}
			l.calls.Add(1)
		}
	})
	return l
}

// goesOn fails the test unless more calls succeed.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	from := l.calls.Load()
	waitUntil(t, func() bool { return l.calls.Load() > from+2 || len(l.ended) > 0 })
	if len(l.ended) > 0 {
		err := <-l.ended
		t.Fatalf("load on %s fails: %v", l.task, err)
	}
}

// TestRotationUnderLoad replaces everything that can be replaced while callers go on who have the new in time, and takes away
// what others have.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	const grants = `tenants: [acme], any_owner: true, access: read-write`
	const spiffe = "spiffe://example.org/agent"
	serverCA, oldCA, newCA := certtest.New(t, "servers"), certtest.New(t, "old clients"), certtest.New(t, "new clients")
	first, second, victim := newCredential("tokens", grants), newCredential("tokens", grants), newCredential("victim", grants)
	withCertificates := func(entries ...*credential) string {
		return credentialsFile(entries...) + fmt.Sprintf("  - {name: certificates, certificates: [{spiffe: %q}], %s}\n", spiffe, grants)
	}
	s := serveTLS(t, serverCA, oldCA, withCertificates(first, victim))
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	certtest.ReplaceFile(t, caFile, serverCA.PEM())
	plainTLS, err := client.TLSFromFiles(caFile, "", "")
	if err != nil {
		t.Fatal(err)
	}
	agent, stale := certtest.NewPair(t, "agent"), certtest.NewPair(t, "stale")
	agentCert, agentKey := oldCA.Client(t, spiffe)
	agent.Replace(t, agentCert, agentKey)
	stale.Replace(t, agentCert, agentKey)
	mutualTLS, err := client.TLSFromFiles(caFile, agent.Cert, agent.Key)
	if err != nil {
		t.Fatal(err)
	}
	staleTLS, err := client.TLSFromFiles(caFile, stale.Cert, stale.Key)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var token atomic.Pointer[string]
	token.Store(&first.token)
	byToken := s.dial(t, client.WithTLS(plainTLS), client.WithTokenSource(func(context.Context) (string, error) { return *token.Load(), nil }))
	byOldToken := s.dial(t, client.WithTLS(plainTLS), client.WithToken(first.token))
	loads := []*load{
		startLoad(ctx, &wg, byToken, "by token"),
		startLoad(ctx, &wg, s.dial(t, client.WithTLS(mutualTLS)), "by certificate"),
	}
	goOn := func() {
		t.Helper()
		for _, l := range loads {
			l.goesOn(t)
		}
	}
	victims := startLoad(ctx, &wg, s.dial(t, client.WithTLS(plainTLS), client.WithToken(victim.token)), "by the victim")
	// Its handshakes fail in the end, which a client takes for an outage and sits out.
	stales := startLoad(ctx, &wg, s.dial(t, client.WithTLS(staleTLS), client.WithRetryBudget(patience/6)), "by an old certificate")
	goOn()
	victims.goesOn(t)
	stales.goesOn(t)

	// Follows that last through all of it.
	var followed, followedVictim = startFollow(ctx, &wg, byToken, "by token"), startFollow(ctx, &wg, victims.client, "by the victim")

	// The server's certificate.
	cert, key := serverCA.Server(t)
	s.reloaded(t, func() { s.serverPair.Replace(t, cert, key) })
	if got := s.serial(t, plainTLS); got.Cmp(cert.SerialNumber) != 0 {
		t.Errorf("a new connection sees certificate %v, want %v", got, cert.SerialNumber)
	}
	goOn()

	// A certificate that cannot be used changes nothing.
	failures := s.tls.Stats().Failures
	certtest.ReplaceFile(t, s.serverPair.Cert, []byte("rubbish"))
	waitUntil(t, func() bool { return s.tls.Stats().Failures > failures })
	if got := s.serial(t, plainTLS); got.Cmp(cert.SerialNumber) != 0 {
		t.Errorf("a new connection sees certificate %v, want the last good one, %v", got, cert.SerialNumber)
	}
	s.reloaded(t, func() { s.serverPair.Replace(t, cert, key) })
	goOn()

	// A token: both count, the callers change over, the old one goes.
	both := *first
	both.hash = first.hash + `"}, {hash: "` + second.hash
	s.credentials(t, withCertificates(&both, victim))
	token.Store(&second.token)
	goOn()
	s.credentials(t, withCertificates(second, victim))
	goOn()
	if _, err := byOldToken.Get(ctx, &pb.GetRequest{Scope: &pb.Scope{Tenant: theTenant}, TaskId: "by token"}); !errors.Is(err, client.ErrUnauthenticated) {
		t.Errorf("the old token: %v", err)
	}
	followed.goesOn(t)

	// The authority of client certificates, in the same three steps.
	s.reloaded(t, func() { certtest.ReplaceFile(t, s.clientCAFile, append(oldCA.PEM(), newCA.PEM()...)) })
	goOn()
	agentCert, agentKey = newCA.Client(t, spiffe)
	agent.Replace(t, agentCert, agentKey)
	goOn()
	stales.goesOn(t)
	s.reloaded(t, func() { certtest.ReplaceFile(t, s.clientCAFile, newCA.PEM()) })
	goOn()
	select {
	case err := <-stales.ended:
		if !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrUnauthenticated) {
			t.Errorf("with a certificate of the old authority: %v", err)
		}
	case <-time.After(patience):
		t.Error("a certificate of the old authority still counts")
	}

	// A principal.
	s.credentials(t, withCertificates(second))
	for what, ended := range map[string]chan error{"calls": victims.ended, "follow": followedVictim.ended} {
		select {
		case err := <-ended:
			if !errors.Is(err, client.ErrUnauthenticated) {
				t.Errorf("the victim's %s: %v", what, err)
			}
		case <-time.After(patience):
			t.Errorf("the victim's %s go on", what)
		}
	}
	goOn()
	followed.goesOn(t)
	s.credentials(t, strings.ReplaceAll(withCertificates(second), spiffe, "spiffe://example.org/other"))
	select {
	case err := <-loads[1].ended:
		if !errors.Is(err, client.ErrUnauthenticated) {
			t.Errorf("calls with a certificate that stands for nobody: %v", err)
		}
	case <-time.After(patience):
		t.Error("a certificate that stands for nobody counts")
	}
	loads[0].goesOn(t)
}

// startFollow follows the log of a load, and checks that nothing is missing.
func startFollow(ctx context.Context, wg *sync.WaitGroup, c *client.Client, task string) *load {
	l := &load{client: c, task: task, ended: make(chan error, 1)}
	wg.Go(func() {
		var last int64
		for event, err := range c.Follow(ctx, &pb.ReadEventsRequest{
			Scope: &pb.Scope{Tenant: theTenant}, TaskId: task, Until: pb.ReadUntil_READ_UNTIL_FOREVER,
			Start: &pb.ReadEventsRequest_FromNow{FromNow: &emptypb.Empty{}},
		}) {
			if err == nil && last != 0 && event.GetSeq() != last+1 {
				err = fmt.Errorf("seq %d behind %d", event.GetSeq(), last)
			}
			if err != nil {
				if ctx.Err() == nil {
					l.ended <- err
				}
				return
			}
			last = event.GetSeq()
			l.calls.Add(1)
		}
	})
	return l
}
