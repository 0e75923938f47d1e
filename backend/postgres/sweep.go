package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/a2a-taskstore/taskstore/backend"
)

const (
	// sweepWriters is how many of a batch's removals are under way at once: few, they compete with callers.
	sweepWriters = 4
	// trimEvents is how many events one write of the sweeper drops from a log.
	trimEvents = 500
)

// sweepCursor is the place of a round: behind this task, or, once the tasks are done, behind this claim.
type sweepCursor struct {
	Claims bool   `json:",omitempty"`
	Tenant []byte `json:",omitempty"`
	TaskID []byte `json:",omitempty"`
	Owned  bool   `json:",omitempty"`
	Owner  []byte `json:",omitempty"`
	Key    []byte `json:",omitempty"`
}

// Sweep implements backend.Store. A round walks the tasks in the order of their keys, then the claims.
func (s *Store) Sweep(ctx context.Context, req *backend.SweepRequest) (backend.SweepResult, error) {
	var at sweepCursor
	if req.Cursor != nil {
		if err := json.Unmarshal(req.Cursor, &at); err != nil {
			return backend.SweepResult{}, backend.Invalid("cursor", "malformed")
		}
	}
	var res backend.SweepResult
	var next *sweepCursor
	var err error
	if at.Claims {
		next, err = s.sweepClaims(ctx, req, &at, &res)
	} else {
		next, err = s.sweepTasks(ctx, req, &at, &res)
	}
	if err != nil {
		return backend.SweepResult{}, err
	}
	if next != nil {
		if res.Cursor, err = json.Marshal(next); err != nil {
			return backend.SweepResult{}, fmt.Errorf("encoding the cursor: %w", err)
		}
	}
	return res, nil
}

// sweptRow is a row that the sweeper looks at.
type sweptRow struct {
	key backend.Key
	rec record
}

func (s *Store) sweepTasks(ctx context.Context, req *backend.SweepRequest, at *sweepCursor, res *backend.SweepResult) (*sweepCursor, error) {
	var rows []sweptRow
	var now time.Time
	err := s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, now = nil, s.clock.now()
		sent := time.Now()
		found, err := conn.Query(ctx, "SELECT "+databaseNow+", t.tenant, t.task_id, "+recordColumns+" FROM "+schemaName+`.tasks t
			WHERE (t.tenant, t.task_id) > ($1::bytea, $2::bytea) ORDER BY t.tenant, t.task_id LIMIT $3`,
			notNil(at.Tenant), notNil(at.TaskID), int64(req.Batch))
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var r sweptRow
			var nanos int64
			dest := []any{&nanos, (*stringColumn)(&r.key.Tenant), (*stringColumn)(&r.key.TaskID)}
			if err := found.Scan(append(dest, r.rec.dest()...)...); err != nil {
				return err
			}
			now = s.clock.sample(sent, nanos)
			rows = append(rows, r)
		}
		return found.Err()
	})
	if err != nil {
		return nil, err
	}

	var tasks, events, tombstones atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sweepWriters)
	for _, r := range rows {
		switch backend.Expired(&r.rec.Row, &req.Retention, now) {
		case backend.Expire:
			group.Go(func() error { return s.expire(ctx, r.key, &req.Retention, &tasks) })
		case backend.TrimLog:
			group.Go(func() error { return s.trim(ctx, r.key, &req.Retention, &events) })
		case backend.Forget:
			group.Go(func() error { return s.forget(ctx, &r, &tombstones) })
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	res.Tasks, res.Events, res.Tombstones = int(tasks.Load()), int(events.Load()), int(tombstones.Load())
	if len(rows) < req.Batch {
		return &sweepCursor{Claims: true}, nil
	}
	last := rows[len(rows)-1].key
	return &sweepCursor{Tenant: []byte(last.Tenant), TaskID: []byte(last.TaskID)}, nil
}

func (s *Store) expire(ctx context.Context, key backend.Key, r *backend.Retention, count *atomic.Int64) error {
	p := &expirePlan{key: key, retention: r}
	if err := s.do(ctx, p, 0, taskName(key)); err != nil {
		return err
	}
	if p.expired {
		count.Add(1)
	}
	return nil
}

// expirePlan removes what retention no longer keeps.
type expirePlan struct {
	key       backend.Key
	retention *backend.Retention
	expired   bool
}

func (p *expirePlan) asks() ask { return ask{key: p.key, row: true} }

func (p *expirePlan) guess(*memory) *facts { return nil }

func (p *expirePlan) plan(f *facts) (outcome, error) {
	p.expired = backend.Expired(&f.rec.Row, p.retention, f.now) == backend.Expire
	if !p.expired {
		return outcome{}, nil
	}
	return outcome{change: bury(p.key, &f.rec, backend.Bury(&f.rec.Row, f.now))}, nil
}

func (s *Store) trim(ctx context.Context, key backend.Key, r *backend.Retention, count *atomic.Int64) error {
	for {
		p := &trimPlan{key: key, retention: r}
		if err := s.do(ctx, p, 0, taskName(key)); err != nil {
			return err
		}
		count.Add(int64(p.dropped))
		if p.dropped < trimEvents {
			return nil
		}
	}
}

// trimPlan drops the oldest events of a log that is over its limits.
type trimPlan struct {
	key       backend.Key
	retention *backend.Retention
	dropped   int
}

func (p *trimPlan) asks() ask { return ask{key: p.key, row: true, oldest: trimEvents} }

func (p *trimPlan) guess(*memory) *facts { return nil }

func (p *trimPlan) plan(f *facts) (outcome, error) {
	p.dropped = 0
	if backend.Expired(&f.rec.Row, p.retention, f.now) != backend.TrimLog {
		return outcome{}, nil
	}
	c := &change{key: p.key, was: &f.rec, next: f.rec}
	for i := range f.oldest {
		if !backend.Trim(&c.next.Row, p.retention, &f.oldest[i]) {
			break
		}
		p.dropped++
	}
	if p.dropped == 0 {
		return outcome{}, nil
	}
	c.next.stamp, c.dropEvents = newStamp(), c.next.FirstSeq
	return outcome{change: c}, nil
}

// forget removes a tombstone, if it still is one.
func (s *Store) forget(ctx context.Context, r *sweptRow, count *atomic.Int64) error {
	st := &statement{}
	query := "DELETE FROM " + schemaName + ".tasks t " + whereKey(st, r.key) + " AND t.stamp = " + st.arg(r.rec.stamp)
	return s.exec(ctx, query, st.args, count)
}

// exec runs a statement that may be repeated, and counts its rows.
func (s *Store) exec(ctx context.Context, query string, args []any, count *atomic.Int64) error {
	return s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, query, args...)
		if err == nil {
			count.Add(tag.RowsAffected())
		}
		return err
	})
}

