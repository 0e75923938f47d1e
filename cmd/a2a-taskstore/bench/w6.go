package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// runClaims has all callers claim one key at once, in rounds.
func runClaims(ctx context.Context, s *session, backend string) error {
	return s.inArena(func(a *arena) error {
		open, err := a.open(ctx, "w6", backend, nil, func(ctx context.Context, t *target) error {
			_, err := claimKey(ctx, t, rand.Text())
			return err
		})
		if err != nil {
			return err
		}
		for _, callers := range s.claimers {
			contestants := open.contestants(func(t *target) func(context.Context) (Sample, error) {
				return s.claiming(t, callers, t != open.echo)
			})
			if err := s.compare(ctx, Case{Workload: "w6", Backend: backend, Callers: callers}, contestants...); err != nil {
				return err
			}
		}
		return nil
	})
}

func claimKey(ctx context.Context, t *target, key string) (taskstorev1.ClaimOutcome, error) {
	return t.claim(ctx, &taskstorev1.ClaimKeyRequest{
		Scope: t.scope(), Key: key, MessageId: "message", TaskId: "task", Token: rand.Text(),
		Lease: durationpb.New(30 * time.Second), Ttl: durationpb.New(time.Hour),
	})
}

// claiming samples rounds; with checked, it fails unless exactly one caller of a round gets the key.
func (s *session) claiming(t *target, callers int, checked bool) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		return measured(ctx, t.meters, func() (load, error) {
			var all load
			for range s.claimRounds {
				key := rand.Text()
				var mu sync.Mutex
				got := 0
				l, err := driveCount(ctx, callers, callers, func(ctx context.Context, _, _ int) error {
					outcome, err := claimKey(ctx, t, key)
					mu.Lock()
					defer mu.Unlock()
					if outcome == taskstorev1.ClaimOutcome_CLAIM_OUTCOME_CLAIMED {
						got++
					}
					return err
				})
				if err != nil {
					return load{}, err
				}
				if checked && got != 1 {
					return load{}, fmt.Errorf("%d of %d callers got the key", got, callers)
				}
				all.latencies = append(all.latencies, l.latencies...)
				all.elapsed += l.elapsed
			}
			slices.Sort(all.latencies)
			return all, nil
		})
	}
}
