package trouble

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// Two processes take turns while every subscription connection is killed twenty times a second. A process that releases the lock
// asks for it again only when the other process has it. So only a message or a new subscription can wake the waiter. Polling,
// the end of a lease or another release cannot.
func TestTurnsContinueWhileSubscriptionsAreKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "fair", "write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admin := server.Client(t)
			name := testkit.NewName()
			var locks [2]*rlock.Lock
			for i := range locks {
				locks[i] = testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)), name)
			}
			const kills = 60
			killing := testkit.Async(func() error {
				for range kills {
					if err := admin.ClientKillByFilter(t.Context(), "type", "pubsub").Err(); err != nil {
						return err
					}
					<-time.After(50 * time.Millisecond)
				}
				return nil
			})
			require.NoError(t, locks[0].Lock(t.Context(), rlock.Lease(testkit.Never)))
			turns, worst := 0, time.Duration(0)
			for ; len(killing) == 0; turns++ {
				holder, next := locks[turns%2], locks[(turns+1)%2]
				waiting := testkit.Async(func() error { return next.Lock(t.Context(), rlock.Lease(testkit.Never)) })
				testkit.Eventually(t, "the other process waits", func() bool { return testkit.Waiting(next) == 1 })
				<-time.After(time.Millisecond) // usually it is subscribed by then, and sleeps
				start := time.Now()
				require.NoError(t, holder.Unlock(t.Context()))
				require.NoError(t, testkit.Within(t, "the waiter is woken", waiting))
				worst = max(worst, time.Since(start))
			}
			require.NoError(t, locks[turns%2].Unlock(t.Context()))
			require.NoError(t, <-killing)
			require.Greater(t, turns, kills/6) // nobody polls, so each of them was woken
			t.Logf("%d turns, the longest wait was %v", turns, worst)
		})
	}
}
