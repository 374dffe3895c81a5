package conform

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// This file has the claims of the conformance suite about the end of a hold.

func leaseEnds(f *fixture) {
	lock, other := f.lock(), f.rival()
	start, passed := time.Now(), redistest.Stopwatch(f)
	hold, err := lock.Acquire(f.Context(), rlock.Lease(time.Second))
	require.NoError(f, err)
	require.WithinRange(f, hold.Deadline(), start.Add(900*time.Millisecond), time.Now().Add(time.Second))
	require.NoError(f, other.Lock(f.Context()))
	require.GreaterOrEqual(f, time.Since(start), 900*time.Millisecond, "not before the lease has ended")
	require.Less(f, passed(), 10*time.Second)
	testkit.Within(f, "the hold ends", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, context.Cause(hold.Context()), rlock.ErrLost)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrNotHeld)
	require.NoError(f, other.Unlock(f.Context()))
}

func lateUnlock(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context(), rlock.Lease(100*time.Millisecond)))
	require.NoError(f, other.Lock(f.Context()))
	err := lock.Unlock(f.Context())
	require.ErrorIs(f, err, rlock.ErrNotHeld)
	require.ErrorIs(f, err, rlock.ErrLost)
	require.True(f, isLocked(f, other), "the other hold is unaffected")
	require.NoError(f, other.Unlock(f.Context()))
}

func lateUnlockOnSharedHandle(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Lock(f.Context(), rlock.Lease(100*time.Millisecond)))
	require.NoError(f, lock.Lock(f.Context()))
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrLost)
	require.True(f, isLocked(f, lock))
	require.NoError(f, lock.Unlock(f.Context()))
}

func reentryKeepsLease(f *fixture) {
	lock := f.lock()
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx, rlock.Lease(time.Minute)))
	require.NoError(f, lock.Lock(ctx, rlock.Lease(time.Second)))
	require.Greater(f, ttl(f, lock), 50*time.Second)
	require.NoError(f, lock.Unlock(ctx))
	require.Greater(f, ttl(f, lock), 50*time.Second)
	require.NoError(f, lock.Lock(ctx, rlock.Lease(2*time.Minute)))
	require.Greater(f, ttl(f, lock), 110*time.Second, "a longer lease extends it")
	require.NoError(f, lock.Unlock(ctx))
	require.NoError(f, lock.Unlock(ctx))
}

func watchdogKeeps(f *fixture) {
	hold, err := f.lock(rlock.WithWatchdogTimeout(steady)).Acquire(f.Context())
	require.NoError(f, err)
	f.outlasts(hold)
	require.NoError(f, hold.Unlock(f.Context()))
}

func watchdogStops(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(steady))
	ctx := rlock.WithOwner(f.Context())
	leased, err := lock.Acquire(ctx, rlock.Lease(steady))
	require.NoError(f, err)
	kept, err := lock.Acquire(ctx)
	require.NoError(f, err)
	f.outlasts(kept) // one acquisition without a lease keeps the lock renewed
	require.NoError(f, kept.Unlock(ctx))
	testkit.Within(f, "the leased acquisition ends", leased.Done())
	require.ErrorIs(f, leased.Err(), rlock.ErrLost)
	if err := leased.Unlock(ctx); err != nil { // Redis keeps the holder slightly longer than the deadline
		require.ErrorIs(f, err, rlock.ErrLost)
	}
	testkit.Eventually(f, "the lock is free", func() bool { return !isLocked(f, lock) })
}

func unlockAfterContext(f *fixture) {
	lock := f.lock()
	ctx, cancel := context.WithCancel(f.Context())
	require.NoError(f, lock.Lock(ctx))
	cancel()
	require.NoError(f, lock.Unlock(ctx))
	require.False(f, isLocked(f, lock))
}

