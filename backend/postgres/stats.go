package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Stats is what a Store shows of itself. Counts are since it was opened.
type Stats struct {
	// Writes is the pool of the committers, Reads that of everything else. The listening connection is in neither.
	Writes, Reads PoolStats
	// Transactions were committed by the committers, with Commits writes in them.
	Transactions, Commits int64
	// Queued are the writes that wait for a transaction.
	Queued int
	// Listening says that hints from other replicas come; always false with Config.PollOnly.
	Listening bool
	// SchemaVersion is that of the schema when the Store was opened.
	SchemaVersion int64
}

// PoolStats is the state of a pool of connections.
type PoolStats struct {
	InUse, Idle, Max int
	// Waits is how many acquired a connection that was not there at once, and Waited how long they waited in all.
	Waits  int64
	Waited time.Duration
}

// Stats returns the present state. It does not ask the database.
func (s *Store) Stats() Stats {
	out := Stats{Writes: poolStats(s.writes), Reads: poolStats(s.reads), SchemaVersion: s.schema}
	for _, c := range s.committers {
		out.Transactions += c.transactions.Load()
		out.Commits += c.commits.Load()
		c.mu.Lock()
		out.Queued += len(c.queue)
		c.mu.Unlock()
	}
	out.Listening = s.hints != nil && s.hints.listening.Load()
	return out
}

func poolStats(p *pgxpool.Pool) PoolStats {
	s := p.Stat()
	return PoolStats{
		InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Max: int(s.MaxConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(),
	}
}
