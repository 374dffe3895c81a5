package conform

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func excludesGoroutines(f *fixture) {
	lock := f.lock()
	hammer(f, 16, 25, func(int) testkit.Locker { return lock })
}

func excludesClients(f *fixture) {
	locks := make([]testkit.Locker, 4)
	for i := range locks {
		locks[i] = f.lock()
	}
	hammer(f, 16, 10, func(i int) testkit.Locker { return locks[i%len(locks)] })
}

// hammer checks mutual exclusion with a counter in Redis that only the lock protects.
func hammer(f *fixture, goroutines, times int, lockOf func(int) testkit.Locker) {
	f.Helper()
	ctx := f.Context()
	counter := testkit.NewName()
	var inside atomic.Int32
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			lock := lockOf(i)
			for range times {
				if !noError(f, lock.Lock(ctx)) {
					return
				}
				if inside.Add(1) != 1 {
					f.Error("two goroutines are in the critical section")
				}
				n, _ := f.admin.Get(ctx, counter).Int()
				if !noError(f, f.admin.Set(ctx, counter, n+1, time.Minute).Err()) {
					return
				}
				inside.Add(-1)
				if !noError(f, lock.Unlock(ctx)) {
					return
				}
			}
		})
	}
	wg.Wait()
	n, err := f.admin.Get(ctx, counter).Int()
	require.NoError(f, err)
	require.Equal(f, goroutines*times, n, "no update is lost")
}

func oneOfAThousandTryLocks(f *fixture) {
	lock := f.lock(rlock.WithCommandTimeout(5 * time.Minute)) // a thousand at once take long on a busy machine
	var got atomic.Int32
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			ok, err := lock.TryLock(f.Context(), rlock.Lease(5*time.Minute))
			noError(f, err)
			if ok {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(f, 1, got.Load())
	require.NoError(f, lock.Unlock(f.Context()))
}

func hundredShortLeases(f *fixture) {
	lock := f.lock()
	var got, inside atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			ok, err := lock.TryLock(f.Context(), rlock.Wait(2*time.Minute), rlock.Lease(100*time.Millisecond))
			if !noError(f, err) || !ok {
				return
			}
			got.Add(1)
			inside.Add(1)
			inside.Add(-1)
			// If the machine stalls for the lease, the unlock is late and reports the loss.
			if err := lock.Unlock(f.Context()); err != nil && !errors.Is(err, rlock.ErrLost) {
				f.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(f, 100, got.Load(), "every waiter gets the lock within its wait")
}

func locksAndUnlocks(f *fixture) {
	lock := f.lock()
	for range 20 {
		require.NoError(f, lock.Lock(f.Context()))
		require.NoError(f, lock.Unlock(f.Context()))
	}
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrNotHeld)
}

func strangerCannotUnlock(f *fixture) {
	lock, stranger := f.lock(), f.rival()
	require.ErrorIs(f, stranger.Unlock(f.Context()), rlock.ErrNotHeld, "nobody holds it")
	require.NoError(f, lock.Lock(f.Context()))
	err := stranger.Unlock(f.Context())
	require.ErrorIs(f, err, rlock.ErrNotHeld)
	require.NotErrorIs(f, err, rlock.ErrLost)
	require.ErrorIs(f, lock.Unlock(rlock.WithOwner(f.Context())), rlock.ErrNotHeld, "another owner of the same client")
	require.True(f, isLocked(f, lock))
	require.NoError(f, lock.Unlock(f.Context()))
}

func ownerReenters(f *fixture) {
	lock, other := f.lock(), f.rival()
	ctx := rlock.WithOwner(f.Context())
	for n := range 3 {
		require.NoError(f, lock.Lock(ctx))
		require.Equal(f, n+1, holdCount(f, ctx, lock))
	}
	for n := 2; n >= 0; n-- {
		require.False(f, tryLock(f, f.Context(), other), "%d acquisitions are open", n+1)
		require.NoError(f, lock.Unlock(ctx))
		require.Equal(f, n, holdCount(f, ctx, lock))
	}
	require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld)
	requireFree(f, other)
}

