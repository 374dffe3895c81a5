package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAcquireWithATotalWaitsForRedis as one without a total does, and for no longer than its Wait.
func TestAcquireWithATotalWaitsForRedis(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithCommandTimeout(500*time.Millisecond))
	name := testkit.NewName()
	f.Proxy.Freeze()
	got := make(chan *rlock.Hold, 1)
	go func() {
		hold, err := f.Client.NewSemaphore(name, rlock.Total(1)).Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- hold
	}()
	start, passed := time.Now(), redistest.Stopwatch(t)
	const wait = 2 * time.Second
	_, err := f.Client.NewSemaphore(name, rlock.Total(1)).Acquire(t.Context(), rlock.Wait(wait))
	require.ErrorIs(t, err, rlock.ErrUnavailable)
	require.GreaterOrEqual(t, time.Since(start), wait, "it waits out the outage, as the one without a limit does")
	require.Less(t, passed(), wait*3/2)
	require.Empty(t, got)
	f.Proxy.Thaw()
	hold := testkit.Within(t, "Redis is back", got)

	held := f.Proxy.HoldReply(1, evals) // that of setting it up
	time.AfterFunc(wait*3/4, held.Release)
	passed = redistest.Stopwatch(t)
	_, err = f.Client.NewSemaphore(name, rlock.Total(1)).Acquire(t.Context(), rlock.Wait(wait))
	require.Error(t, err)
	require.Less(t, passed(), wait*3/2, "one wait for both")
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestAQueryNeedNotWrite asks a server without memory with a new handle.
func TestAQueryNeedNotWrite(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for sort, semaphore := range sorts {
		t.Run(sort, func(t *testing.T) {
			name := testkit.NewName()
			client := testkit.NewClient(t, rdb)
			require.Equal(t, permitsInAll, testkit.Must(semaphore(client, name).AvailablePermits(t.Context())))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			n, err := semaphore(client, name).AvailablePermits(t.Context())
			signal := client.NewPlainSemaphore(name+":signals").Release(t.Context(), 1)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			require.NoError(t, err)
			require.Equal(t, permitsInAll, n)
			require.NoError(t, signal, "a signal gets through")
		})
	}
}

// TestManySignalsLeaveFewMarks releases permits often.
func TestManySignalsLeaveFewMarks(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		sem := client.NewPlainSemaphore(testkit.NewName())
		leased := client.NewSemaphore(testkit.NewName(), rlock.Total(1))
		for range 300 {
			require.NoError(t, sem.Release(t.Context(), 1))
			require.NoError(t, leased.SetPermits(context.Background(), 2))
		}
		for _, name := range []string{sem.Name(), leased.Name()} {
			require.LessOrEqual(t, rdb.HLen(t.Context(), "redisson_unlock_latch:{"+name+"}:"+client.ID()).Val(), int64(2))
		}
	})
}
