package trouble

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/observe"
)

// TestAnOutageIsObserved has a server freeze while one lock is held and another one is waited for: the renewal that fails and the one
// that succeeds again are told, and so are the loss of the subscription and its replacement.
func TestAnOutageIsObserved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	seen, observing := testkit.Observe(t)
	rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 300 * time.Millisecond})
	client := testkit.NewClient(t, rdb, observing, rlock.WithCommandTimeout(300*time.Millisecond), rlock.WithLogger(testkit.Discard))
	held := client.NewLock(testkit.NewName())
	hold := testkit.Must(held.Acquire(t.Context(), rlock.RenewedLease(6*time.Second)))
	waited := client.NewLock(testkit.NewName())
	rival := testkit.NewClient(t, server.Client(t)).NewLock(waited.Name())
	require.NoError(t, rival.Lock(t.Context()))
	waiting := testkit.Async(func() error { return waited.Lock(t.Context()) })
	testkit.Eventually(t, "it listens", func() bool { return testkit.Rests(waited) && testkit.Listens(waited) })

	proxy.Freeze()
	failed := seen.AwaitEvent(observe.EventRenewalFailed)
	require.Equal(t, held.Name(), failed.Name)
	require.Error(t, failed.Err)
	require.WithinDuration(t, time.Now(), failed.Time, testkit.ALongTime)
	lost := seen.AwaitEvent(observe.EventSubscriptionLost)
	require.Error(t, lost.Err)
	require.Empty(t, lost.Name)
	proxy.Thaw()
	require.Equal(t, held.Name(), seen.AwaitEvent(observe.EventRenewalRecovered).Name)
	seen.AwaitEvent(observe.EventSubscriptionReplaced)
	require.NoError(t, rival.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter has the lock", waiting))
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, waited.Unlock(t.Context()))
}
