package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
)

// read runs fn, which must only read a bounded amount and may run several times, on a connection. It returns when ctx ends,
// whatever the database does: fn then ends on its own, and what it has read must not be looked at.
func (s *Store) read(ctx context.Context, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	return s.readWithin(ctx, attemptTimeout, fn)
}

// readWithin is read with a bound for each attempt of its own: not every caller has a deadline, and a connection may be dead
// without a word.
func (s *Store) readWithin(ctx context.Context, bound time.Duration, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.enter() {
		return errClosed()
	}
	done := make(chan error, 1)
	go func() {
		defer s.leave()
		done <- s.tryRead(ctx, bound, fn)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) tryRead(ctx context.Context, bound time.Duration, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	start := time.Now()
	for failures := 1; ; failures++ {
		err := s.readOnce(ctx, bound, fn)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case backend.ReasonOf(err) != "":
			return err
		case classify(err) == fault:
			return faulty(err)
		case impatient(ctx, start):
			return unavailable(err)
		}
		select {
		case <-time.After(pause(failures)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) readOnce(ctx context.Context, bound time.Duration, fn func(ctx context.Context, conn *pgx.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := s.reads.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { release(s.reads, conn, err) }()
	return after(conn, fn(ctx, conn.Conn()))
}

// snapshot begins a transaction whose queries all see the same instant. It is queued in front of them, and commit behind, so
// that all take one round trip.
const (
	snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	commit   = "COMMIT"
)

// scanBodies returns what passes each body of a result to fn.
func scanBodies(fn func(*body)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			b := &body{}
			if err := rows.Scan(b.dest()...); err != nil {
				return err
			}
			fn(b)
		}
		return rows.Err()
	}
}

// Get implements backend.Store.
func (s *Store) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	st := &statement{}
	query := "SELECT " + databaseNow + ", " + bodyColumns(st, req.Extent) + " FROM " + schemaName + ".tasks t " + whereKey(st, req.Key)
	b := &body{}
	var now time.Time
	err := s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		*b = body{}
		var nanos int64
		sent := time.Now()
		err := conn.QueryRow(ctx, query, st.args...).Scan(append([]any{&nanos}, b.dest()...)...)
		if err == pgx.ErrNoRows {
			return nil
		}
		now = s.clock.sample(sent, nanos)
		return err
	})
	if err != nil {
		return backend.GetResult{}, err
	}
	res, err := b.rec.Result(req.Owner, nil, now)
	if err != nil {
		return backend.GetResult{}, err
	}
	res.Task = b.task(req.Key.TaskID, req.Extent)
	return res, nil
}

// whereTask is the condition that t, of another table, hangs on the row of tasks under a key.
func whereTask(s *statement, k backend.Key) string {
	return "WHERE t.row_id = (SELECT t.row_id FROM " + schemaName + ".tasks t " + whereKey(s, k) + ")"
}

// whereKey is the condition that t is the row under a key.
func whereKey(s *statement, k backend.Key) string {
	return "WHERE t.tenant = " + s.arg(asBytes(k.Tenant)) + " AND t.task_id = " + s.arg(asBytes(k.TaskID))
}