// sweptClaim is a claim that the sweeper looks at.
type sweptClaim struct {
	at    sweepCursor
	stamp int64
}

func (s *Store) sweepClaims(ctx context.Context, req *backend.SweepRequest, at *sweepCursor, res *backend.SweepResult) (*sweepCursor, error) {
	var page, expired []sweptClaim
	err := s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		page, expired = nil, nil
		sent := time.Now()
		found, err := conn.Query(ctx, "SELECT "+databaseNow+", c.tenant, c.owned, c.owner, c.key, c.stamp, c.expires FROM "+schemaName+`.claims c
			WHERE (c.tenant, c.owned, c.owner, c.key) > ($1::bytea, $2::boolean, $3::bytea, $4::bytea)
			ORDER BY c.tenant, c.owned, c.owner, c.key LIMIT $5`,
			notNil(at.Tenant), at.Owned, notNil(at.Owner), notNil(at.Key), int64(req.Batch))
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			c := sweptClaim{at: sweepCursor{Claims: true}}
			var nanos int64
			var claim backend.Claim
			err := found.Scan(&nanos, &c.at.Tenant, &c.at.Owned, &c.at.Owner, &c.at.Key, &c.stamp, &claim.Expires)
			if err != nil {
				return err
			}
			if !claim.Live(s.clock.sample(sent, nanos)) {
				expired = append(expired, c)
			}
			page = append(page, c)
		}
		return found.Err()
	})
	if err != nil {
		return nil, err
	}
	if n := len(expired); n > 0 {
		st := &statement{}
		query := "DELETE FROM " + schemaName + ".claims c USING " + st.source("s",
			byteas(st, "tenant", n, func(i int) []byte { return notNil(expired[i].at.Tenant) }),
			bools(st, "owned", n, func(i int) bool { return expired[i].at.Owned }),
			byteas(st, "owner", n, func(i int) []byte { return notNil(expired[i].at.Owner) }),
			byteas(st, "key", n, func(i int) []byte { return notNil(expired[i].at.Key) }),
			int8s(st, "prev", n, func(i int) int64 { return expired[i].stamp }),
		) + " WHERE " + sameClaim
		var count atomic.Int64
		if err := s.exec(ctx, query, st.args, &count); err != nil {
			return nil, err
		}
		res.Keys = int(count.Load())
	}
	if len(page) < req.Batch {
		return nil, nil
	}
	return &page[len(page)-1].at, nil
}
