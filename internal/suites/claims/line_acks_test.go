package claims

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// withReplica starts a server with a replica that has caught up.
func withReplica(t *testing.T) (master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t)
	replica = redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
	rdb := master.Client(t)
	testkit.Eventually(t, "the replica has caught up", func() bool { return testkit.Replicated(t, rdb, "any", 1) })
	return master, replica
}

// TestWithReplicaAcksTheLineServesInTheOrderOfArrival has waiters that take the lock by themselves, because a release does not
// wait until replicas have it. Each release wakes the next one alone.
func TestWithReplicaAcksTheLineServesInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "fenced", "write", "fenced write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			master, replica := withReplica(t)
			const n = 6
			admin, copied := master.Client(t), replica.Client(t)
			first, hold, _, got := queueing(t, master, kind, n, rlock.WithReplicaAcks(1, time.Second))
			require.Equal(t, n, inLine(t, admin, first))
			before := testkit.Stats(t, admin)
			for i := range n {
				require.NoError(t, hold.Unlock(t.Context()))
				next := testkit.Within(t, "the next waiter has the lock", got)
				require.NoError(t, next.err)
				require.Equal(t, i, next.i)
				require.NotEmpty(t, testkit.Holders(t, copied, first.Name()), "a replica has it when Acquire returns")
				hold = next.hold
			}
			require.NoError(t, hold.Unlock(t.Context()))
			after := testkit.Stats(t, admin)
			require.LessOrEqual(t, after["evalsha"]-before["evalsha"], 3*n, "the others are not woken")
			require.GreaterOrEqual(t, after["wait"]-before["wait"], n, "each has waited until a replica has it")
			require.Zero(t, inLine(t, admin, first))
		})
	}
}

// TestClientsWithAndWithoutReplicaAcksTakeTurns without a waiter that sleeps beside the free lock.
func TestClientsWithAndWithoutReplicaAcksTakeTurns(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "fenced", "write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			master, _ := withReplica(t)
			name, inside := testkit.NewName(), 0
			var wg sync.WaitGroup
			passed := redistest.Stopwatch(t)
			for i := range 4 {
				opts := []rlock.Option{tune.PollInterval(testkit.Never)}
				if i%2 == 0 {
					opts = append(opts, rlock.WithReplicaAcks(1, time.Second))
				}
				lock := testkit.MakeLock(kind, testkit.NewClient(t, master.Client(t), opts...), name)
				for range 2 {
					wg.Go(func() {
						for range 25 {
							err := lock.Do(t.Context(), func(context.Context) error { inside++; return nil })
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			wg.Wait()
			require.Equal(t, 200, inside)
			require.Less(t, passed(), 200*20*time.Millisecond+slack)
			testkit.Eventually(t, "nobody stands in the line", func() bool {
				return master.Client(t).ZCard(t.Context(), "redisson_unlock_latch:{"+name+"}:waiters").Val() == 0
			})
		})
	}
}
