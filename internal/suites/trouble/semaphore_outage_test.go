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
	"github.com/go-rlock/rlock/internal/testkit/connect"
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

// TestCloseTellsOfPlainPermitsThatWereNotGivenBack closes a client whose release has no reply.
func TestCloseTellsOfPlainPermitsThatWereNotGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	logger, log := testkit.Recording()
	client, finish, err := connect.Open(server.Client(t), logger, rlock.WithCommandTimeout(300*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(finish)
	sem := client.NewPlainSemaphore(testkit.NewName(), rlock.Total(1))
	hold := testkit.Must(sem.Acquire(t.Context()))
	server.Pause()
	t.Cleanup(server.Resume)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrUnavailable)
	require.NoError(t, client.Close())
	testkit.Eventually(t, "that is logged", func() bool {
		return log.Contains("client closed before permits of plain semaphores were given back")
	})
}

// TestAnAcquisitionThatRedisLostIsNotGivenBack has a failover forget an acquisition of a plain permit.
func TestAnAcquisitionThatRedisLostIsNotGivenBack(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		logger, log := testkit.Recording()
		client := testkit.NewClient(t, rdb, logger)
		sem := client.NewPlainSemaphore(testkit.NewName(), rlock.Total(2))
		hold := testkit.Must(sem.Acquire(t.Context()))
		require.NoError(t, rdb.Del(t.Context(), "redisson_unlock_latch:{"+sem.Name()+"}:"+client.ID()).Err())
		require.NoError(t, rdb.Set(t.Context(), sem.Name(), 2, 0).Err()) // as the replica has it
		require.NoError(t, hold.Unlock(t.Context()))
		require.Equal(t, 2, testkit.Must(sem.AvailablePermits(t.Context())))
		testkit.Eventually(t, "that is logged", func() bool {
			return log.Contains("permits were not given back: Redis no longer knows that this process has them")
		})
	})
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
