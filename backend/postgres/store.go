package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/a2a-taskstore/taskstore/backend"
)

// StatementMode is how statements are sent.
type StatementMode string

// The modes.
const (
	// Prepared prepares each statement once per connection, and has the planner keep one plan for it. The fastest; it needs
	// connections of its own.
	Prepared StatementMode = "prepared"
	// Describe asks once for the types of a statement, and sends it without a name: for poolers that share connections
	// between transactions, such as PgBouncer.
	Describe StatementMode = "describe"
	// Exec infers the types from the arguments: for poolers that cannot even describe.
	Exec StatementMode = "exec"
)

// Config configures a Store. The zero value of each field but DSN is its default.
type Config struct {
	// DSN is a URL or a list of keywords and values, as libpq takes them; several hosts and target_session_attrs too.
	DSN string
	// MaxConns bounds the connections of this Store: for committers, reads and the listener. 0 is 10.
	MaxConns int
	// Committers is how many batches may be on their way at once. 0 is 2.
	Committers int
	// StatementMode is how statements are sent. "" is Prepared.
	StatementMode StatementMode
	// PollOnly does without NOTIFY and LISTEN, which poolers and some engines do not offer.
	PollOnly bool
	// PollInterval is what the Store's PollInterval returns. 0 is 250 ms.
	PollInterval time.Duration
	// Migrate brings the schema up to date when the Store is opened.
	Migrate bool
	// Limits are what writes are checked against.
	Limits backend.Limits
	// Now replaces the database's clock, in tests.
	Now func() time.Time
	// Logger gets what has no caller. nil discards it.
	Logger *slog.Logger
	// Tracer, unless nil, follows the statements.
	Tracer Tracer
}

// The bounds of the pools.
const (
	defaultMaxConns     = 10
	defaultCommitters   = 2
	defaultPollInterval = 250 * time.Millisecond
	connectTimeout      = 5 * time.Second
	connLifetime        = time.Hour
	connLifetimeJitter  = 10 * time.Minute
	connIdleTime        = 10 * time.Minute
)

// A query that its caller has left is asked to end after cancelDelay (most have by then), and its connection is given up
// only if that has not helped within cancelPatience.
const (
	cancelDelay    = 100 * time.Millisecond
	cancelPatience = 3 * time.Second
)

// Store is a backend.Store in PostgreSQL.
type Store struct {
	cfg    Config
	schema int64 // its version
	clock  *clock
	writes *pgxpool.Pool // of the committers
	reads  *pgxpool.Pool

	committers []*committer
	seed       maphash.Seed
	watchers   backend.Watchers
	hints      *hints // nil with PollOnly

	background sync.WaitGroup
	cancel     context.CancelFunc // ends listener and notifier
	committing sync.WaitGroup

	mu     sync.RWMutex
	closed bool
	calls  sync.WaitGroup
}

var _ backend.Store = (*Store)(nil)

// ErrConfig is the error of Open and Migrate for a configuration that is wrong whatever the database is.
var ErrConfig = errors.New("wrong configuration of the postgres backend")

// Open connects to the database, migrates it if asked to, and returns a Store. A *SchemaError says that the schema does not
// fit. ctx bounds Open only.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	parsed, err := parseDSN(cfg.DSN)
	if err != nil {
		return nil, err
	}
	schema, err := prepareSchema(ctx, parsed.ConnConfig, &cfg)
	if err != nil {
		return nil, err
	}

	s := &Store{cfg: cfg, schema: schema, clock: &clock{own: cfg.Now}, seed: maphash.MakeSeed()}
	reserved := cfg.Committers
	if !cfg.PollOnly {
		reserved++
	}
	if s.writes, err = newPool(parsed, &cfg, cfg.Committers, nil); err != nil {
		return nil, err
	}
	if s.reads, err = newPool(parsed, &cfg, cfg.MaxConns-reserved, cancelQuery); err != nil {
		s.writes.Close()
		return nil, err
	}
	if err := s.measureClock(ctx); err != nil {
		s.reads.Close()
		s.writes.Close()
		return nil, fmt.Errorf("postgres: connecting: %w", err)
	}

	run, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if !cfg.PollOnly {
		listen := parsed.ConnConfig.Copy()
		s.hints = newHints(s.reads, listen, &s.watchers, cfg.Logger)
		s.background.Go(func() { s.hints.notify(run) })
		s.background.Go(func() { s.hints.listen(run) })
	}
	for range cfg.Committers {
		c := newCommitter(s.writes, s.clock, s.changed)
		c.tracer = cfg.Tracer
		s.committers = append(s.committers, c)
		s.committing.Go(c.run)
	}
	return s, nil
}

