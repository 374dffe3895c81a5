package conform

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file has the claims of the conformance suite about contexts that outlive their hold.

type requestKey struct{}

// later returns the context of a hold that is over, as code has it that goes on in the background.
func later(f *fixture, lock testkit.Locker) (ctx context.Context) {
	f.Helper()
	require.NoError(f, lock.Do(f.Context(), func(held context.Context) error {
		ctx = context.WithValue(context.WithoutCancel(held), requestKey{}, "a request") //nolint:fatcontext // it outlives its hold
		return nil
	}))
	return ctx
}

func endedHoldIsNoOwner(f *fixture) {
	client, second := f.client(), f.client()
	lock, rival := f.newLock(client, f.name), f.newRival(client, f.name)
	past := later(f, lock)
	other := f.newLock(second, f.name+":other")
	inner, err := other.Acquire(past)
	require.NoError(f, err)
	nested := later(f, lock)
	require.NoError(f, lock.Do(nested, func(held context.Context) error {
		nested = context.WithoutCancel(held) //nolint:fatcontext // the next hold is in the context of the first
		return nil
	}))
	for what, ctx := range map[string]context.Context{
		"alone": past, "within a hold of another lock of another client": inner.Context(), "of two holds": nested,
	} {
		require.NoError(f, lock.Lock(ctx, rlock.Wait(testkit.ALongTime)), what)
		require.False(f, tryLock(f, ctx, rival), what)
		require.NoError(f, lock.Unlock(ctx), what)

		hold, err := lock.Acquire(ctx, rlock.Wait(testkit.ALongTime))
		require.NoError(f, err, what)
		require.False(f, tryLock(f, ctx, rival), what)
		require.True(f, tryLock(f, hold.Context(), lock), "its own context re-enters")
		require.NoError(f, lock.Unlock(hold.Context()), what)
		require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld, "only the hold unlocks it")
		require.NoError(f, hold.Unlock(f.Context()), what)

		for _, owner := range []context.Context{rlock.WithOwner(ctx), rlock.EnsureOwner(ctx)} {
			require.NoError(f, lock.Lock(owner, rlock.Wait(testkit.ALongTime)), what)
			require.True(f, tryLock(f, owner, lock), "it is an owner of its own")
			require.False(f, tryLock(f, rlock.EnsureOwner(ctx), rival), "each call makes another one")
			require.NoError(f, lock.Unlock(owner), what)
			require.NoError(f, lock.Unlock(owner), what)
		}
	}
	require.True(f, carries(past, lock), "a goroutine that goes on too long can still present its token")
	require.NoError(f, inner.Unlock(f.Context()))
	testkit.Eventually(f, "the last member is released, too", func() bool { return second.Stats().Held == 0 })
	require.NoError(f, second.Shutdown(inner.Context()), "nothing waits for itself")
}

func endedHoldExcludes(f *fixture) {
	lock := f.lock()
	var inside, together atomic.Int64
	var wg sync.WaitGroup
	past, ready := later(f, lock), make(chan struct{})
	for range 8 {
		wg.Go(func() {
			<-ready
			noError(f, lock.Do(past, func(context.Context) error {
				together.Add(inside.Add(1) - 1)
				defer inside.Add(-1)
				for range 5 { // the others have the time of some round trips
					if _, err := lock.IsLocked(past); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
	close(ready)
	wg.Wait()
	require.Zero(f, together.Load())
}

func reentryOutlivesHold(f *fixture) {
	client := f.client()
	lock, rival := f.newLock(client, f.name), f.newRival(client, f.name)
	var past context.Context
	require.NoError(f, lock.Do(f.Context(), func(held context.Context) error {
		past = context.WithoutCancel(held) //nolint:fatcontext // it outlives its hold
		require.True(f, tryLock(f, past, lock))
		return nil
	}))
	require.True(f, isLocked(f, lock), "Do undoes its own acquisition alone")
	if len(testkit.Members(lock)) == 0 { // the acquisitions of members are those of their group
		require.Equal(f, 1, holdCount(f, past, lock))
	}
	require.False(f, tryLock(f, past, rival), "the context shares nothing any more")
	require.NoError(f, lock.Unlock(past))
	require.ErrorIs(f, lock.Unlock(past), rlock.ErrNotHeld)
	requireFree(f, rival)
}
