package trouble

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAnOutageIsObserved has a server freeze while one lock is held and another one is waited for: the renewal that fails and the one
// that succeeds again are told, and so are the loss of the subscription and its replacement.
func TestAnOutageIsObserved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	seen, observe := testkit.Observe(t)
	rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 300 * time.Millisecond})
	client := testkit.NewClient(t, rdb, observe, rlock.WithCommandTimeout(300*time.Millisecond), rlock.WithLogger(testkit.Discard))
	held := client.NewLock(testkit.NewName())
	hold := testkit.Must(held.Acquire(t.Context(), rlock.RenewedLease(6*time.Second)))
	waited := client.NewLock(testkit.NewName())
	rival := testkit.NewClient(t, server.Client(t)).NewLock(waited.Name())
	require.NoError(t, rival.Lock(t.Context()))
	waiting := testkit.Async(func() error { return waited.Lock(t.Context()) })
	testkit.Eventually(t, "it listens", func() bool { return testkit.Rests(waited) && testkit.Listens(waited) })

	proxy.Freeze()
	failed := seen.AwaitEvent(rlock.EventRenewalFailed)
	require.Equal(t, held.Name(), failed.Name)
	require.Error(t, failed.Err)
	require.WithinDuration(t, time.Now(), failed.Time, testkit.ALongTime)
	lost := seen.AwaitEvent(rlock.EventSubscriptionLost)
	require.Error(t, lost.Err)
	require.Empty(t, lost.Name)
	proxy.Thaw()
	require.Equal(t, held.Name(), seen.AwaitEvent(rlock.EventRenewalRecovered).Name)
	seen.AwaitEvent(rlock.EventSubscriptionReplaced)
	require.NoError(t, rival.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter has the lock", waiting))
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, waited.Unlock(t.Context()))
}

// TestAWaitForOnesOwnHoldIsObserved tells of a possible self-deadlock.
func TestAWaitForOnesOwnHoldIsObserved(t *testing.T) {
	t.Parallel()
	seen, observe := testkit.Observe(t)
	client := testkit.NewClient(t, redistest.Embedded(t), observe, rlock.WithLogger(testkit.Discard))
	lock := client.NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context()))
	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	require.Equal(t, lock.Name(), seen.AwaitEvent(rlock.EventSelfDeadlock).Name)
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter has the lock", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}
