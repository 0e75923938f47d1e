package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// unsteady is a random source that many use.
type unsteady struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (u *unsteady) below(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rand.IntN(n)
}

func (u *unsteady) oneIn(n int) bool { return u.below(n) == 0 }

// unsteadySink has room for few at once, now and then not for what it is given, and is slow at times.
type unsteadySink struct {
	roomSink
	random *unsteady
}

func (s *unsteadySink) Opened(log backend.LogInfo, task *backend.Stored) error {
	if s.random.oneIn(3) {
		return ErrAgain
	}
	return s.roomSink.Opened(log, task)
}

func (s *unsteadySink) Events(events []backend.Event) error {
	if s.random.oneIn(12) {
		return ErrAgain
	}
	err := s.roomSink.Events(events)
	s.Rest()
	if s.random.oneIn(12) {
		time.Sleep(shareFor)
	}
	return err
}

// TestReadersAmongFaults has readers join and read a log while reads hang, are late and fail, and hints are lost: each sees
// every event once and in order, resuming where it was told to, none waits forever, and nobody keeps what others need.
func TestReadersAmongFaults(t *testing.T) {
	t.Parallel()
	unwell := errors.New("unwell")
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := &unsteady{rand: rand.New(rand.NewPCG(seed, 7))}
			store := newStore(t)
			store.deaf, store.poll = seed%2 == 0, 250*time.Millisecond
			pause := func() {
				switch {
				case random.oneIn(100):
					time.Sleep(3 * shareFor)
				case random.oneIn(20):
					time.Sleep(shareFor / 3)
				}
			}
			store.beforeRead = func(ctx context.Context) error {
				pause()
				if random.oneIn(150) {
					return unwell
				}
				return ctx.Err()
			}
			store.afterRead = pause
			store.append(t, 1)
			reader := store.reader(t)
			reader.PageEvents = 3
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go reader.Hub.Poll(ctx)

			room := make(chan struct{}, 6)
			var readers [24][]int64
			var all sync.WaitGroup
			for i := range readers {
				late := time.Duration(random.below(4000)) * time.Millisecond
				all.Go(func() {
					time.Sleep(late)
					at := int64(0)
					for {
						s := &unsteadySink{roomSink{room: room}, random}
						_, end, err := reader.Read(ctx, &Request{Key: key, Until: Terminal, Start: backend.Start{N: at}}, s)
						s.Rest()
						readers[i], at = append(readers[i], s.seqs...), end
						if !errors.Is(err, unwell) {
							if err != nil {
								t.Errorf("seed %d: reader %d: %v", seed, i, err)
							}
							return
						}
					}
				})
			}
			last := int64(1)
			for range 40 {
				time.Sleep(time.Duration(random.below(700)) * time.Millisecond)
				n := 1 + random.below(4)
				store.append(t, n)
				last += int64(n)
			}
			store.complete(t)
			time.Sleep(10 * time.Minute)
			cancel() // an error to who still waits
			all.Wait()
			for i, seqs := range readers {
				if !slices.Equal(seqs, upTo(last)) {
					t.Errorf("seed %d: reader %d has %v of %d", seed, i, seqs, last)
				}
			}
			if len(room) != 0 {
				t.Errorf("seed %d: %d have kept what others need", seed, len(room))
			}
		})
	}
}
