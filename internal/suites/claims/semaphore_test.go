package claims

import (
	"context"
	"errors"
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

// counts are the permits of a semaphore: free, out and in all.
func counts(t *testing.T, s *rlock.Semaphore) [3]int {
	t.Helper()
	free, all := testkit.Must(s.AvailablePermits(t.Context())), testkit.Must(s.Permits(t.Context()))
	return [3]int{free, all - free, all}
}

func TestASemaphoreAdmitsAsManyAsItHasPermits(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
		name := testkit.NewName()
		sem := client.NewSemaphore(name, rlock.Total(3))
		require.Equal(t, [3]int{3, 0, 3}, counts(t, sem))
		two, err := sem.Acquire(t.Context(), rlock.Permits(2))
		require.NoError(t, err)
		require.Len(t, two.PermitIDs(), 2)
		one := testkit.Must(other.NewSemaphore(name).TryAcquire(t.Context()))
		require.Equal(t, [3]int{0, 3, 3}, counts(t, sem))
		_, err = sem.TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.NotErrorIs(t, err, rlock.ErrNoPermits)

		waiter := testkit.Async(func() error {
			hold, err := sem.Acquire(t.Context())
			if err == nil {
				err = hold.Unlock(t.Context())
			}
			return err
		})
		testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
		require.NoError(t, one.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the waiter has its turn", waiter))
		require.NoError(t, two.Unlock(t.Context()))
		require.ErrorIs(t, two.Unlock(t.Context()), rlock.ErrNotHeld)
		require.Equal(t, [3]int{3, 0, 3}, counts(t, sem))
	})
}

func TestAnUnsetSemaphoreHasNoPermits(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		sem := client.NewSemaphore(testkit.NewName())
		require.Equal(t, [3]int{}, counts(t, sem))
		_, err := sem.TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrNoPermits)
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.ErrorContains(t, err, "rlock: try acquire ")
		require.ErrorContains(t, err, ": not acquired: nobody has set the semaphore up")
		_, err = sem.Acquire(t.Context(), rlock.Wait(10*time.Millisecond))
		require.ErrorIs(t, err, rlock.ErrNoPermits)
		ran, err := sem.TryDo(t.Context(), func(context.Context) error { return nil })
		require.ErrorIs(t, err, rlock.ErrNoPermits)
		require.False(t, ran)

		waiter := testkit.Async(func() error { return sem.Do(t.Context(), func(context.Context) error { return nil }) })
		testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
		require.True(t, testkit.Must(sem.TrySetPermits(t.Context(), 1)))
		require.NoError(t, testkit.Within(t, "somebody has set it up", waiter))
		require.False(t, testkit.Must(sem.TrySetPermits(t.Context(), 2)))
		require.Equal(t, [3]int{1, 0, 1}, counts(t, sem))
	})
}

func TestTheTotalOfASemaphoreChanges(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		sem := testkit.NewClient(t, rdb).NewSemaphore(testkit.NewName())
		require.NoError(t, sem.SetPermits(t.Context(), 10))
		require.NoError(t, sem.SetPermits(t.Context(), 15))
		hold := testkit.Must(sem.Acquire(t.Context(), rlock.Permits(3)))
		for _, total := range []int{15, 5, 3, 2} {
			require.NoError(t, sem.SetPermits(t.Context(), total))
			require.Equal(t, [3]int{total - 3, 3, total}, counts(t, sem))
		}
		require.NoError(t, sem.AddPermits(t.Context(), 5))
		require.Equal(t, [3]int{4, 3, 7}, counts(t, sem))
		require.NoError(t, sem.AddPermits(t.Context(), -10))
		require.Equal(t, [3]int{-6, 3, -3}, counts(t, sem))
		require.NoError(t, hold.Unlock(t.Context()))
		require.Equal(t, [3]int{-3, 0, -3}, counts(t, sem))
		require.NoError(t, sem.SetPermits(t.Context(), 1<<31-1))
		require.ErrorIs(t, sem.AddPermits(t.Context(), 1), rlock.ErrInvalidOption)
		require.Equal(t, [3]int{1<<31 - 1, 0, 1<<31 - 1}, counts(t, sem))
		require.True(t, testkit.Must(sem.Delete(t.Context())))
		require.False(t, testkit.Must(sem.Delete(t.Context())))
	})
}

