package memory

import (
	"strconv"
	"sync/atomic"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/index"
)

// budget is the memory that is taken, in bytes.
type budget struct {
	limit int64
	used  atomic.Int64
}

// resize takes or gives back memory. It fails, and takes nothing, if there is not enough.
func (b *budget) resize(delta int64) error {
	if delta <= 0 {
		b.used.Add(delta)
		return nil
	}
	for {
		used := b.used.Load()
		if delta > b.limit-used {
			return &backend.Error{
				Reason: backend.ErrMemoryLimit, Detail: "the store's memory is used up",
				Meta: map[string]string{"limit": strconv.FormatInt(b.limit, 10)},
			}
		}
		if b.used.CompareAndSwap(used, used+delta) {
			return nil
		}
	}
}

// What things take beside the bytes that they hold, on a 64-bit machine: their structs, headers and allocations, the slots
// and buckets of maps and slices at their usual fill. A test compares the sums with the heap.
const (
	recordCost   = 850
	artifactCost = 240
	messageCost  = 48
	eventCost    = 180
	writeIDCost  = 120
	indexKeyCost = 64
	claimCost    = 440
)

// payload is what bytes of content take: allocations are rounded up, and up to an eighth may be room for more, or be dead
// and not yet collected (see rope, queue and base).
func payload(n int64) int64 { return n + n/8 }

// recordSize returns what a record takes. It is a function of the row, so that it can be asked before a write happens;
// writeIDs is what the write ids of the log take.
func recordSize(key backend.Key, row *backend.Row, writeIDs int64) int64 {
	names := len(key.Tenant) + len(key.TaskID) + len(row.Owner) + len(row.ContextID) + len(row.WriteID)
	size := recordCost + int64(names) + writeIDs + payload(row.Size+row.LogBytes) +
		row.Artifacts*artifactCost + row.Messages*messageCost + row.LogEvents*eventCost
	if n := index.Size(key, row); n > 0 {
		size += int64(n) + 3*indexKeyCost
	}
	return size
}

// writeIDsSize returns what the write ids of events take.
func writeIDsSize(events []backend.Event) int64 {
	size := int64(0)
	for i := range events {
		if id := events[i].WriteID; id != "" {
			size += writeIDCost + int64(len(id))
		}
	}
	return size
}

func claimSize(key *backend.ClaimKey, c *backend.Claim) int64 {
	return claimCost + int64(len(key.Tenant)+len(key.Owner.Name)+len(key.Key)+len(c.MessageID)+len(c.TaskID)+len(c.Token))
}
