package client_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2a-taskstore/taskstore/client"
)

// replicas are fakes behind one name.
type replicas struct {
	fakes     []*fake
	listeners []*network
	client    *client.Client
}

func serveReplicas(t *testing.T, n int) *replicas {
	t.Helper()
	r := &replicas{}
	byAddress := map[string]*network{}
	var addresses []resolver.Address
	for i := range n {
		lis := &network{Listener: bufconn.Listen(1 << 20)}
		f, stop := serve(lis)
		t.Cleanup(stop)
		r.fakes, r.listeners = append(r.fakes, f), append(r.listeners, lis)
		address := fmt.Sprintf("replica-%d:7420", i)
		byAddress[address] = lis
		addresses = append(addresses, resolver.Address{Addr: address})
	}
	names := manual.NewBuilderWithScheme("replicas")
	names.InitialState(resolver.State{Addresses: addresses})
	c, err := client.Dial("replicas:///store", client.WithInsecure(), client.WithDialOptions(
		grpc.WithResolvers(names),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return byAddress[address].dial(ctx, address)
		}),
	))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r.client = c
	return r
}

// saves makes so many Saves and returns how many of them each replica has seen.
func (r *replicas) saves(t *testing.T, n int) []int {
	t.Helper()
	before := r.seen()
	for i := range n {
		if _, err := r.client.Save(t.Context(), put(fmt.Sprint("t", i))); err != nil {
			t.Fatalf("save %d: %v", i, err)
		}
	}
	after := r.seen()
	for i := range after {
		after[i] -= before[i]
	}
	return after
}

func (r *replicas) seen() []int {
	seen := make([]int, len(r.fakes))
	for i, f := range r.fakes {
		f.mu.Lock()
		seen[i] = len(f.calls["Save"])
		f.mu.Unlock()
	}
	return seen
}

// TestRoundRobin shows that calls spread evenly over the addresses behind a name, that one which is away or refuses does not
// fail a call, and that it is used again when it is back.
func TestRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := serveReplicas(t, 3)
		var away atomic.Bool
		r.listeners[1].down = away.Load
		r.saves(t, 3)
		synctest.Wait() // until all are connected
		for i, n := range r.saves(t, 300) {
			if n != 100 {
				t.Errorf("replica %d got %d of 300 calls", i, n)
			}
		}

		away.Store(true)
		r.fakes[1].cut()
		synctest.Wait()
		if seen := r.saves(t, 300); seen[1] != 0 || seen[0] != 150 || seen[2] != 150 {
			t.Errorf("with one away: %v of 300 calls", seen)
		}

		away.Store(false)
		time.Sleep(10 * time.Second) // more than gRPC pauses between attempts to connect
		if seen := r.saves(t, 300); seen[1] != 100 {
			t.Errorf("with all back: %v of 300 calls", seen)
		}

		r.fakes[2].before = func(context.Context, string, int) error {
			return problem(codes.Unavailable, "DRAINING", nil, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
		}
		if seen := r.saves(t, 300); seen[0]+seen[1] != 300 {
			t.Errorf("with one that drains: %v of 300 calls", seen)
		}
	})
}

// TestPausesDiffer shows that callers whom one event has interrupted do not come back at one time, whether or not the server
// says when.
func TestPausesDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		err         error
		least, most time.Duration
	}{
		"cut off": {status.Error(codes.Unavailable, "away"), 25 * time.Millisecond, 50 * time.Millisecond},
		"overloaded": {
			problem(codes.ResourceExhausted, "OVERLOADED", nil, &errdetails.RetryInfo{RetryDelay: durationpb.New(200 * time.Millisecond)}),
			200 * time.Millisecond, 300 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, n *network) {
				const callers = 200
				c := connect(t, n)
				began := time.Now()
				var mu sync.Mutex
				pauses := map[time.Duration]int{}
				f.before = func(_ context.Context, _ string, n int) error {
					if n <= callers {
						return test.err
					}
					mu.Lock()
					defer mu.Unlock()
					pauses[time.Since(began)]++
					return nil
				}
				var calls sync.WaitGroup
				for i := range callers {
					calls.Go(func() {
						if _, err := c.Save(t.Context(), put(fmt.Sprint("t", i))); err != nil {
							t.Error(err)
						}
					})
				}
				calls.Wait()
				early, late := 0, 0
				for pause := range pauses {
					if pause < test.least || pause > test.most {
						t.Errorf("a pause of %v, want %v to %v", pause, test.least, test.most)
					}
					if pause < test.least+(test.most-test.least)/2 {
						early++
					} else {
						late++
					}
				}
				if len(pauses) < callers/2 || early < callers/8 || late < callers/8 {
					t.Errorf("%d callers came back at %d times, %d of them early", callers, len(pauses), early)
				}
			})
		})
	}
}
