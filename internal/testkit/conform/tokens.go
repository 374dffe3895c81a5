package conform

import (
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

func outermostAcquisitionsDrawTokens(f *fixture) {
	last := rlock.Token(0)
	draws := func(hold *rlock.Hold) {
		f.Helper()
		if f.kind.Tokens {
			require.Greater(f, hold.Token(), last)
		} else {
			require.Zero(f, hold.Token())
		}
		last = hold.Token()
	}
	locks := []testkit.Locker{f.lock(), f.lock()}
	for i := range 4 {
		lock, ctx := locks[i%2], rlock.WithOwner(f.Context())
		hold := testkit.Must(lock.Acquire(ctx))
		draws(hold)
		again := testkit.Must(lock.TryAcquire(ctx))
		require.Equal(f, last, again.Token(), "a re-entry has the token of the hold")
		require.NoError(f, again.Unlock(ctx))
		require.NoError(f, hold.Unlock(ctx))
		require.Equal(f, last, hold.Token(), "a late writer presents its token, and is refused")
	}
	if !f.kind.Tokens {
		return
	}
	hold := testkit.Must(locks[0].Acquire(f.Context()))
	draws(hold)
	for range 3 { // they wait in the same process, so that most kinds hand the lock over
		next := make(chan *rlock.Hold, 1)
		waiting := testkit.Async(func() error {
			got, err := locks[0].Acquire(f.Context())
			next <- got
			return err
		})
		testkit.Eventually(f, "a waiter", func() bool { return testkit.Waiting(locks[0]) == 1 })
		require.NoError(f, hold.Unlock(f.Context()))
		require.NoError(f, testkit.Within(f, "the waiter gets the lock", waiting))
		hold = <-next
		draws(hold)
	}
	require.NoError(f, hold.Unlock(f.Context()))
}
