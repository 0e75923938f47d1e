package observe

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/memory"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
)

// engine returns what shows the insides of a store; nil for one that it does not know.
func engine(s backend.Store) prometheus.Collector {
	switch s := s.(type) {
	case *memory.Store:
		return collector(func(out *metrics) { out.memory(s.Stats()) })
	case *pebble.Store:
		return collector(func(out *metrics) {
			if stats, err := s.Stats(); err == nil { // else it is broken or closed, and there is nothing to show
				out.pebble(&stats)
			}
		})
	case *postgres.Store:
		return collector(func(out *metrics) { out.postgres(s.Stats()) })
	default:
		return nil
	}
}

// collector makes metrics of a store's Stats when it is asked. It describes none before, which Prometheus calls unchecked.
type collector func(*metrics)

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(ch chan<- prometheus.Metric) { c(&metrics{ch}) }

type metrics struct{ ch chan<- prometheus.Metric }

var (
	memoryUsed  = desc("memory_used_bytes", "What the memory backend holds.")
	memoryLimit = desc("memory_limit_bytes", "What the memory backend holds at most; then writes are refused.")

	commits       = desc("commits_total", "Writes that were made durable.")
	commitBatches = desc("commit_batches_total", "What they were made durable with: syncs of the write-ahead log (pebble), transactions (postgres).")

	fsync          = desc("fsync_seconds", "How long syncs of the write-ahead log took.")
	stalls         = desc("write_stalls_total", "How often writes began to wait for compaction.")
	disk           = desc("disk_bytes", "What the store's files take.")
	cacheBytes     = desc("block_cache_bytes", "What the cache of blocks holds.")
	cacheHits      = desc("block_cache_hits_total", "Look-ups that the cache of blocks answered.")
	cacheMisses    = desc("block_cache_misses_total", "Look-ups that the cache of blocks did not answer.")
	compactions    = desc("compactions_total", "Compactions that were made.")
	compactedBytes = desc("compaction_bytes_total", "Bytes that compactions wrote.")
	compactionDebt = desc("compaction_debt_bytes", "Estimate of the bytes that are left to be compacted.")
	levelFiles     = desc("level_files", "Files of a level of the LSM tree.", "level")
	levelBytes     = desc("level_bytes", "Size of a level of the LSM tree.", "level")
	sublevels      = desc("level0_sublevels", "How many files of level 0 a read may have to look into.")

	poolInUse = desc("pool_connections_in_use", "Connections to PostgreSQL that are in use.", "pool")
	poolIdle  = desc("pool_connections_idle", "Connections to PostgreSQL that are idle.", "pool")
	poolMax   = desc("pool_connections_max", "Connections to PostgreSQL that the pool has at most.", "pool")
	poolWaits = desc("pool_waits_total", "How often a connection was not there at once.", "pool")
	poolWait  = desc("pool_wait_seconds_total", "How long was waited for connections that were not there at once.", "pool")
	queued    = desc("queued_writes", "Writes that wait for a transaction.")
	listening = desc("listening", "1 while hints of other replicas' writes come by LISTEN; 0 also where only polling is configured.")
	schema    = desc("schema_version", "Version of the database's schema when the store was opened.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

func (m *metrics) counter(d *prometheus.Desc, v float64, labels ...string) {
	m.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (m *metrics) gauge(d *prometheus.Desc, v float64, labels ...string) {
	m.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (m *metrics) memory(s memory.Stats) {
	m.gauge(memoryUsed, float64(s.Used))
	m.gauge(memoryLimit, float64(s.Limit))
}

func (m *metrics) pebble(s *pebble.Stats) {
	m.counter(commits, float64(s.Commits))
	m.counter(commitBatches, float64(s.Syncs.Count))
	m.ch <- prometheus.MustNewConstHistogram(fsync, s.Syncs.Count, s.Syncs.Sum.Seconds(), fsyncBuckets(s.Syncs.Within))
	m.counter(stalls, float64(s.Stalls))
	m.gauge(disk, float64(s.DiskBytes))
	m.gauge(cacheBytes, float64(s.CacheBytes))
	m.counter(cacheHits, float64(s.CacheHits))
	m.counter(cacheMisses, float64(s.CacheMisses))
	m.counter(compactions, float64(s.Compactions))
	m.counter(compactedBytes, float64(s.CompactedBytes))
	m.gauge(compactionDebt, float64(s.CompactionDebt))
	for i, l := range s.Levels {
		m.gauge(levelFiles, float64(l.Files), strconv.Itoa(i))
		m.gauge(levelBytes, float64(l.Bytes), strconv.Itoa(i))
	}
	m.gauge(sublevels, float64(s.Sublevels))
}

// fsyncBuckets leaves out those of Pebble's hundred buckets that are not half as long again as the one before.
func fsyncBuckets(within map[time.Duration]uint64) map[float64]uint64 {
	out := make(map[float64]uint64)
	last := time.Duration(0)
	for _, bound := range slices.Sorted(maps.Keys(within)) {
		if bound > 0 && bound >= last+last/2 {
			out[bound.Seconds()] = within[bound]
			last = bound
		}
	}
	return out
}

func (m *metrics) postgres(s postgres.Stats) {
	m.counter(commits, float64(s.Commits))
	m.counter(commitBatches, float64(s.Transactions))
	m.gauge(queued, float64(s.Queued))
	for name, p := range map[string]postgres.PoolStats{"write": s.Writes, "read": s.Reads} {
		m.gauge(poolInUse, float64(p.InUse), name)
		m.gauge(poolIdle, float64(p.Idle), name)
		m.gauge(poolMax, float64(p.Max), name)
		m.counter(poolWaits, float64(p.Waits), name)
		m.counter(poolWait, p.Waited.Seconds(), name)
	}
	listens := 0.0
	if s.Listening {
		listens = 1
	}
	m.gauge(listening, listens)
	m.gauge(schema, float64(s.SchemaVersion))
}
