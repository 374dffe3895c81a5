package conform

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// This file has the claims of the conformance suite about the holds that contexts carry, and about TryDo and DoValue.

// carried returns the hold of a lock that a context carries, and fails the test if it carries none.
func carried(f *fixture, ctx context.Context, lock testkit.Locker) *rlock.Hold {
	f.Helper()
	hold, ok := handles.HoldFrom(ctx, testkit.Handle(lock))
	require.True(f, ok, "the context carries a hold of the lock")
	return hold
}

// carries reports whether a context carries a hold of a lock.
func carries(ctx context.Context, lock handles.Any) bool {
	hold, ok := handles.HoldFrom(ctx, testkit.Handle(lock))
	return ok && hold != nil
}

func holdFromContext(f *fixture) {
	client := f.client()
	lock, same := f.newLock(client, f.name), f.newLock(client, f.name)
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(hold.Context())
	defer cancel()
	for _, handle := range []testkit.Locker{lock, same} {
		before, found, after := hold.Deadline(), carried(f, ctx, handle).Deadline(), hold.Deadline()
		require.False(f, found.Before(before) || found.After(after), "the deadline is that of the hold")
		require.Equal(f, hold.Token(), carried(f, ctx, handle).Token())
		require.Same(f, hold.Context(), carried(f, ctx, handle).Context())
		require.NoError(f, carried(f, ctx, handle).Err())
	}
	require.False(f, carries(f.Context(), lock), "the caller's context does not carry the hold")
	require.False(f, carries(ctx, f.newLock(client, testkit.NewName())), "another name")
	require.False(f, carries(ctx, f.lock()), "another client")
	found := carried(f, ctx, lock)
	require.NoError(f, hold.Unlock(f.Context()))
	testkit.Within(f, "the borrowed hold ends with the real one", found.Done())
	require.ErrorIs(f, found.Err(), rlock.ErrNotHeld)
	require.ErrorIs(f, carried(f, ctx, lock).Err(), rlock.ErrNotHeld, "a goroutine that goes on too long still finds it")

	require.NoError(f, lock.Do(f.Context(), func(ctx context.Context) error {
		for _, member := range testkit.Members(lock) {
			require.Equal(f, !testkit.Red(lock), carries(ctx, member), "the majority may be without a member")
		}
		return carried(f, ctx, lock).Err()
	}))
	requireFree(f, lock)
}

func holdFromLooksOutward(f *fixture) {
	client := f.client()
	lock, other := f.newLock(client, f.name), f.newLock(client, testkit.NewName())
	nothing := func(context.Context) error { return nil }
	require.NoError(f, lock.Do(f.Context(), func(outer context.Context) error {
		far := carried(f, outer, lock)
		var near *rlock.Hold
		require.NoError(f, lock.Do(outer, func(inner context.Context) error {
			near = carried(f, inner, lock)
			return nil
		}))
		require.ErrorIs(f, near.Err(), rlock.ErrNotHeld, "the nearest hold is that of the inner Do")
		require.NoError(f, far.Err())

		require.NoError(f, other.Do(outer, func(inner context.Context) error {
			require.NoError(f, lock.Do(inner, nothing, rlock.Wait(0)), "it re-enters")
			return carried(f, inner, lock).Err()
		}), "a hold of another lock hides nothing")

		require.False(f, carries(rlock.WithOwner(outer), lock), "an owner of its own would not re-enter")
		require.NoError(f, other.Do(rlock.WithOwner(outer), func(inner context.Context) error {
			require.False(f, carries(inner, lock))
			require.True(f, carries(inner, other))
			return nil
		}))
		require.True(f, carries(rlock.EnsureOwner(outer), lock))
		return nil
	}))
}

func borrowedHold(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(steady))
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	ctx, token := hold.Context(), hold.Token()
	borrowed := carried(f, ctx, lock)
	requireBorrowed := func() {
		f.Helper()
		err := borrowed.Unlock(f.Context())
		require.ErrorIs(f, err, rlock.ErrNotHeld)
		require.NotErrorIs(f, err, rlock.ErrLost)
		require.ErrorContains(f, err, "borrowed")
	}
	requireBorrowed()
	require.NoError(f, hold.Err(), "the real hold goes on")
	require.True(f, isLocked(f, lock))
	require.NoError(f, borrowed.Context().Err())
	require.True(f, tryLock(f, borrowed.Context(), lock), "the context of a borrowed hold re-enters")
	require.NoError(f, lock.Unlock(borrowed.Context()))

	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "the borrowed hold reports the loss", borrowed.Done())
	require.ErrorIs(f, borrowed.Err(), rlock.ErrLost)
	testkit.Within(f, "its context ends", borrowed.Context().Done())
	require.ErrorIs(f, context.Cause(borrowed.Context()), rlock.ErrLost)
	require.False(f, borrowed.Deadline().IsZero())
	require.Equal(f, token, borrowed.Token(), "a stale holder can present its token")
	require.Equal(f, token, carried(f, ctx, lock).Token())
	requireBorrowed()
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost, "the loss is for the unlock of the real hold")
}

