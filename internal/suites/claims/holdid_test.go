package claims

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAHoldIsUnlockedByItsID checks that a program that can keep only a text can unlock with it, once.
func TestAHoldIsUnlockedByItsID(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
	ctx := t.Context()
	lock, another := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())
	permits := client.NewSemaphore(testkit.NewName(), rlock.Total(1))
	for kind, acquire := range map[string]func() (*rlock.Hold, error){
		"lock":      func() (*rlock.Hold, error) { return lock.Acquire(ctx) },
		"semaphore": func() (*rlock.Hold, error) { return permits.Acquire(ctx) },
		"group":     func() (*rlock.Hold, error) { return rlock.NewMultiLock(lock, another).Acquire(ctx) },
	} {
		hold := testkit.Must(acquire())
		id := hold.ID()
		require.NotEmpty(t, id, kind)
		require.Equal(t, id, hold.ID(), kind)
		require.ErrorIs(t, other.UnlockID(ctx, id), rlock.ErrNotHeld, "%s: of another client", kind)
		require.NoError(t, client.UnlockID(ctx, id), kind)
		require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld, kind)
		require.ErrorIs(t, client.UnlockID(ctx, id), rlock.ErrNotHeld, kind)
		require.NoError(t, testkit.Must(acquire()).Unlock(ctx), "%s: it is free", kind)
	}

	outer := testkit.Must(lock.Acquire(ctx))
	inner := testkit.Must(lock.Acquire(outer.Context()))
	require.NoError(t, client.UnlockID(ctx, outer.ID()))
	require.NoError(t, inner.Err(), "the other acquisition of the owner goes on")
	require.NoError(t, client.UnlockID(ctx, inner.ID()))
	over := testkit.Must(lock.Acquire(ctx))
	require.NoError(t, over.Unlock(ctx))
	require.Empty(t, over.ID()+(&rlock.Hold{}).ID()+(*rlock.Hold)(nil).ID())

	lost := testkit.Must(lock.Acquire(ctx, rlock.Lease(100*time.Millisecond)))
	id := lost.ID()
	<-lost.Done()
	require.ErrorIs(t, client.UnlockID(ctx, id), rlock.ErrLost)
	require.ErrorIs(t, client.UnlockID(ctx, id), rlock.ErrNotHeld)
	require.NoError(t, lock.Do(ctx, func(ctx context.Context) error {
		lent, _ := rlock.HoldFrom(ctx, lock)
		require.Empty(t, lent.ID())
		return nil
	}))
	require.ErrorIs(t, (*rlock.Client)(nil).UnlockID(ctx, "x"), rlock.ErrInvalidOption)
}