func forceUnlock(f *fixture) {
	lock, same := f.lock(), f.lock()
	freed, err := lock.ForceUnlock(f.Context())
	require.NoError(f, err)
	require.False(f, freed, "nobody held it")
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx))
	require.NoError(f, lock.Lock(ctx))
	third := f.rival(tune.PollInterval(time.Hour))
	waiting := testkit.Async(func() error { return third.Lock(f.Context()) })
	testkit.Eventually(f, "the waiter waits", func() bool { return testkit.Waiting(third) == 1 })
	freed, err = same.ForceUnlock(f.Context())
	require.NoError(f, err)
	require.True(f, freed)
	require.NoError(f, testkit.Within(f, "a waiter is woken", waiting))
	if err := lock.Unlock(ctx); err != nil { // it may be the last one that finds out
		require.ErrorIs(f, err, rlock.ErrLost)
	}
	require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrLost)
	// The members of a group are unlocked one by one. The third owner may have had a majority before the last one was.
	if err := third.Unlock(f.Context()); err != nil && f.kind.Groups {
		require.ErrorIs(f, err, rlock.ErrLost)
	} else {
		require.NoError(f, err)
	}
}

func forceUnlockNotifiesHolder(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(time.Hour)) // no renewal detects the loss
	lock := f.newLock(client, f.name)
	ctx := rlock.WithOwner(f.Context())
	hold, err := lock.Acquire(ctx)
	require.NoError(f, err)
	again, err := lock.Acquire(ctx)
	require.NoError(f, err)
	require.NoError(f, context.Cause(hold.Context()))
	freed, err := f.newLock(client, f.name).ForceUnlock(f.Context())
	require.NoError(f, err)
	require.True(f, freed)
	testkit.Within(f, "the hold ends at once", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, context.Cause(hold.Context()), rlock.ErrLost)

	_, err = lock.TryLock(ctx)
	require.ErrorIs(f, err, rlock.ErrLost, "an owner unlocks its lost acquisitions before it locks again")
	require.True(f, tryLock(f, f.Context(), lock), "other owners lock at once")
	require.NoError(f, lock.Unlock(f.Context()))
	require.ErrorIs(f, hold.Unlock(ctx), rlock.ErrLost)
	_, err = lock.TryLock(ctx)
	require.ErrorIs(f, err, rlock.ErrLost)
	require.ErrorIs(f, again.Unlock(ctx), rlock.ErrLost)
	require.True(f, tryLock(f, ctx, lock))
	require.NoError(f, lock.Unlock(ctx))
}

func queriesReturnState(f *fixture) {
	lock, same, other := f.lock(), f.lock(), f.rival()
	require.False(f, isLocked(f, lock))
	require.Zero(f, ttl(f, lock))
	require.Zero(f, holdCount(f, f.Context(), lock))
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx, rlock.Lease(time.Hour)))
	require.True(f, isLocked(f, same))
	require.InDelta(f, time.Hour, ttl(f, same), float64(time.Minute))
	require.Equal(f, 1, holdCount(f, ctx, lock))
	require.Zero(f, holdCount(f, rlock.WithOwner(f.Context()), lock))
	require.Zero(f, holdCount(f, f.Context(), same))
	require.Zero(f, holdCount(f, f.Context(), other))
	require.NoError(f, lock.Unlock(ctx))
	require.False(f, isLocked(f, same))
	require.NoError(f, lock.Lock(f.Context()))
	require.InDelta(f, 30*time.Second, ttl(f, lock), float64(5*time.Second), "the watchdog timeout")
	require.NoError(f, lock.Unlock(f.Context()))
}

func queriesWithoutOwner(f *fixture) {
	lock, same := f.lock().(*rlock.Lock), f.lock().(*rlock.Lock)
	require.Equal(f, f.name, lock.Name())
	require.NoError(f, lock.Lock(f.Context()))
	for _, q := range []struct {
		lock *rlock.Lock
		ctx  context.Context
		held bool
	}{
		{lock, f.Context(), true},
		{lock, rlock.WithOwner(f.Context()), false},
		{same, f.Context(), false},
	} {
		require.Equal(f, q.held, holdCount(f, q.ctx, q.lock) == 1)
	}
	require.NoError(f, lock.Unlock(f.Context()))
}