func TestPermitsHaveIDs(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		sem := testkit.NewClient(t, rdb).NewSemaphore(testkit.NewName(), rlock.Total(10))
		hold := testkit.Must(sem.Acquire(t.Context(), rlock.Permits(6)))
		ids := hold.PermitIDs()
		require.NoError(t, sem.Release(t.Context(), ids[:4]...))
		require.Equal(t, [3]int{8, 2, 10}, counts(t, sem))
		require.ErrorIs(t, sem.Release(t.Context(), ids...), rlock.ErrNotHeld)
		require.Equal(t, [3]int{8, 2, 10}, counts(t, sem))
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost, "four of its permits were given back elsewhere")
		require.Equal(t, [3]int{10, 0, 10}, counts(t, sem), "the others are given back nevertheless")
	})
}

// TestAPermitOfADeadHolderComesBack has a waiter notice by itself that a lease is over.
func TestAPermitOfADeadHolderComesBack(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, logger := testkit.NewClient(t, rdb), tune.PollInterval(testkit.Never)
		name := testkit.NewName()
		hold := testkit.Must(client.NewSemaphore(name, rlock.Total(1)).Acquire(t.Context(), rlock.Lease(300*time.Millisecond)))
		sem := testkit.NewClient(t, rdb, logger).NewSemaphore(name)
		next := testkit.Must(sem.Acquire(t.Context()))
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		require.Equal(t, [3]int{0, 1, 1}, counts(t, sem))
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// TestPermitsAreRenewed holds permits for several leases, and then takes one away.
func TestPermitsAreRenewed(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		sem := client.NewSemaphore(testkit.NewName(), rlock.Total(5))
		hold := testkit.Must(sem.Acquire(t.Context(), rlock.Permits(3), rlock.RenewedLease(900*time.Millisecond)))
		testkit.Eventually(t, "it was renewed often", func() bool { return client.Stats().Renewals >= 4 })
		require.NoError(t, hold.Err())
		require.Equal(t, [3]int{2, 3, 5}, counts(t, sem))
		require.NoError(t, sem.Release(t.Context(), hold.PermitIDs()[1]))
		<-hold.Done()
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		testkit.Eventually(t, "the others are given back", func() bool { return counts(t, sem) == [3]int{5, 0, 5} })
	})
}

func TestAContextOfAPermitIsNoOwner(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		sem := testkit.NewClient(t, rdb).NewSemaphore(testkit.NewName(), rlock.Total(2))
		ctx := rlock.WithOwner(t.Context())
		require.NoError(t, sem.Do(ctx, func(ctx context.Context) error {
			hold, held := rlock.HoldFrom(ctx, sem)
			require.True(t, held)
			require.Len(t, hold.PermitIDs(), 1)
			return sem.Do(ctx, func(ctx context.Context) error {
				inner, _ := rlock.HoldFrom(ctx, sem)
				require.NotEqual(t, hold.PermitIDs(), inner.PermitIDs())
				require.Equal(t, [3]int{0, 2, 2}, counts(t, sem))
				_, err := sem.TryAcquire(ctx)
				require.ErrorIs(t, err, rlock.ErrNotAcquired)
				return nil
			})
		}))
		value, err := rlock.DoValue(ctx, sem, func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		require.Equal(t, 7, value)
	})
}

