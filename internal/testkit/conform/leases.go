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