func doUnlocks(f *fixture) {
	lock := f.lock()
	boom := errors.New("boom")
	require.Equal(f, boom, lock.Do(f.Context(), func(context.Context) error { return boom }), "Do returns the error unchanged")
	require.False(f, isLocked(f, lock))
	require.PanicsWithValue(f, "boom", func() {
		_ = lock.Do(f.Context(), func(context.Context) error { panic("boom") })
	})
	require.False(f, isLocked(f, lock))
	ctx, cancel := context.WithCancel(f.Context())
	require.NoError(f, lock.Do(ctx, func(context.Context) error { cancel(); return nil }))
	require.False(f, isLocked(f, lock))
}

func doSkips(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Do(f.Context(), func(context.Context) error {
		err := f.rival().Do(f.Context(), func(context.Context) error {
			f.Error("two owners work at once")
			return nil
		}, rlock.Wait(0))
		require.ErrorIs(f, err, rlock.ErrNotAcquired)
		return nil
	}))
}

func doReportsLoss(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(300 * time.Millisecond))
	boom := errors.New("boom")
	for _, result := range []error{nil, boom} {
		err := lock.Do(f.Context(), func(ctx context.Context) error {
			for _, key := range testkit.Keys(lock) {
				require.NoError(f, f.admin.Del(f.Context(), key).Err())
			}
			<-ctx.Done()
			require.ErrorIs(f, context.Cause(ctx), rlock.ErrLost)
			return result
		})
		require.ErrorIs(f, err, rlock.ErrLost)
		if result != nil {
			require.ErrorIs(f, err, result)
		}
	}
	err := lock.Do(f.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }, rlock.Lease(50*time.Millisecond))
	require.ErrorIs(f, err, rlock.ErrLost, "the work outlasted the lease")
}

func holdEndsOnce(f *fixture) {
	lock := f.lock()
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	require.NoError(f, hold.Err())
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrNotHeld, "only the Hold unlocks its acquisition")
	var nils atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := hold.Unlock(f.Context()); {
			case err == nil:
				nils.Add(1)
			case !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost):
				f.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(f, 1, nils.Load())
	testkit.Within(f, "the hold ends", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrNotHeld)
	require.NotErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, context.Cause(hold.Context()), rlock.ErrNotHeld)
}

func holdContextIsChild(f *fixture) {
	lock := f.lock()
	because := errors.New("because")
	ctx, cancel := context.WithCancelCause(f.Context())
	hold, err := lock.Acquire(ctx)
	require.NoError(f, err)
	require.NoError(f, hold.Context().Err())
	cancel(because)
	require.ErrorIs(f, context.Cause(hold.Context()), because)
	require.NoError(f, hold.Err(), "the hold itself continues")
	require.True(f, isLocked(f, lock))
	require.NoError(f, hold.Unlock(ctx))
}

