package claims

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestAPlainSemaphoreCounts(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		sem := client.NewPlainSemaphore(testkit.NewName())
		free := func() int { return testkit.Must(sem.AvailablePermits(ctx)) }
		require.Zero(t, free())
		require.Zero(t, testkit.Must(sem.DrainPermits(ctx)))
		_, err := sem.TryAcquire(ctx)
		require.ErrorIs(t, err, rlock.ErrNoPermits)
		require.Zero(t, rdb.Exists(ctx, sem.Name()).Val())

		require.True(t, testkit.Must(sem.TrySetPermits(ctx, 10)))
		require.False(t, testkit.Must(sem.TrySetPermits(ctx, 15)))
		require.NoError(t, sem.Acquire(ctx, rlock.Permits(3)))
		require.Equal(t, 7, free())
		require.False(t, testkit.Must(sem.TryAcquire(ctx, rlock.Permits(8))))
		require.True(t, testkit.Must(sem.TryAcquire(ctx, rlock.Permits(7))))
		require.Zero(t, free())

		waiter := testkit.Async(func() error { return sem.Acquire(ctx) })
		testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
		require.NoError(t, sem.Release(ctx, 3))
		require.NoError(t, testkit.Within(t, "the waiter has its turn", waiter))
		require.NoError(t, sem.Release(ctx, 1))
		require.Equal(t, 3, free())
		require.Equal(t, 3, testkit.Must(sem.DrainPermits(ctx)))
		require.Zero(t, testkit.Must(sem.DrainPermits(ctx)))

		require.NoError(t, sem.AddPermits(ctx, 4))
		require.NoError(t, sem.AddPermits(ctx, -6))
		require.Equal(t, -2, free())
		require.NoError(t, sem.Release(ctx, 1))
		require.Equal(t, -1, testkit.Must(sem.DrainPermits(ctx)))
		require.Zero(t, free())
		require.NoError(t, sem.Release(ctx, 7))
		require.Equal(t, 7, free())
		require.True(t, testkit.Must(sem.Delete(ctx)))
		require.False(t, testkit.Must(sem.Delete(ctx)))
	})
}

// TestAPlainSemaphoreExpires sets a semaphore up for a second.
func TestAPlainSemaphoreExpires(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		sem := testkit.NewClient(t, rdb).NewPlainSemaphore(testkit.NewName(), rlock.ExpireAfter(time.Second))
		require.True(t, testkit.Must(sem.TrySetPermits(ctx, 2)))
		require.NoError(t, sem.Acquire(ctx))
		require.NoError(t, sem.AddPermits(ctx, 1))
		require.Equal(t, 2, testkit.Must(sem.DrainPermits(ctx)))
		testkit.Eventually(t, "it is gone", func() bool { return rdb.Exists(ctx, sem.Name()).Val() == 0 })
	})
}

// TestASignalMakesAPlainSemaphore releases permits that nobody has acquired.
func TestASignalMakesAPlainSemaphore(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		sem := testkit.NewClient(t, rdb).NewPlainSemaphore(testkit.NewName())
		require.NoError(t, sem.Release(t.Context(), 1))
		require.NoError(t, sem.Release(t.Context(), 1))
		require.NoError(t, sem.Acquire(t.Context(), rlock.Permits(2)))
		require.False(t, testkit.Must(sem.TryAcquire(t.Context())))
	})
}

