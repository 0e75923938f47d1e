package server

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/limit"
	"github.com/a2a-taskstore/taskstore/server/metrics"
)

// admission decides whether a server takes on a call, a stream or a connection.
type admission struct {
	limits      Limits
	auth        *auth.Authenticator // nil: there are no principals, and no limits of tenants
	calls       *limit.Counter
	bytes       *limit.Counter
	streams     *limit.Counter
	watches     *limit.Counter // of health, which needs no credential: a number of their own, so that they take nobody's place
	connections *limit.Counter
	frames      *limit.Shares
	reads       chan struct{}
	bulk        *limit.Shares
	table       *limit.Table

	log     *slog.Logger
	seen    *metrics.Server
	counts  *metrics.Calls // of what is refused before it is a call; nil: not counted
	refused occasional
	cut     occasional // connections, for the calls that they waste
}

// concurrentReads bounds how many pages of events are read at once: they are counted in frames only once they are there.
const concurrentReads = 16

// Requests of bulkFrom bytes and more are handed to the store only as long as those there have no more than bulkBytes together:
// that bounds what is in front of a small write on the one way to the disk. A holder's wait for its own share of that first, so
// that of the many that one may send no more than a share, or one that is larger, is in front of another holder's.
const (
	bulkFrom  = 1 << 20
	bulkBytes = 8 << 20
)

// Bounds of Health.Watch streams, of all connections and of one. A client watches the few services that it calls, once for
// each; what is far beyond that would use up everybody's.
const (
	maxWatches        = 1024
	connectionWatches = 16
)

// large is from how many bytes on requests and responses are counted. Smaller ones are bounded by the number of calls.
const large = 64 << 10

func newAdmission(cfg *Config, seen *metrics.Server) *admission {
	l := cfg.Limits
	return &admission{
		limits:      l,
		auth:        cfg.Auth,
		calls:       limit.NewCounter(int64(l.Calls)),
		bytes:       limit.NewCounter(l.CallBytes),
		streams:     limit.NewCounter(int64(l.Streams)),
		watches:     limit.NewCounter(maxWatches),
		connections: limit.NewCounter(int64(l.Connections)),
		frames:      limit.NewShares(l.StreamBytes),
		reads:       make(chan struct{}, concurrentReads),
		bulk:        limit.NewShares(bulkBytes),
		table:       limit.NewTable(),
		log:         cfg.Logger,
		seen:        seen,
	}
}

// listener bounds the connections of a listener.
func (a *admission) listener(l net.Listener) net.Listener {
	return &limit.Listener{Listener: l, Connections: a.connections, Refused: func(net.Addr) {
		a.seen.ConnectionsRefused.Inc()
		a.note()
	}}
}

// note counts what a limit refused, and says so in the log.
func (a *admission) note() {
	if total, due := a.refused.count(); due {
		a.log.Warn("limits refuse calls or connections", "refused_since_start", total)
	}
}

// occasional counts what is logged at most every ten seconds: a line for each would make an overload worse.
type occasional struct {
	total, logged atomic.Int64 // logged: when, in Unix nanoseconds
}

// count counts one more, and reports how many there are by now, and whether to log it.
func (o *occasional) count() (total int64, due bool) {
	now, last := time.Now().UnixNano(), o.logged.Load()
	return o.total.Add(1), now-last >= int64(10*time.Second) && o.logged.CompareAndSwap(last, now)
}

// unary admits a unary call whose request is there. leave, below, undoes it.
func (a *admission) unary(c *call) error {
	if !a.calls.Take(1) {
		return limit.Refuse(limit.ErrOverloaded, limit.OfServer, "calls", "the server has too many calls in hand", retryDelay)
	}
	c.slot = true
	return nil
}

// arrive bounds the unary calls of a connection, and their time, from their headers on: gRPC receives the request before it
// asks anybody else. It cancels the context that it gives when the call ends, and with that the one that is returned.
func (a *admission) arrive(ctx context.Context, info *tap.Info) (context.Context, error) {
	in := &arrival{Context: ctx}
	if err := a.begin(in, info); err != nil {
		return ctx, err
	}
	if !unaryMethods[info.FullMethodName] {
		return ctx, nil
	}
	timeout := a.limits.MaxTimeout
	given, bounded := ctx.Deadline()
	if !bounded {
		timeout, in.hidden = a.limits.DefaultTimeout, true
	}
	if !bounded || time.Until(given) > timeout {
		limited, cancel := context.WithTimeout(ctx, timeout)
		_ = cancel // ctx's does it
		in.Context = limited
	}
	return in, nil
}

// arrival is the context of a unary call from its headers on.
type arrival struct {
	context.Context
	// conn has the call in hand; nil: none.
	conn *limit.Conn
	call limit.Call
	// hidden is set if there is a deadline that the caller did not give: a store treats callers that gave none as it sees fit, and
	// must not take the server's for theirs.
	hidden bool
}

type arrivalKey struct{}

