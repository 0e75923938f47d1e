package bench

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// openBarePipelined has committers send the statements of all callers, as many as are waiting in one transaction.
func openBarePipelined(ctx context.Context, p *place) (bare, error) {
	b, err := openBareSQL(ctx, p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	queues := make([]chan *queued, committers)
	for i := range queues {
		queues[i] = make(chan *queued, longestBatch)
		running.Go(func() { b.commit(ctx, queues[i]) })
	}
	b.stop = func() {
		cancel()
		running.Wait()
	}
	b.exec = func(ctx context.Context, key int, sql string, args []any) error {
		q := &queued{sql: sql, args: args, done: make(chan error, 1)}
		select {
		case queues[key%committers] <- q: // one task's writes keep their order
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-q.done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b, nil
}

const (
	committers   = 2
	longestBatch = 256
)

// queued is a statement that waits for a committer.
type queued struct {
	sql  string
	args []any
	done chan error
}

// commit takes what is queued, again and again: it never waits for more.
func (b *bareSQL) commit(ctx context.Context, queue <-chan *queued) {
	for {
		var writes []*queued
		select {
		case q := <-queue:
			writes = append(writes, q)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(writes) < longestBatch; {
			select {
			case q := <-queue:
				writes = append(writes, q)
			default:
				more = false
			}
		}
		batch := &pgx.Batch{}
		for _, q := range writes {
			batch.Queue(q.sql, q.args...)
		}
		err := b.pool.SendBatch(ctx, batch).Close() // one transaction
		for _, q := range writes {
			q.done <- err
		}
	}
}
