package claims

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
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
		three := testkit.Must(sem.Acquire(ctx, rlock.Permits(3)))
		require.Equal(t, 7, free())
		_, err = sem.TryAcquire(ctx, rlock.Permits(8))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.NotErrorIs(t, err, rlock.ErrNoPermits)
		seven := testkit.Must(sem.TryAcquire(ctx, rlock.Permits(7)))
		require.Zero(t, free())
		require.Equal(t, 10, client.Stats().Held+8, "two holds")

		waiter := testkit.Async(func() error { return sem.Do(ctx, func(context.Context) error { return nil }) })
		testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
		require.NoError(t, three.Unlock(ctx))
		require.NoError(t, testkit.Within(t, "the waiter has its turn", waiter))
		require.ErrorIs(t, three.Unlock(ctx), rlock.ErrNotHeld)
		require.Equal(t, 3, free())
		require.Equal(t, 3, testkit.Must(sem.DrainPermits(ctx)))
		require.Zero(t, testkit.Must(sem.DrainPermits(ctx)))

		require.NoError(t, sem.AddPermits(ctx, 4))
		require.NoError(t, sem.AddPermits(ctx, -6))
		require.Equal(t, -2, free())
		require.NoError(t, sem.Release(ctx, 1))
		require.Equal(t, -1, testkit.Must(sem.DrainPermits(ctx)))
		require.Zero(t, free())
		require.NoError(t, seven.Unlock(ctx))
		require.Equal(t, 7, free())
		require.True(t, testkit.Must(sem.Delete(ctx)))
		require.False(t, testkit.Must(sem.Delete(ctx)))
	})
}

// TestWaitersOfAPlainSemaphore has a caller who wants many permits stand before one who wants few, and more permits wake them.
func TestWaitersOfAPlainSemaphore(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb, rlock.WithPollInterval(testkit.Never))
		sem := client.NewPlainSemaphore(testkit.NewName(), rlock.Total(5))
		var holds []*rlock.Hold
		for range 3 {
			holds = append(holds, testkit.Must(sem.Acquire(ctx)))
		}
		order := make(chan int, 2)
		wait := func(n int) <-chan error {
			waiting := client.Stats().Waiting
			got := testkit.Async(func() error {
				return sem.Do(ctx, func(context.Context) error {
					order <- n
					return nil
				}, rlock.Permits(n))
			})
			testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == waiting+1 })
			return got
		}
		four := wait(4)
		one := wait(1)
		require.NoError(t, holds[0].Unlock(ctx))
		require.Equal(t, 3, testkit.Must(sem.AvailablePermits(ctx)))
		require.NoError(t, sem.AddPermits(ctx, 1))
		require.NoError(t, testkit.Within(t, "there are enough for the first", four))
		require.NoError(t, testkit.Within(t, "and for the second", one))
		require.Equal(t, []int{4, 1}, []int{<-order, <-order})
		for _, hold := range holds[1:] {
			require.NoError(t, hold.Unlock(ctx))
		}
		require.Equal(t, 6, testkit.Must(sem.AvailablePermits(ctx)))
	})
}

// TestAPlainSemaphoreExpires sets a semaphore up for a second.
func TestAPlainSemaphoreExpires(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		sem := testkit.NewClient(t, rdb).NewPlainSemaphore(testkit.NewName())
		require.True(t, testkit.Must(sem.TrySetPermits(ctx, 2, rlock.ExpireAfter(time.Second))))
		hold := testkit.Must(sem.Acquire(ctx))
		require.NoError(t, sem.AddPermits(ctx, 1))
		require.Equal(t, 2, testkit.Must(sem.DrainPermits(ctx)))
		testkit.Eventually(t, "it is gone", func() bool { return rdb.Exists(ctx, sem.Name()).Val() == 0 })
		require.NoError(t, hold.Unlock(ctx))
		require.Zero(t, rdb.Exists(ctx, sem.Name()).Val(), "an unlock does not make the semaphore again")
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
		hold := testkit.Must(sem.Acquire(t.Context(), rlock.Permits(2)))
		require.Nil(t, hold.PermitIDs())
		require.Zero(t, hold.Deadline())
		require.NoError(t, hold.Err())
		require.ErrorIs(t, hold.Extend(t.Context(), time.Minute), rlock.ErrInvalidOption)
		require.NoError(t, rdb.Del(t.Context(), sem.Name()).Err())
		require.NoError(t, hold.Unlock(t.Context()))
		require.Zero(t, rdb.Exists(t.Context(), sem.Name()).Val(), "the unlock of a hold does not make a semaphore")
	})
}