func (a *arrival) Value(key any) any {
	if key == (arrivalKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// Deadline is the one that the caller gave, or an earlier one.
func (a *arrival) Deadline() (time.Time, bool) {
	if a.hidden {
		return time.Time{}, false
	}
	return a.Context.Deadline()
}

// stream admits a stream, or a Get that wants to wait.
func (a *admission) stream(c *call) error {
	conn, streams := c.connection(), a.streams
	watch := strings.HasPrefix(c.method, healthMethods)
	if watch {
		streams = a.watches
	}
	if !streams.Take(1) {
		return errStreams(limit.OfServer)
	}
	c.streams = streams
	if conn != nil {
		open, most := &conn.Streams, a.limits.ConnectionStreams
		if watch {
			open, most = &conn.Watches, connectionWatches
		}
		if open.Add(1) > int64(most) {
			open.Add(-1)
			return errStreams(limit.OfConnection)
		}
		c.onConn = open
	}
	return a.each(c, a.openStream)
}

func errStreams(scope limit.Scope) error {
	return limit.Refuse(limit.ErrStreams, scope, "open_streams", "too many open streams of this "+string(scope), streamRetryDelay)
}

// streamRetryDelay is longer than that of calls: streams last.
const streamRetryDelay = time.Second

func (a *admission) openStream(c *call, s limit.Subject, l limit.Limits) error {
	release, err := a.table.OpenStream(s, l)
	if err == nil && l.OpenStreams > 0 {
		c.releases = append(c.releases, release)
	}
	return err
}

// each calls f with the limits of the call's principal and, once it is known, tenant.
func (a *admission) each(c *call, f func(*call, limit.Subject, limit.Limits) error) error {
	if c.session != nil {
		if p := c.session.Principal; p.Limits != (limit.Limits{}) {
			if err := f(c, limit.Subject{Scope: limit.OfPrincipal, Name: p.Name}, p.Limits); err != nil {
				return err
			}
		}
	}
	return a.ofTenant(c, f)
}

func (a *admission) ofTenant(c *call, f func(*call, limit.Subject, limit.Limits) error) error {
	if c.tenantLimits == (limit.Limits{}) {
		return nil
	}
	return f(c, limit.Subject{Scope: limit.OfTenant, Name: c.tenant}, c.tenantLimits)
}

func (a *admission) request(_ *call, s limit.Subject, l limit.Limits) error {
	return a.table.Request(s, l)
}

// authenticated counts a call of a principal that is known by now.
func (a *admission) authenticated(c *call) error { return a.each(c, a.request) }

// received counts a request that may be handled, and has a large one wait for its turn: it is decoded, and allowed. Before, its
// tenant is only what somebody says.
func (a *admission) received(c *call, tenant string, size int, stream bool) error {
	if a.auth != nil {
		c.tenant, c.tenantLimits = tenant, a.auth.TenantLimits(tenant)
	}
	if err := a.ofTenant(c, a.request); err != nil {
		return err
	}
	if stream {
		if err := a.ofTenant(c, a.openStream); err != nil {
			return err
		}
	}
	a.moved(c, size)
	if size < large {
		return nil
	}
	if !a.bytes.Take(int64(size)) {
		return errBytes()
	}
	c.bytes = int64(size)
	if size >= bulkFrom {
		turn := a.bulk.Open(c.holder())
		if err := turn.Take(c, c.bytes); err != nil {
			turn.Close()
			return err
		}
		c.turn = turn
	}
	return nil
}

func errBytes() error {
	return limit.Refuse(limit.ErrOverloaded, limit.OfServer, "bytes", "the server has too many bytes in hand", retryDelay)
}

// moved counts bytes of a principal and a tenant, and returns how long they are above their rates.
func (a *admission) moved(c *call, n int) (wait time.Duration) {
	_ = a.each(c, func(_ *call, s limit.Subject, l limit.Limits) error {
		wait = max(wait, a.table.Bytes(s, l, n))
		return nil
	})
	return wait
}

// metered reports whether somebody counts the bytes of a call.
func (c *call) metered() bool {
	return c.tenantLimits.BytesPerSecond > 0 || c.session != nil && c.session.Principal.Limits.BytesPerSecond > 0
}

// respond counts a response that weighs so much, until its caller has taken it, or refuses to make it. The answers of writes
// are small: only reads can be refused here.
func (a *admission) respond(c *call, weight int) error {
	if weight < large {
		return nil
	}
	if !a.bytes.Take(int64(weight)) {
		return errBytes()
	}
	c.response = c.connection().Hold(func() { a.bytes.Give(int64(weight)) })
	return nil
}

// wait makes a unary call one that waits: it counts as a stream from now on, and not as a call.
func (a *admission) wait(c *call) error {
	if err := a.stream(c); err != nil {
		return err
	}
	if c.slot {
		c.slot = false
		a.calls.Give(1)
	}
	c.leaveConnection()
	return nil
}

// leave gives back what a call has taken, whether or not it was admitted.
func (a *admission) leave(c *call) {
	if c.slot {
		a.calls.Give(1)
	}
	if c.turn != nil {
		c.turn.Give(c.bytes)
		c.turn.Close()
	}
	if c.bytes > 0 {
		a.bytes.Give(c.bytes)
	}
	if c.streams != nil {
		c.streams.Give(1)
	}
	if c.onConn != nil {
		c.onConn.Add(-1)
	}
	c.leaveConnection()
	for _, release := range c.releases {
		release()
	}
}

// connection is what the call came on.
func (c *call) connection() *limit.Conn { return connection(c.Context) }

func connection(ctx context.Context) *limit.Conn {
	if from, ok := peer.FromContext(ctx); ok {
		conn, _ := from.Addr.(*limit.Conn)
		return conn
	}
	return nil
}

// outlive is when a stream on a connection must end so that callers resume on another: never (false), or once gRPC has told
// them, which it does a tenth early or late.
func (a *admission) outlive(c *call) (time.Time, bool) {
	conn := c.connection()
	if a.limits.ConnectionAge <= 0 || conn == nil {
		return time.Time{}, false
	}
	return conn.Began.Add(a.limits.ConnectionAge + a.limits.ConnectionAge/10 + a.limits.ConnectionAgeGrace/2), true
}