// TestASemaphoreIsNeverOverbooked has many goroutines of several clients take one or two permits each.
func TestASemaphoreIsNeverOverbooked(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		const total = 3
		name := testkit.NewName()
		var inside, most atomic.Int64
		var working sync.WaitGroup
		for i := range 4 {
			sem := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never)).NewSemaphore(name, rlock.Total(total))
			for j := range 6 {
				working.Go(func() {
					for range 10 {
						n := int64((i+j)%2 + 1)
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
		require.LessOrEqual(t, most.Load(), int64(total))
		sem := testkit.NewClient(t, rdb).NewSemaphore(name)
		require.Equal(t, [3]int{total, 0, total}, counts(t, sem))
	})
}

func TestBadInputOfASemaphoreChangesNothing(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		sem := client.NewSemaphore(testkit.NewName())
		var none *rlock.Semaphore
		id := "00112233445566778899aabbccddeeff"
		for _, s := range []*rlock.Semaphore{none, new(rlock.Semaphore), client.NewSemaphore("x", nil), client.NewSemaphore("x", rlock.Total(-1))} {
			_, err := s.Acquire(ctx)
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
			_, err = s.TrySetPermits(ctx, 1)
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
			_, err = s.Permits(ctx)
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
			_, held := rlock.HoldFrom(ctx, s)
			require.False(t, held)
		}
		_, err := client.NewSemaphore("").Acquire(ctx)
		require.ErrorIs(t, err, rlock.ErrInvalidName)
		for _, opt := range []rlock.AcquireOption{rlock.Permits(0), rlock.Permits(-1), rlock.Permits(1001), nil} {
			_, err := sem.Acquire(ctx, opt)
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
		}
		_, err = client.NewLock("x").TryAcquire(ctx, rlock.Permits(1))
		require.ErrorIs(t, err, rlock.ErrInvalidOption)
		for _, err := range []error{
			sem.SetPermits(ctx, -1), sem.SetPermits(ctx, 1<<31), sem.AddPermits(ctx, 1<<31), sem.Release(ctx),
			sem.Release(ctx, id, id), sem.Release(ctx, "no hex"), sem.Release(ctx, id[2:]),
			errOf(sem.TrySetPermits(ctx, -1)), errOf(client.NewSemaphore(sem.Name(), rlock.ExpireAfter(0)).TrySetPermits(ctx, 1)),
		} {
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
		}
		require.Empty(t, testkit.Must(rdb.Keys(ctx, "*"+sem.Name()+"*").Result()))

		foreign := client.NewSemaphore(testkit.NewName())
		for _, value := range []any{"abc", "1.5", "12345678901234567890"} {
			require.NoError(t, rdb.Set(ctx, foreign.Name(), value, 0).Err())
			for _, err := range []error{
				errOf(foreign.TryAcquire(ctx)), foreign.SetPermits(ctx, 3), foreign.AddPermits(ctx, 1), foreign.Release(ctx, id),
				errOf(foreign.TrySetPermits(ctx, 1)), errOf(foreign.Permits(ctx)), errOf(foreign.Delete(ctx)),
			} {
				require.ErrorContains(t, err, foreign.Name())
				require.ErrorContains(t, err, value.(string))
				require.NotErrorIs(t, err, rlock.ErrUnavailable)
			}
			require.Equal(t, value, rdb.Get(ctx, foreign.Name()).Val())
		}
		require.NoError(t, rdb.Del(ctx, foreign.Name()).Err())
		require.NoError(t, rdb.HSet(ctx, foreign.Name(), "a", "b").Err())
		_, err = foreign.TryAcquire(ctx)
		require.ErrorContains(t, err, "a value that is not a semaphore")
		require.Equal(t, map[string]string{"a": "b"}, rdb.HGetAll(ctx, foreign.Name()).Val())
	})
}

func errOf[T any](_ T, err error) error { return errors.Join(err) }

// TestPermitsWhoseLeasesAreOver has Redis count them as free before anybody takes them back, and nobody release them.
func TestPermitsWhoseLeasesAreOver(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		sem := testkit.NewClient(t, rdb).NewSemaphore(testkit.NewName(), rlock.Total(10))
		short := testkit.Must(sem.Acquire(ctx, rlock.Permits(3), rlock.Lease(time.Second)))
		long := testkit.Must(sem.Acquire(ctx, rlock.Permits(3)))
		_, err := sem.TryAcquire(ctx, rlock.Permits(5))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.Equal(t, [3]int{4, 6, 10}, counts(t, sem))
		testkit.Eventually(t, "the short leases are over", func() bool { return counts(t, sem) == [3]int{7, 3, 10} })

		mixed := []string{long.PermitIDs()[0], short.PermitIDs()[0]}
		require.ErrorIs(t, sem.Release(ctx, mixed...), rlock.ErrNotHeld, "one of them is over")
		require.Equal(t, [3]int{7, 3, 10}, counts(t, sem))
		require.ErrorIs(t, short.Unlock(ctx), rlock.ErrLost)
		require.NoError(t, sem.Release(ctx, long.PermitIDs()...))
		require.ErrorIs(t, sem.Release(ctx, long.PermitIDs()...), rlock.ErrNotHeld, "once")
		all := testkit.Must(sem.TryAcquire(ctx, rlock.Permits(10)))
		require.Equal(t, [3]int{0, 10, 10}, counts(t, sem))
		require.NoError(t, all.Unlock(ctx))
		require.ErrorIs(t, long.Unlock(ctx), rlock.ErrLost)
	})
}

// TestASemaphoreExpires has a semaphore and the leases of its permits expire together.
func TestASemaphoreExpires(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		sem := testkit.NewClient(t, rdb).NewSemaphore(testkit.NewName(), rlock.ExpireAfter(time.Second))
		require.True(t, testkit.Must(sem.TrySetPermits(ctx, 2)))
		hold := testkit.Must(sem.Acquire(ctx, rlock.Lease(time.Hour)))
		require.NoError(t, sem.AddPermits(ctx, 1))
		keys := []string{sem.Name(), "{" + sem.Name() + "}:timeout"}
		testkit.Eventually(t, "both keys are gone", func() bool { return rdb.Exists(ctx, keys...).Val() == 0 })
		require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrLost)
		require.Zero(t, rdb.Exists(ctx, keys...).Val(), "an unlock does not make the semaphore again")
	})
}