// TestAPlainSemaphoreIsNeverOverbooked has some callers take one permit, and others all that there can be.
func TestAPlainSemaphoreIsNeverOverbooked(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		name := testkit.NewName()
		var inside, most atomic.Int64
		var working sync.WaitGroup
		for i := range 4 {
			client := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never))
			sem := client.NewPlainSemaphore(name, rlock.Total(math.MaxInt32))
			for j := range 5 {
				working.Go(func() {
					for k := range 5 {
						n := int64(1)
						if (i+j+k)%3 == 0 {
							n = math.MaxInt32
						}
						err := sem.Acquire(t.Context(), rlock.Permits(int(n)))
						if err == nil {
							now := inside.Add(n)
							for high := most.Load(); now > high && !most.CompareAndSwap(high, now); high = most.Load() {
							}
							inside.Add(-n)
							err = sem.Release(t.Context(), int(n))
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		working.Wait()
		require.LessOrEqual(t, most.Load(), int64(math.MaxInt32))
		sem := testkit.NewClient(t, rdb).NewPlainSemaphore(name)
		require.Equal(t, math.MaxInt32, testkit.Must(sem.AvailablePermits(t.Context())))
	})
}

func TestBadInputOfAPlainSemaphoreChangesNothing(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		var none *rlock.PlainSemaphore
		invalid := []*rlock.PlainSemaphore{
			none, new(rlock.PlainSemaphore), client.NewPlainSemaphore("x", nil), client.NewPlainSemaphore("x", rlock.Total(-1)),
		}
		for _, s := range invalid {
			for _, err := range []error{
				s.Acquire(ctx), errOf(s.TryAcquire(ctx)), errOf(s.TrySetPermits(ctx, 1)), s.AddPermits(ctx, 1), s.Release(ctx, 1),
				errOf(s.AvailablePermits(ctx)), errOf(s.DrainPermits(ctx)), errOf(s.Delete(ctx)),
			} {
				require.ErrorIs(t, err, rlock.ErrInvalidOption)
			}
		}
		require.ErrorIs(t, client.NewPlainSemaphore("").Acquire(ctx), rlock.ErrInvalidName)
		sem := client.NewPlainSemaphore(testkit.NewName())
		for _, opt := range []rlock.AcquireOption{
			rlock.Permits(0), rlock.Permits(-1), rlock.Permits(1 << 31), rlock.Lease(time.Minute), rlock.RenewedLease(time.Minute), nil,
		} {
			require.ErrorIs(t, sem.Acquire(ctx, opt), rlock.ErrInvalidOption)
		}
		for _, err := range []error{
			sem.AddPermits(ctx, 1<<31), sem.Release(ctx, 0), sem.Release(ctx, -1), sem.Release(ctx, 1<<31),
			errOf(sem.TrySetPermits(ctx, -1)), errOf(sem.TrySetPermits(ctx, 1<<31)),
			errOf(client.NewPlainSemaphore(sem.Name(), rlock.ExpireAfter(0)).TrySetPermits(ctx, 1)),
		} {
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
		}
		require.Empty(t, testkit.Must(rdb.Keys(ctx, "*"+sem.Name()+"*").Result()))
		require.True(t, testkit.Must(sem.TrySetPermits(ctx, math.MaxInt32)))
		require.ErrorIs(t, sem.Release(ctx, 1), rlock.ErrInvalidOption)

		foreign := client.NewPlainSemaphore(testkit.NewName())
		require.NoError(t, rdb.Set(ctx, foreign.Name(), 1, 0).Err())
		require.NoError(t, foreign.Acquire(ctx))
		for _, value := range []string{"abc", "1.5", "12345678901234567890"} {
			require.NoError(t, rdb.Set(ctx, foreign.Name(), value, 0).Err())
			for _, err := range []error{
				errOf(foreign.TryAcquire(ctx)), foreign.AddPermits(ctx, 1), foreign.Release(ctx, 1), errOf(foreign.TrySetPermits(ctx, 1)),
				errOf(foreign.AvailablePermits(ctx)), errOf(foreign.DrainPermits(ctx)), errOf(foreign.Delete(ctx)),
			} {
				require.ErrorContains(t, err, foreign.Name())
				require.ErrorContains(t, err, value)
				require.NotErrorIs(t, err, rlock.ErrUnavailable)
			}
			require.Equal(t, value, rdb.Get(ctx, foreign.Name()).Val())
		}
	})
}