func tryDoReportsRan(f *fixture) {
	lock, rival := f.lock(), f.rival()
	boom := errors.New("boom")
	for _, result := range []error{nil, boom, rlock.ErrNotAcquired} {
		ran, err := lock.TryDo(f.Context(), func(ctx context.Context) error {
			require.True(f, carries(ctx, lock))
			return result
		})
		require.True(f, ran)
		require.Equal(f, result, err)
		require.False(f, isLocked(f, lock))
	}
	never := func(context.Context) error {
		f.Error("the function runs")
		return boom
	}
	ran, err := lock.TryDo(f.Context(), func(context.Context) error {
		ran, err := rival.TryDo(f.Context(), never)
		require.False(f, ran)
		require.NoError(f, err, "another owner holds it")
		return rival.Do(f.Context(), never, rlock.Wait(0))
	})
	require.True(f, ran)
	require.ErrorIs(f, err, rlock.ErrNotAcquired, "the refusal of another lock is the function's error")

	ended, cancel := context.WithCancel(f.Context())
	cancel()
	ran, err = lock.TryDo(ended, never)
	require.False(f, ran)
	require.ErrorIs(f, err, context.Canceled)
	require.NotErrorIs(f, err, rlock.ErrNotAcquired, "the lock is free")
	ran, err = lock.TryDo(f.Context(), nil)
	require.False(f, ran)
	require.ErrorIs(f, err, rlock.ErrInvalidOption)

	hold, err := rival.Acquire(f.Context())
	require.NoError(f, err)
	ran, err = lock.TryDo(f.Context(), never, rlock.Wait(10*time.Millisecond))
	require.False(f, ran)
	require.NoError(f, err, "the wait was over")
	waiting := testkit.Async(func() error {
		ran, err := lock.TryDo(f.Context(), func(context.Context) error { return nil }, rlock.Wait(testkit.ALongTime))
		if err == nil && !ran {
			err = errors.New("the function did not run")
		}
		return err
	})
	testkit.Eventually(f, "a waiter waits", func() bool { return testkit.Waiting(lock) > 0 })
	require.NoError(f, hold.Unlock(f.Context()))
	require.NoError(f, testkit.Within(f, "TryDo waits as long as Wait says", waiting))
}

func doValueReturns(f *fixture) {
	lock, rival := f.lock(), f.rival()
	boom := errors.New("boom")
	for _, result := range []error{nil, boom} {
		value, err := handles.DoValue(f.Context(), testkit.Handle(lock), func(ctx context.Context) (string, error) {
			require.True(f, carries(ctx, lock))
			refused, err := handles.DoValue(f.Context(), testkit.Handle(rival), func(context.Context) (int, error) { return 1, nil }, rlock.Wait(0))
			require.Zero(f, refused, "the function did not return")
			require.ErrorIs(f, err, rlock.ErrNotAcquired)
			return "value", result
		})
		require.Equal(f, "value", value, "also beside an error")
		require.Equal(f, result, err)
	}
	none, err := handles.DoValue[int](f.Context(), testkit.Handle(lock), nil)
	require.Zero(f, none)
	require.ErrorIs(f, err, rlock.ErrInvalidOption)
	require.False(f, isLocked(f, lock))

	short := f.lock(rlock.WithWatchdogTimeout(300 * time.Millisecond))
	value, err := handles.DoValue(f.Context(), testkit.Handle(short), func(ctx context.Context) (string, error) {
		for _, key := range testkit.Keys(short) {
			require.NoError(f, f.admin.Del(f.Context(), key).Err())
		}
		<-ctx.Done()
		return "value", nil
	})
	require.Equal(f, "value", value, "also beside a loss")
	require.ErrorIs(f, err, rlock.ErrLost)
}

func ensureOwner(f *fixture) {
	client := f.client()
	lock, rival, other := f.newLock(client, f.name), f.newRival(client, f.name), f.newLock(client, testkit.NewName())
	owner := rlock.WithOwner(f.Context())
	require.Same(f, owner, rlock.EnsureOwner(owner), "it has an owner")

	plain := rlock.EnsureOwner(f.Context())
	require.Same(f, plain, rlock.EnsureOwner(plain))
	require.True(f, tryLock(f, plain, lock))
	require.True(f, tryLock(f, plain, lock), "it is an owner, which re-enters")
	require.False(f, tryLock(f, rlock.EnsureOwner(f.Context()), rival), "each call makes an owner")
	require.NoError(f, lock.Unlock(plain))
	require.NoError(f, lock.Unlock(plain))

	require.NoError(f, lock.Do(f.Context(), func(held context.Context) error {
		ctx := rlock.EnsureOwner(held)
		require.NoError(f, lock.Do(ctx, func(context.Context) error { return nil }, rlock.Wait(0)), "the hold re-enters")
		require.Equal(f, 1, holdCount(f, ctx, lock))
		require.True(f, tryLock(f, ctx, other))
		require.True(f, tryLock(f, ctx, other), "it is an owner for other locks")
		require.NoError(f, other.Unlock(ctx))
		require.NoError(f, other.Do(ctx, func(inner context.Context) error {
			require.Same(f, inner, rlock.EnsureOwner(inner))
			require.True(f, tryLock(f, inner, lock), "a hold within it hides nothing either")
			require.NoError(f, lock.Unlock(inner))
			require.True(f, carries(inner, lock))
			require.False(f, tryLock(f, rlock.WithOwner(inner), rival))
			require.False(f, carries(rlock.WithOwner(inner), other), "an owner created within it hides its holds")
			return other.Unlock(inner)
		}))
		require.False(f, tryLock(f, rlock.WithOwner(ctx), rival), "WithOwner hides the hold")
		require.False(f, carries(rlock.WithOwner(ctx), lock))
		return nil
	}))
	require.False(f, isLocked(f, lock))
	require.False(f, isLocked(f, other))
}
