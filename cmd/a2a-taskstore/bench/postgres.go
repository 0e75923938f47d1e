package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
)

func openPostgres(ctx context.Context, p *place) (backend.Store, func() int64, error) {
	store, err := postgres.Open(ctx, postgres.Config{DSN: p.DSN, PollOnly: p.Apart, Migrate: true, Limits: limits()})
	if err != nil {
		return nil, nil, err
	}
	return store, func() int64 { return 0 }, nil // see meterWAL
}

// meterWAL counts the bytes that the database server has written ahead, for whomever.
func meterWAL(ctx context.Context, p *place) (meter, func() error, error) {
	conn, err := pgx.Connect(ctx, p.DSN)
	if err != nil {
		return nil, nil, err
	}
	read := func(ctx context.Context) (counters, error) {
		var bytes float64
		err := conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&bytes)
		return counters{Written: bytes}, err
	}
	return read, func() error { return conn.Close(context.WithoutCancel(ctx)) }, nil
}

// bareSQL writes with one statement, into tables like the backend's, what the backend writes: without reading, locking, or
// deciding.
type bareSQL struct {
	pool   *pgxpool.Pool
	meter  meter
	unplug func() error
	place  *place
	schema string
	whole  string
	chunk  string
	// exec runs a statement and returns when it is committed.
	exec func(ctx context.Context, key int, sql string, args []any) error
	stop func()
}

// mostConnections is how many connections a connection per caller comes to: servers allow 100 by default.
const mostConnections = 80

// openBarePerCaller makes each statement a transaction of its own, on as many connections as there are callers.
func openBarePerCaller(ctx context.Context, p *place) (bare, error) {
	b, err := openBareSQL(ctx, p)
	if err != nil {
		return nil, err
	}
	b.stop = func() {}
	b.exec = func(ctx context.Context, _ int, sql string, args []any) error {
		_, err := b.pool.Exec(ctx, sql, args...)
		return err
	}
	return b, nil
}

func openBareSQL(ctx context.Context, p *place) (*bareSQL, error) {
	if _, err := postgres.Migrate(ctx, p.DSN, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(p.DSN)
	if err != nil {
		return nil, errors.New("the DSN cannot be parsed") // the cause may quote it, password included
	}
	config.MaxConns = mostConnections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	b := &bareSQL{pool: pool, place: p, schema: pgx.Identifier{p.Tenant}.Sanitize()}
	for _, sql := range []string{
		"CREATE SCHEMA " + b.schema,
		"CREATE TABLE " + b.schema + ".tasks (LIKE a2a_taskstore.tasks INCLUDING ALL)",
		"CREATE TABLE " + b.schema + ".events (LIKE a2a_taskstore.events INCLUDING ALL)",
		"CREATE TABLE " + b.schema + ".artifact_parts (LIKE a2a_taskstore.artifact_parts INCLUDING ALL)",
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			pool.Close()
			return nil, fmt.Errorf("making tables: %w", err)
		}
	}
	event := `INSERT INTO ` + b.schema + `.events (row_id, seq, mark, created, write_idx, origin, write_id, event)
		VALUES ($3, $4::bigint, 2 * $4::bigint, $5, 0, '', '', $6)`
	b.whole = `WITH task AS (
		INSERT INTO ` + b.schema + `.tasks (tenant, task_id, row_id, stamp, kind, owner, incarnation, version, context_id, state,
			seconds, nanos, start_seq, first_seq, last_seq, dropped_mark, log_events, log_bytes, final, final_seq, created, updated,
			finalized, touched, write_id, write_seq, size, artifact_count, artifact_bytes, message_count, artifact_rows,
			message_rows, head, artifacts, history)
		VALUES ($1, $2, $3, $4, 2, $7, 1, $4, $8, 2, $5::bigint / 1000000000, $5::bigint % 1000000000, 1, 1, $4, 0, $4, $4, false, 0,
			$5, $5, 0, $5, $9, $4, length($10::bytea), 1, length($10::bytea), 0, false, false, '', $10, '')
		ON CONFLICT (tenant, task_id) DO UPDATE SET stamp = EXCLUDED.stamp, version = EXCLUDED.version,
			seconds = EXCLUDED.seconds, nanos = EXCLUDED.nanos, last_seq = EXCLUDED.last_seq, log_events = EXCLUDED.log_events,
			log_bytes = EXCLUDED.log_bytes, updated = EXCLUDED.updated, touched = EXCLUDED.touched, write_id = EXCLUDED.write_id,
			write_seq = EXCLUDED.write_seq, size = EXCLUDED.size, artifacts = EXCLUDED.artifacts
		) ` + event
	b.chunk = `WITH task AS (
		UPDATE ` + b.schema + `.tasks SET stamp = $4, version = $4, last_seq = $4, log_events = $4, updated = $5, touched = $5,
			write_id = $7, write_seq = $4, size = size + length($8::bytea), artifact_bytes = artifact_bytes + length($8::bytea)
		WHERE tenant = $1 AND task_id = $2
		), part AS (
		INSERT INTO ` + b.schema + `.artifact_parts (row_id, pos, version, part_total, byte_total, parts)
		VALUES ($3, 0, $4, $4, $4, $8)
		) ` + event
	b.meter, b.unplug, err = meterWAL(ctx, p)
	return b, err
}

// writeID is as long as one.
var writeID = strings.Repeat("w", 26)

func (b *bareSQL) put(ctx context.Context, w *bareWrite) error {
	now := w.at.UnixNano()
	args := []any{[]byte(b.place.Tenant), []byte(taskName(w.key)), int64(w.key), w.n, now, w.event}
	if w.chunk != nil {
		return b.exec(ctx, w.key, b.chunk, append(args, []byte(writeID), w.chunk))
	}
	return b.exec(ctx, w.key, b.whole, append(args, []byte(owner), []byte(contextOf(w.key)), []byte(writeID), w.task))
}

func (b *bareSQL) count(ctx context.Context) (counters, error) { return b.meter(ctx) }

func (b *bareSQL) close() error {
	b.stop()
	_, err := b.pool.Exec(context.Background(), "DROP SCHEMA "+b.schema+" CASCADE")
	b.pool.Close()
	return errors.Join(err, b.unplug())
}