// TestASignalIsConsumed takes one of two signals away, as docs/semaphores.md says.
func TestASignalIsConsumed(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		signals := testkit.NewClient(t, rdb).NewPlainSemaphore(testkit.NewName())
		require.NoError(t, signals.Release(t.Context(), 2))
		for left := 1; left >= 0; left-- {
			hold := testkit.Must(signals.Acquire(t.Context()))
			require.NoError(t, errors.Join(signals.AddPermits(t.Context(), -1), hold.Unlock(t.Context())))
			require.Equal(t, left, testkit.Must(signals.AvailablePermits(t.Context())))
		}
		_, err := signals.TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
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
			client := testkit.NewClient(t, rdb, rlock.WithPollInterval(testkit.Never))
			sem := client.NewPlainSemaphore(name, rlock.Total(math.MaxInt32))
			for j := range 5 {
				working.Go(func() {
					for k := range 5 {
						n := int64(1)
						if (i+j+k)%3 == 0 {
							n = math.MaxInt32
						}
						err := sem.Do(t.Context(), func(context.Context) error {
							now := inside.Add(n)
							for high := most.Load(); now > high && !most.CompareAndSwap(high, now); high = most.Load() {
							}
							inside.Add(-n)
							return nil
						}, rlock.Permits(int(n)))
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

// TestADroppedPlainPermitComesBack forgets a hold, which nobody else could release.
func TestADroppedPlainPermitComesBack(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		logged, log := testkit.Recording()
		sem := testkit.NewClient(t, rdb, logged).NewPlainSemaphore(testkit.NewName(), rlock.Total(4))
		func() {
			hold := testkit.Must(sem.Acquire(t.Context(), rlock.Permits(3)))
			require.NoError(t, hold.Err())
		}()
		require.Equal(t, 1, testkit.Must(sem.AvailablePermits(t.Context())))
		testkit.Eventually(t, "the permits are free", func() bool {
			runtime.GC()
			return testkit.Must(sem.AvailablePermits(t.Context())) == 4
		})
		testkit.Eventually(t, "that is logged", func() bool {
			return log.Contains("hold dropped without Unlock; its permits are given back")
		})
	})
}

// TestADroppedPlainPermitIsOver keeps the channel of a dropped hold, which closes before somebody else has the permit.
func TestADroppedPlainPermitIsOver(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		logged, _ := testkit.Recording()
		sem := testkit.NewClient(t, rdb, logged).NewPlainSemaphore(testkit.NewName(), rlock.Total(1))
		done := func() <-chan struct{} { return testkit.Must(sem.Acquire(t.Context())).Done() }()
		testkit.Eventually(t, "another has the permit", func() bool {
			runtime.GC()
			_, err := sem.TryAcquire(t.Context())
			return err == nil
		})
		testkit.Within(t, "the first one is over", done)
	})
}

// TestCloseTellsOfPlainPermits closes a client with holds. They can still be unlocked.
func TestCloseTellsOfPlainPermits(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		logged, log := testkit.Recording()
		client := testkit.NewClient(t, rdb, logged)
		sem := client.NewPlainSemaphore(testkit.NewName(), rlock.Total(4))
		holds := []*rlock.Hold{testkit.Must(sem.Acquire(t.Context())), testkit.Must(sem.Acquire(t.Context(), rlock.Permits(2)))}
		lock := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context()))
		require.NoError(t, client.Close())
		testkit.Eventually(t, "that is logged", func() bool {
			return log.Contains("client closed while it holds permits of plain semaphores; only Unlock gives them back")
		})
		for _, hold := range append(holds, lock) {
			require.ErrorIs(t, hold.Err(), rlock.ErrClosed)
			require.NoError(t, hold.Unlock(t.Context()))
		}
		left := testkit.NewClient(t, rdb).NewPlainSemaphore(sem.Name())
		require.Equal(t, 4, testkit.Must(left.AvailablePermits(t.Context())))
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
				errOf(s.Acquire(ctx)), errOf(s.TryAcquire(ctx)), errOf(s.TrySetPermits(ctx, 1)), s.AddPermits(ctx, 1), s.Release(ctx, 1),
				errOf(s.AvailablePermits(ctx)), errOf(s.DrainPermits(ctx)), errOf(s.Delete(ctx)),
			} {
				require.ErrorIs(t, err, rlock.ErrInvalidOption)
			}
			_, held := rlock.HoldFrom(ctx, s)
			require.False(t, held)
		}
		require.ErrorIs(t, errOf(client.NewPlainSemaphore("").Acquire(ctx)), rlock.ErrInvalidName)
		sem := client.NewPlainSemaphore(testkit.NewName())
		for _, opt := range []rlock.AcquireOption{
			rlock.Permits(0), rlock.Permits(-1), rlock.Permits(1 << 31), rlock.Lease(time.Minute), rlock.RenewedLease(time.Minute), {},
		} {
			require.ErrorIs(t, errOf(sem.Acquire(ctx, opt)), rlock.ErrInvalidOption)
		}
		for _, err := range []error{
			sem.AddPermits(ctx, 1<<31), sem.Release(ctx, 0), sem.Release(ctx, -1), sem.Release(ctx, 1<<31),
			errOf(sem.TrySetPermits(ctx, -1)), errOf(sem.TrySetPermits(ctx, 1<<31)),
			errOf(sem.TrySetPermits(ctx, 1, rlock.ExpireAfter(0))),
		} {
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
		}
		require.Empty(t, testkit.Must(rdb.Keys(ctx, "*"+sem.Name()+"*").Result()))
		require.True(t, testkit.Must(sem.TrySetPermits(ctx, math.MaxInt32)))
		require.ErrorIs(t, sem.Release(ctx, 1), rlock.ErrInvalidOption)

		foreign := client.NewPlainSemaphore(testkit.NewName())
		require.NoError(t, rdb.Set(ctx, foreign.Name(), 1, 0).Err())
		hold := testkit.Must(foreign.Acquire(ctx))
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
		require.ErrorContains(t, hold.Unlock(ctx), "12345678901234567890")
		require.NoError(t, rdb.Set(ctx, foreign.Name(), 0, 0).Err())
		testkit.Eventually(t, "the permit comes back once that is mended", func() bool { return rdb.Get(ctx, foreign.Name()).Val() == "1" })
	})
}
