package claims

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestASemaphoreThatIsGoneIsSetUpAgain deletes a semaphore. A handle with a total sets it up again, for those who wait, too.
func TestASemaphoreThatIsGoneIsSetUpAgain(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb, tune.PollInterval(100*time.Millisecond))
		sem := client.NewSemaphore(testkit.NewName(), rlock.Total(2))
		gone := func() { require.NoError(t, rdb.Del(t.Context(), sem.Name(), "{"+sem.Name()+"}:timeout").Err()) }
		for _, opts := range [][]rlock.AcquireOption{{}, {rlock.Wait(time.Minute)}, {rlock.Permits(2)}} {
			require.NoError(t, testkit.Must(sem.Acquire(t.Context(), opts...)).Unlock(t.Context()))
			gone()
			require.NoError(t, testkit.Must(sem.Acquire(t.Context(), opts...)).Unlock(t.Context()))
			gone()
			require.NoError(t, testkit.Must(sem.TryAcquire(t.Context(), opts...)).Unlock(t.Context()))
		}
		both := testkit.Must(sem.Acquire(t.Context(), rlock.Permits(2)))
		waiter := testkit.Async(func() error { return sem.Do(t.Context(), func(context.Context) error { return nil }) })
		testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
		gone()
		require.NoError(t, testkit.Within(t, "the semaphore is there again", waiter))
		require.ErrorIs(t, both.Unlock(t.Context()), rlock.ErrLost)
		require.Equal(t, [3]int{2, 0, 2}, counts(t, sem))
	})
}

// TestPermitsThatAreOutStayOut deletes the number of a semaphore alone. Who sets it up again sets up no more than its total.
func TestPermitsThatAreOutStayOut(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		sem := client.NewSemaphore(testkit.NewName(), rlock.Total(2))
		hold := testkit.Must(sem.Acquire(t.Context()))
		require.NoError(t, rdb.Del(t.Context(), sem.Name()).Err())
		again := client.NewSemaphore(sem.Name(), rlock.Total(2))
		require.Equal(t, [3]int{1, 1, 2}, counts(t, again))
		require.NoError(t, hold.Unlock(t.Context()))
		require.Equal(t, [3]int{2, 0, 2}, counts(t, again))
	})
}

// TestARepeatedAcquireFindsItsPermit although fewer permits were set meanwhile than are out.
func TestARepeatedAcquireFindsItsPermit(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick())
	name := testkit.NewName()
	direct := testkit.NewClient(t, f.Direct).NewSemaphore(name, rlock.Total(2))
	require.Equal(t, [3]int{2, 0, 2}, counts(t, direct))
	lost := f.Proxy.DropReply(-1, func(c redistest.Command) bool { return strings.HasPrefix(c[0], "eval") })
	got := make(chan *rlock.Hold, 1)
	go func() {
		hold, err := f.Client.NewSemaphore(name).Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- hold
	}()
	testkit.Eventually(t, "Redis has it", func() bool { return counts(t, direct)[1] == 1 })
	require.NoError(t, direct.SetPermits(t.Context(), 0))
	lost.Release()
	require.NoError(t, testkit.Within(t, "so has the caller", got).Unlock(t.Context()))
	require.Equal(t, [3]int{0, 0, 0}, counts(t, direct))
}