func holdContextReenters(f *fixture) {
	client := f.client()
	lock, same := f.newLock(client, f.name), f.newLock(client, f.name)
	otherName := testkit.NewName()
	another, rival := f.newLock(client, otherName), f.newRival(client, otherName)
	require.NoError(f, lock.Do(f.Context(), func(ctx context.Context) error {
		require.True(f, tryLock(f, ctx, same), "any handle of the lock re-enters")
		require.Equal(f, 2, holdCount(f, ctx, lock))
		require.NoError(f, lock.Do(ctx, func(ctx context.Context) error {
			require.Equal(f, 3, holdCount(f, ctx, lock))
			return nil
		}))
		require.NoError(f, same.Unlock(ctx))
		require.ErrorIs(f, same.Unlock(ctx), rlock.ErrNotHeld, "Do alone unlocks its acquisition")

		require.True(f, tryLock(f, ctx, another))
		require.False(f, tryLock(f, ctx, rival), "a hold's context is not an owner of another lock")
		return another.Unlock(ctx)
	}))
	require.False(f, isLocked(f, lock))
}

func ownerWithinHold(f *fixture) {
	client := f.client()
	lock, rival := f.newLock(client, f.name), f.newRival(client, f.name)
	outer := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Do(outer, func(ctx context.Context) error {
		require.True(f, tryLock(f, ctx, lock))
		require.True(f, tryLock(f, outer, lock), "the hold belongs to the outer owner")
		require.False(f, tryLock(f, rlock.WithOwner(ctx), rival))
		require.NoError(f, lock.Unlock(ctx))
		return lock.Unlock(outer)
	}))
	require.False(f, isLocked(f, lock))
}

func plainContextDoesNotReenter(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Lock(f.Context()))
	require.False(f, tryLock(f, f.Context(), lock))
	ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(f, lock.Lock(ctx), context.DeadlineExceeded)
	require.NoError(f, lock.Unlock(f.Context()))
}

func goroutinesOfOneOwner(f *fixture) {
	lock, other := f.lock(), f.rival()
	ctx := rlock.WithOwner(f.Context())
	const n = 8
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if i%2 == 0 {
				noError(f, lock.Lock(ctx))
			} else if ok, err := lock.TryLock(ctx); err != nil || !ok {
				f.Errorf("TryLock of an owner that holds or gets the lock: %v, %v", ok, err)
			}
		})
	}
	wg.Wait()
	if !testkit.Red(lock) { // each member may have a lower count
		require.Equal(f, n, holdCount(f, ctx, lock))
	}
	for range n {
		wg.Go(func() { noError(f, lock.Unlock(ctx)) })
	}
	wg.Wait()
	requireFree(f, other)
}

func unlockEndsLatest(f *fixture) {
	client := f.client()
	one, two := f.newLock(client, f.name), f.newLock(client, f.name)
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, one.Lock(ctx))
	require.NoError(f, two.Lock(ctx, rlock.Lease(time.Minute)))
	hold, err := one.Acquire(ctx)
	require.NoError(f, err)
	require.NoError(f, one.Unlock(ctx), "any handle of the owner unlocks it")
	require.NoError(f, two.Unlock(ctx))
	require.ErrorIs(f, one.Unlock(ctx), rlock.ErrNotHeld, "only the Hold unlocks its acquisition")
	require.True(f, isLocked(f, one))
	require.NoError(f, hold.Unlock(f.Context()))
	require.False(f, isLocked(f, one))
}

func unlockWithoutOwner(f *fixture) {
	client := f.client()
	lock, sibling := f.newLock(client, f.name), f.newLock(client, f.name)
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx))
	require.ErrorIs(f, sibling.Unlock(f.Context()), rlock.ErrNotHeld, "another handle took it")
	require.NoError(f, lock.Unlock(f.Context()), "a deferred unlock without the owner leaks nothing")
	require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld)
	require.False(f, isLocked(f, lock))
}

func waitIsBounded(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context()))
	for what, verb := range testkit.Verbs {
		start, passed := time.Now(), redistest.Stopwatch(f)
		err := verb(f.Context(), other, rlock.Wait(300*time.Millisecond))
		require.ErrorIs(f, err, rlock.ErrNotAcquired, what)
		require.NotErrorIs(f, err, rlock.ErrUnavailable, what)
		require.NotErrorIs(f, err, context.DeadlineExceeded, "the caller's context has no deadline")
		require.GreaterOrEqual(f, time.Since(start), 300*time.Millisecond, what)
		require.Less(f, passed(), 3*time.Second, what)
	}
	require.NoError(f, lock.Unlock(f.Context()))
}

