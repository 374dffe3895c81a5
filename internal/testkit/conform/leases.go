package conform

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file has the claims of the conformance suite about leases of one acquisition.

// steady is a lease that outlasts a machine which stands still for three seconds.
const steady = 6 * time.Second

// outlasts waits until a hold with that lease has been renewed for longer than it. Nobody else gets the lock meanwhile.
func (f *fixture) outlasts(hold *rlock.Hold) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	first, rival := hold.Deadline(), f.rival()
	waiting := testkit.Async(func() error { return rival.Lock(ctx) })
	testkit.Eventually(f, "it is renewed for longer than its lease", func() bool { return hold.Deadline().After(first.Add(steady)) })
	cancel()
	require.ErrorIs(f, testkit.Within(f, "the wait ends", waiting), context.Canceled, "the lock stays held")
	require.NoError(f, hold.Err())
}

func nestedLeaseHidesNoLoss(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(steady))
	ctx := rlock.WithOwner(f.Context())
	hold, err := lock.Acquire(ctx)
	require.NoError(f, err)
	nested, err := lock.Acquire(ctx, rlock.Lease(time.Hour))
	require.NoError(f, err)
	require.NoError(f, nested.Unlock(ctx))
	over := hold.Done()
	testkit.Eventually(f, "an unlock does not shorten the lease", func() bool { // of a red lock, another majority may have granted the nested one
		return time.Until(hold.Deadline()) > 50*time.Minute
	})
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "a renewal detects the loss", over)
	require.ErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, hold.Unlock(ctx), rlock.ErrLost)
}

func renewedLeaseKeeps(f *fixture) {
	lock := f.lock() // with a watchdog timeout of 30 s
	hold, err := lock.Acquire(f.Context(), rlock.RenewedLease(steady))
	require.NoError(f, err)
	over := hold.Done()
	require.LessOrEqual(f, ttl(f, lock), steady)
	f.outlasts(hold)
	require.LessOrEqual(f, ttl(f, lock), steady, "a renewal uses the same lease")
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "a renewal detects the loss", over)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost)
}

func renewedLeasesTogether(f *fixture) {
	lock := f.lock()
	ctx := rlock.WithOwner(f.Context())
	short, err := lock.Acquire(ctx, rlock.RenewedLease(steady))
	require.NoError(f, err)
	long, err := lock.Acquire(ctx, rlock.RenewedLease(time.Hour))
	require.NoError(f, err)
	before := long.Deadline()
	testkit.Eventually(f, "a renewal uses the longest lease, by the shortest", func() bool { return long.Deadline().After(before) })
	require.NoError(f, long.Unlock(ctx))
	require.Greater(f, ttl(f, lock), 50*time.Minute, "an unlock does not shorten the lease")
	over := short.Done()
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "a renewal detects the loss", over)
	require.ErrorIs(f, short.Unlock(ctx), rlock.ErrLost)
}

func extendLengthens(f *fixture) {
	const lease = 1500 * time.Millisecond
	lock, other := f.lock(), f.rival()
	ctx := rlock.WithOwner(f.Context())
	hold, err := lock.Acquire(ctx, rlock.Lease(lease))
	require.NoError(f, err)
	same, err := lock.Acquire(ctx, rlock.Lease(lease))
	require.NoError(f, err)
	first, before := hold.Deadline(), time.Now()
	require.NoError(f, hold.Extend(ctx, time.Hour))
	require.WithinRange(f, hold.Deadline(), before.Add(59*time.Minute), time.Now().Add(time.Hour))
	if !testkit.Red(lock) { // two acquisitions of a red lock may have different majorities
		require.Equal(f, hold.Deadline(), same.Deadline(), "the extension is for all acquisitions of the owner")
	}
	require.Greater(f, ttl(f, lock), 59*time.Minute)
	extended := hold.Deadline()
	require.NoError(f, same.Extend(ctx, time.Second))
	require.WithinRange(f, hold.Deadline(), extended, extended.Add(time.Minute)) // a member of a red lock may reply late
	require.Greater(f, ttl(f, lock), 59*time.Minute)
	testkit.Eventually(f, "the first lease is over", func() bool { return time.Now().After(first.Add(lease / 10)) })
	require.False(f, tryLock(f, f.Context(), other))
	require.NoError(f, hold.Err())
	require.NoError(f, hold.Extend(ctx, time.Millisecond), "Redis has the hold")
	require.NoError(f, same.Unlock(ctx))
	require.NoError(f, hold.Unlock(ctx))
	requireFree(f, other)
}

func extendRenewed(f *fixture) {
	lock := f.lock()
	hold, err := lock.Acquire(f.Context(), rlock.RenewedLease(steady))
	require.NoError(f, err)
	require.NoError(f, hold.Extend(f.Context(), time.Hour))
	require.Greater(f, time.Until(hold.Deadline()), 59*time.Minute)
	require.Greater(f, ttl(f, lock), 59*time.Minute)
	over := hold.Done()
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "a renewal detects the loss", over)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost)
}

func extendOver(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(time.Hour)) // no renewal detects the loss
	lock := f.newLock(client, f.name)
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	for _, d := range []time.Duration{0, -1, time.Millisecond - 1, 101 * 365 * 24 * time.Hour} {
		require.ErrorIs(f, hold.Extend(f.Context(), d), rlock.ErrInvalidOption)
	}
	ended, cancel := context.WithCancelCause(f.Context())
	because := errors.New("because")
	cancel(because)
	err = hold.Extend(ended, time.Second)
	require.ErrorIs(f, err, context.Canceled)
	require.ErrorIs(f, err, because)
	require.NoError(f, hold.Unlock(f.Context()))
	err = hold.Extend(f.Context(), time.Second)
	require.ErrorIs(f, err, rlock.ErrNotHeld)
	require.NotErrorIs(f, err, rlock.ErrLost)

	hold, err = lock.Acquire(f.Context())
	require.NoError(f, err)
	over := hold.Done()
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	require.ErrorIs(f, hold.Extend(f.Context(), time.Second), rlock.ErrLost)
	testkit.Within(f, "the hold is lost at once", over)
	require.ErrorIs(f, hold.Extend(f.Context(), time.Second), rlock.ErrLost)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost)
	require.False(f, isLocked(f, lock), "Extend creates nothing")

	hold, err = lock.Acquire(f.Context())
	require.NoError(f, err)
	require.NoError(f, client.Close())
	require.ErrorIs(f, hold.Extend(f.Context(), time.Second), rlock.ErrClosed)
	require.NoError(f, hold.Unlock(f.Context()))
}