// complete fills in the defaults.
func (c *Config) complete() error {
	if c.MaxConns == 0 {
		c.MaxConns = defaultMaxConns
	}
	if c.Committers == 0 {
		c.Committers = defaultCommitters
	}
	if c.PollInterval == 0 {
		c.PollInterval = defaultPollInterval
	}
	if c.StatementMode == "" {
		c.StatementMode = Prepared
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch c.StatementMode {
	case Prepared, Describe, Exec:
	default:
		return fmt.Errorf("%w: unknown statement mode %q", ErrConfig, c.StatementMode)
	}
	if least := c.Committers + 2; c.Committers < 1 || c.MaxConns < least {
		return fmt.Errorf("%w: %d committers need at least %d connections", ErrConfig, c.Committers, least)
	}
	return nil
}

// prepareSchema returns the version of the schema, which is the one that this program works with.
func prepareSchema(ctx context.Context, conn *pgx.ConnConfig, cfg *Config) (int64, error) {
	direct := conn.Copy()
	if cfg.StatementMode != Prepared {
		direct.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	db := stdlib.OpenDB(*direct)
	defer db.Close()
	if cfg.Migrate {
		return migrate(ctx, db, cfg.Logger)
	}
	return checkSchema(ctx, db)
}

// newPool makes a pool of at most n connections. watch, unless nil, says what becomes of a query whose caller has left; by
// default its connection is closed.
func newPool(parsed *pgxpool.Config, cfg *Config, n int, watch func(*pgconn.PgConn) ctxwatch.Handler) (*pgxpool.Pool, error) {
	p := parsed.Copy()
	p.MaxConns = int32(n)
	p.MaxConnLifetime, p.MaxConnLifetimeJitter, p.MaxConnIdleTime = connLifetime, connLifetimeJitter, connIdleTime
	conn := p.ConnConfig
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	if cfg.Tracer != nil {
		conn.Tracer = cfg.Tracer
	}
	if watch != nil {
		conn.BuildContextWatcherHandler = watch
	}
	if conn.ValidateConnect == nil {
		// A standby could not take writes, and would answer reads from the past.
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	switch cfg.StatementMode {
	case Prepared:
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		// One plan per statement, made for tables of any size: by primary key, and along the indexes of the lists. Without
		// this the planner makes a new plan for each batch, which takes longer than running it, or, on tables that are
		// still empty, one that scans them whole.
		for _, setting := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
			conn.RuntimeParams[setting] = "off"
		}
		conn.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
		conn.RuntimeParams["jit"] = "off" // what is switched off above counts as so costly that a plan with it would be compiled
		conn.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockTimeout.Milliseconds(), 10)
	case Describe:
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	case Exec:
		conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if _, ok := conn.RuntimeParams["application_name"]; !ok {
		conn.RuntimeParams["application_name"] = "a2a-taskstore"
	}
	return pgxpool.NewWithConfig(context.Background(), p)
}

func cancelQuery(conn *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{
		Conn: conn, CancelRequestDelay: cancelDelay, DeadlineDelay: cancelPatience,
	}
}

// enter begins a call; the caller must leave. It reports false once the Store is closed.
func (s *Store) enter() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	s.calls.Add(1)
	return true
}

func (s *Store) leave() { s.calls.Done() }

// Close implements backend.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	for _, c := range s.committers {
		c.stop()
	}
	s.committing.Wait()
	s.cancel()
	s.background.Wait()
	s.writes.Close()
	s.reads.Close()
	return nil
}

// committerOf returns the one that writes what has the name.
func (s *Store) committerOf(n name) *committer {
	return s.committers[maphash.Comparable(s.seed, n)%uint64(len(s.committers))]
}

// Ping implements backend.Store.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.measureClock(ctx); err != nil {
		if backend.ReasonOf(err) != "" {
			return err
		}
		return unavailable(err)
	}
	return nil
}

// measureClock asks the database, which must be writable, for its time.
func (s *Store) measureClock(ctx context.Context) error {
	return s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var nanos int64
		var standby bool
		sent := time.Now()
		if err := conn.QueryRow(ctx, "SELECT "+databaseNow+", pg_is_in_recovery()").Scan(&nanos, &standby); err != nil {
			return err
		}
		s.clock.sample(sent, nanos)
		if standby {
			return backend.Unavailable("the database is a standby", errors.New("pg_is_in_recovery"))
		}
		return nil
	})
}

// PollInterval implements backend.Store.
func (s *Store) PollInterval() time.Duration { return s.cfg.PollInterval }

// changed tells everybody who watches, here and at other replicas.
func (s *Store) changed(keys []backend.Key) {
	if len(keys) == 0 {
		return
	}
	s.watchers.Notify(keys...)
	if s.hints != nil {
		s.hints.add(keys)
	}
}