func closeStops(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(5 * time.Second))
	lock := f.newLock(client, f.name)
	require.NoError(f, lock.Lock(f.Context()))
	hold, err := f.newLock(client, testkit.NewName()).Acquire(f.Context())
	require.NoError(f, err)
	ctx := hold.Context()
	rival := f.newRival(client, f.name)
	waiting := testkit.Async(func() error { return rival.Lock(f.Context()) })
	queued := testkit.Async(func() error { return rival.Lock(f.Context()) })
	testkit.Eventually(f, "both wait", func() bool { return testkit.Waiting(rival) == 2 })
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { noError(f, client.Close()) })
	}
	wg.Wait()
	require.ErrorIs(f, testkit.Within(f, "the first waiter's wait ends", waiting), rlock.ErrClosed)
	require.ErrorIs(f, testkit.Within(f, "the queued waiter's wait ends", queued), rlock.ErrClosed)
	testkit.Within(f, "the hold is notified", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrClosed)
	require.ErrorIs(f, context.Cause(ctx), rlock.ErrClosed)
	require.True(f, isLocked(f, f.lock()), "nothing is released")

	require.ErrorIs(f, lock.Lock(f.Context()), rlock.ErrClosed)
	_, err = lock.TryLock(f.Context())
	require.ErrorIs(f, err, rlock.ErrClosed)
	_, err = lock.IsLocked(f.Context())
	require.ErrorIs(f, err, rlock.ErrClosed)
	_, err = lock.ForceUnlock(f.Context())
	require.ErrorIs(f, err, rlock.ErrClosed)

	require.NoError(f, lock.Unlock(f.Context()), "a held lock can still be unlocked")
	require.NoError(f, hold.Unlock(f.Context()))
	require.False(f, isLocked(f, f.lock()))
	require.NoError(f, f.rdb.Exists(f.Context(), testkit.Keys(lock)[0]).Err(), "the redis client stays open")
}

func closedClientsLeaseEnds(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(500 * time.Millisecond))
	lock := f.newLock(client, f.name)
	require.NoError(f, lock.Lock(f.Context()))
	require.NoError(f, client.Close())
	other := f.rival()
	require.NoError(f, other.Lock(f.Context(), rlock.Wait(testkit.ALongTime)))
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrLost)
	require.NoError(f, other.Unlock(f.Context()))
}

func cancelledNotRenewed(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(200 * time.Millisecond))
	lock := f.newLock(client, f.name)
	for range 20 {
		ctx, cancel := context.WithCancel(f.Context())
		trying := testkit.Async(func() error { return testkit.Second(lock.TryLock(ctx, rlock.Wait(time.Minute))) })
		cancel()
		if testkit.Within(f, "the call returns", trying) == nil {
			if err := lock.Unlock(ctx); !errors.Is(err, rlock.ErrLost) { // this machine may stand still for longer than the lease
				require.NoError(f, err)
			}
		} else {
			require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld)
		}
	}
	testkit.Eventually(f, "no renewal is planned", func() bool { return testkit.Remains(client) == 0 && !isLocked(f, lock) })
	testkit.Stays(f, "no holder comes back", func() bool { return !isLocked(f, lock) })
}

func thousandsOfTurns(f *fixture) {
	client := f.client()
	locks := make([]testkit.Locker, 5)
	for i := range locks {
		locks[i] = f.newLock(client, fmt.Sprintf("%s:%d", f.name, i))
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for n := range 40 {
				lock := locks[(i+n)%len(locks)]
				if !noError(f, lock.Lock(f.Context())) || !noError(f, lock.Unlock(f.Context())) {
					return
				}
			}
		})
	}
	wg.Wait()
	testkit.Eventually(f, "no channel is left", func() bool {
		return len(f.admin.PubSubChannels(f.Context(), "*"+f.name+"*").Val()) == 0 && testkit.Remains(client) == 0
	})
}

func nothingLeft(f *fixture) {
	client := f.client()
	lock, other := f.newLock(client, f.name), f.rival()
	require.NoError(f, other.Lock(f.Context()))
	ctx, cancel := context.WithCancel(f.Context())
	waiting := testkit.Async(func() error { return lock.Lock(ctx) })
	testkit.Eventually(f, "the waiter waits", func() bool { return testkit.Waiting(lock) == 1 })
	cancel()
	require.Error(f, testkit.Within(f, "the wait ends", waiting))
	require.NoError(f, other.Unlock(f.Context()))
	require.NoError(f, lock.Do(f.Context(), func(ctx context.Context) error {
		return lock.Do(ctx, func(context.Context) error { return nil })
	}))
	testkit.Eventually(f, "no state is left in the client or in Redis", func() bool {
		return testkit.Remains(client) == 0 && !testkit.LeftIn(f, f.admin, testkit.Keys(lock))
	})
}
