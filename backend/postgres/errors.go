package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/a2a-taskstore/taskstore/backend"
)

// failure is what an error of the driver means for what failed.
type failure uint8

const (
	// fault: it would fail again.
	fault failure = iota
	// conflict: nothing was written, and the same may succeed at once.
	conflict
	// locked: a row is held by a transaction that does not end. Nothing was written.
	locked
	// lost: the connection is of no use any more. If a write had been sent, its outcome is unknown.
	lost
	// refused: the database cannot do it now. Nothing was written.
	refused
)

// classify says what an error means, by its SQLSTATE where the database sent it.
func classify(err error) failure {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "40001", // serialization_failure; distributed engines retry by it
			"40P01": // deadlock_detected
			return conflict
		case "55P03": // lock_not_available: lock_timeout
			return locked
		case "25006", // read_only_sql_transaction: the server has been demoted
			"26000", "42P05", // prepared statements that a pooler mixed up
			"0A000",                                     // cached plan must not change result type
			"57P01", "57P02", "57P03", "57P04", "57P05": // shutdowns and the like
			return lost
		}
		switch e.Code[:2] {
		case "08": // connection exceptions
			return lost
		case "53", "57", "58": // resources, operator intervention (such as statement_timeout), system errors
			return refused
		}
		return fault
	}
	if _, ok := errors.AsType[*deadConnError](err); ok {
		return lost
	}
	var network net.Error
	switch {
	case errors.Is(err, puddle.ErrClosedPool), errors.Is(err, pgconn.ErrConnClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.As(err, &network),
		pgconn.SafeToRetry(err):
		return lost
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return lost
	}
	return fault
}

// deadConnError is an error after which the connection was found closed, whatever it says.
type deadConnError struct{ error }

func (e *deadConnError) Unwrap() error { return e.error }

// after returns the error of what was done on a connection.
func after(conn *pgxpool.Conn, err error) error {
	if err != nil && conn.Conn().IsClosed() {
		return &deadConnError{err}
	}
	return err
}

// release gives a connection back, or ends it if the error says so.
func release(pool *pgxpool.Pool, conn *pgxpool.Conn, err error) {
	if err != nil && backend.ReasonOf(err) == "" && classify(err) == lost {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_ = conn.Conn().Close(ctx) // it may be broken already
		cancel()
	}
	conn.Release()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "25006" {
		pool.Reset() // the other connections lead to the demoted server too
	}
}

func unavailable(cause error) error {
	return backend.Unavailable("the database cannot be reached", cause)
}

func errClosed() error { return backend.Unavailable("the store is closed", nil) }

// unknownOutcome is neither success nor failure: the time to find out is over.
func unknownOutcome(cause error) error {
	return fmt.Errorf("the outcome of the write is unknown: %w", errors.Join(context.DeadlineExceeded, cause))
}

// faulty wraps what nobody expects.
func faulty(err error) error {
	if classify(err) == refused {
		return backend.Unavailable("the database refuses to work", err)
	}
	return fmt.Errorf("postgres: %w", err)
}

// parseDSN reads a DSN. Neither its error nor those of connecting hold the password.
func parseDSN(dsn string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, dsnError(err)
	}
	hosts := []string{cfg.ConnConfig.Host}
	for _, f := range cfg.ConnConfig.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		if strings.LastIndexByte(host, '@') > 0 { // not an abstract socket: a password ended too early, and every error names hosts
			return nil, fmt.Errorf("%w: malformed DSN: a host with an @; in user names and passwords it is written %%40", ErrConfig)
		}
	}
	return cfg, nil
}

// dsnError hides the text of a DSN that cannot be parsed, which may hold a password.
func dsnError(err error) error {
	text := "malformed DSN"
	if e, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		if _, reason, ok := strings.Cut(e.Error(), "`: "); ok {
			text += ": " + reason
		}
	}
	return fmt.Errorf("%w: %s", ErrConfig, text)
}