func waitOfZero(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context(), rlock.Wait(0)))
	require.ErrorIs(f, other.Lock(f.Context(), rlock.Wait(0)), rlock.ErrNotAcquired)
	_, err := other.TryAcquire(f.Context())
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.NoError(f, lock.Unlock(f.Context()))
	ok, err := lock.TryLock(f.Context(), rlock.Wait(time.Microsecond))
	require.NoError(f, err)
	require.True(f, ok, "the first attempt runs to completion")
	require.NoError(f, lock.Unlock(f.Context()))
}

func contextEndsWait(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context()))
	ctx, cancel := context.WithTimeout(f.Context(), time.Second) // enough for a reply from Redis
	defer cancel()
	err := other.Lock(ctx)
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.ErrorIs(f, err, context.DeadlineExceeded)
	require.ErrorContains(f, err, f.name)

	testkit.Eventually(f, "the members of a group have stopped waiting", func() bool { return !testkit.Refused(other) })
	because := errors.New("because")
	ctx, cancelCause := context.WithCancelCause(f.Context())
	waiting := testkit.Async(func() error { _, err := other.TryLock(ctx, rlock.Wait(time.Minute)); return err })
	testkit.Eventually(f, "the waiter is refused", func() bool { return testkit.Refused(other) })
	cancelCause(because)
	err = testkit.Within(f, "the wait ends", waiting)
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.ErrorIs(f, err, context.Canceled)
	require.ErrorIs(f, err, because)
	require.NoError(f, lock.Unlock(f.Context()))
}

func endedContext(f *fixture) {
	lock := f.lock()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	require.ErrorIs(f, lock.Lock(ctx), context.Canceled)
	_, err := lock.TryLock(ctx)
	require.ErrorIs(f, err, context.Canceled)
	require.NotErrorIs(f, err, rlock.ErrNotAcquired, "the lock is free")
	require.NotErrorIs(f, err, rlock.ErrUnavailable, "nothing was sent")
	require.False(f, isLocked(f, lock))
}

func wokenByRelease(f *fixture) {
	lock, other := f.lock(), f.rival(tune.PollInterval(time.Hour))
	require.NoError(f, lock.Lock(f.Context(), rlock.Lease(time.Hour)))
	waiting := testkit.Async(func() error { return other.Lock(f.Context()) })
	testkit.Eventually(f, "the waiter waits", func() bool { return testkit.Waiting(other) == 1 })
	require.NoError(f, lock.Unlock(f.Context()))
	require.NoError(f, testkit.Within(f, "the waiter gets the lock", waiting))
	require.NoError(f, other.Unlock(f.Context()))
}

func servedInOrder(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Lock(f.Context()))
	const n = 10
	served := make(chan int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if noError(f, lock.Lock(f.Context())) {
				served <- i
				noError(f, lock.Unlock(f.Context()))
			}
		})
		testkit.Eventually(f, "the waiter queues", func() bool { return testkit.Waiting(lock) == i+1 })
	}
	require.NoError(f, lock.Unlock(f.Context()))
	wg.Wait()
	for i := range n {
		require.Equal(f, i, <-served)
	}
}

func leavingWaiter(f *fixture) {
	lock, other := f.lock(), f.rival(tune.PollInterval(time.Hour))
	for _, leaver := range []int{0, 1, 2} {
		require.NoError(f, lock.Lock(f.Context(), rlock.Lease(time.Hour)))
		var waiters [3]<-chan error
		var cancels [3]context.CancelFunc
		for i := range waiters {
			ctx, cancel := context.WithCancel(f.Context())
			defer cancel()
			cancels[i] = cancel
			waiters[i] = testkit.Async(func() error {
				err := other.Lock(ctx)
				if err == nil {
					err = other.Unlock(ctx)
				}
				return err
			})
			testkit.Eventually(f, "the waiter queues", func() bool { return testkit.Waiting(other) == i+1 })
		}
		cancels[leaver]()
		require.ErrorIs(f, testkit.Within(f, "the cancelled waiter leaves", waiters[leaver]), context.Canceled)
		require.NoError(f, lock.Unlock(f.Context()))
		for i, waiter := range waiters {
			if i != leaver {
				require.NoError(f, testkit.Within(f, "the other waiters get the lock", waiter))
			}
		}
	}
}
