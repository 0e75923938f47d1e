package pebble

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"
	dto "github.com/prometheus/client_model/go"
)

// Stats is what a Store shows of itself. Counts are since it was opened.
type Stats struct {
	// Commits are the writes that were made durable.
	Commits int64
	// Syncs are those of the write-ahead log; a sync is shared by the writes that wait for it.
	Syncs Latencies
	// Stalls is how often writes began to wait for compaction.
	Stalls int64
	// DiskBytes is what the store's files take.
	DiskBytes uint64
	// CacheBytes is what the cache of blocks holds; CacheHits and CacheMisses are its look-ups.
	CacheBytes, CacheHits, CacheMisses int64
	// Compactions were made, and wrote CompactedBytes. CompactionDebt estimates the bytes that are left to be compacted.
	Compactions, CompactedBytes int64
	CompactionDebt              uint64
	// Levels are those of the LSM tree, the first one the youngest.
	Levels []Level
	// Sublevels of the first level: how many files a read may have to look into there.
	Sublevels int
}

// Level is a level of the LSM tree.
type Level struct {
	Files, Bytes int64
}

// Latencies is a histogram.
type Latencies struct {
	Count uint64
	Sum   time.Duration
	// Within is how many took at most as long, by bounds.
	Within map[time.Duration]uint64
}

// Stats returns the present state. It fails for a store that is broken or closed.
func (s *Store) Stats() (Stats, error) {
	if err := s.enter(context.Background()); err != nil {
		return Stats{}, err
	}
	defer s.calls.Done()
	var m *pebble.Metrics
	// Pebble takes locks that a fault may leave held.
	err := s.fault.run(func() error {
		m = s.db.Metrics()
		return nil
	})
	if err != nil {
		return Stats{}, err
	}
	out := Stats{
		Commits:        s.committed.Load(),
		Stalls:         s.fault.stalls.Load(),
		DiskBytes:      m.DiskSpaceUsage(),
		CacheBytes:     m.BlockCache.Size,
		CacheHits:      m.BlockCache.Hits,
		CacheMisses:    m.BlockCache.Misses,
		Compactions:    m.Compact.Count,
		CompactionDebt: m.Compact.EstimatedDebt,
		Sublevels:      int(m.Levels[0].Sublevels),
	}
	if out.Syncs, err = syncLatencies(m); err != nil {
		return Stats{}, err
	}
	for i := range m.Levels {
		l := &m.Levels[i]
		out.CompactedBytes += int64(l.TableBytesCompacted)
		out.Levels = append(out.Levels, Level{Files: l.TablesCount, Bytes: l.TablesSize})
	}
	return out, nil
}

// syncLatencies reads the histogram that Pebble keeps, in nanoseconds.
func syncLatencies(m *pebble.Metrics) (Latencies, error) {
	if m.LogWriter.FsyncLatency == nil { // nothing was synced yet
		return Latencies{}, nil
	}
	var d dto.Metric
	if err := m.LogWriter.FsyncLatency.Write(&d); err != nil {
		return Latencies{}, err
	}
	h := d.GetHistogram()
	out := Latencies{
		Count: h.GetSampleCount(), Sum: time.Duration(h.GetSampleSum()),
		Within: make(map[time.Duration]uint64, len(h.GetBucket())),
	}
	for _, b := range h.GetBucket() {
		out.Within[time.Duration(b.GetUpperBound())] = b.GetCumulativeCount()
	}
	return out, nil
}
