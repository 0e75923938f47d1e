package follow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// However many wait for a key, each of them hears of a change that follows its latest receive, also of one that comes while
// the many are being woken for the one before.
func TestHubWakesMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := newStore(t).reader(t).Hub
		const waiters = 20*burst + 3
		var subs []*Subscription
		for range waiters {
			subs = append(subs, hub.Subscribe(key))
		}
		other := hub.Subscribe(backend.Key{TaskID: "other"})
		for range 3 {
			go hub.wake(key)
			hub.wake(key)
			time.Sleep(2 * waiters * headStart)
			synctest.Wait()
			for i, sub := range subs {
				if len(sub.C) != 1 {
					t.Fatalf("waiter %d has %d wake-ups", i, len(sub.C))
				}
				<-sub.C
			}
		}
		if len(other.C) != 0 {
			t.Error("another key's waiter was woken")
		}
		p := hub.part(key)
		if topic := p.topics[key]; topic.waking || topic.again {
			t.Errorf("at rest, waking is %v, again %v", topic.waking, topic.again)
		}
		for _, sub := range subs {
			sub.Close()
		}
		hub.wake(key)
	})
}
