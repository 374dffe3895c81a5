package conform

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file has the claims of the conformance suite about leases of one acquisition.

func nestedLeaseHidesNoLoss(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(900 * time.Millisecond))
	ctx := rlock.WithOwner(f.Context())
	hold, err := lock.Acquire(ctx)
	require.NoError(f, err)
	nested, err := lock.Acquire(ctx, rlock.Lease(time.Hour))
	require.NoError(f, err)
	require.NoError(f, nested.Unlock(ctx))
	over := hold.Done()
	require.Greater(f, time.Until(hold.Deadline()), 50*time.Minute, "an unlock does not shorten the lease")
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "a renewal detects the loss", over)
	require.ErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, hold.Unlock(ctx), rlock.ErrLost)
}

func renewedLeaseKeeps(f *fixture) {
	const lease = 1500 * time.Millisecond
	lock := f.lock() // with a watchdog timeout of 30 s
	hold, err := lock.Acquire(f.Context(), rlock.RenewedLease(lease))
	require.NoError(f, err)
	over := hold.Done()
	require.LessOrEqual(f, ttl(f, lock), lease)
	ok, err := f.rival().TryLock(f.Context(), rlock.Wait(2*lease))
	require.NoError(f, err)
	require.False(f, ok, "the lock stays held for two leases")
	require.NoError(f, hold.Err())
	require.LessOrEqual(f, ttl(f, lock), lease, "a renewal uses the same lease")
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "a renewal detects the loss", over)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost)
}

func renewedLeasesTogether(f *fixture) {
	lock := f.lock()
	ctx := rlock.WithOwner(f.Context())
	short, err := lock.Acquire(ctx, rlock.RenewedLease(900*time.Millisecond))
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
