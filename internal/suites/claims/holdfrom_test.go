package claims

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// This file tests the holds that contexts carry. The conformance suite has the claims for every kind.

// carries reports whether a context carries a hold of a lock or a group.
func carries(ctx context.Context, of handles.Any) bool {
	_, ok := handles.HoldFrom(ctx, of)
	return ok
}

// deadlineOf returns the deadline of the hold that a context carries, or the zero time if it carries none.
func deadlineOf(ctx context.Context, of handles.Any) time.Time {
	hold, _ := handles.HoldFrom(ctx, of)
	return hold.Deadline()
}

func TestHoldFromKnowsTheSidesOfAReadWriteLock(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		rw := testkit.NewClient(t, rdb).NewRWLock(testkit.NewName())
		write, err := rw.Writer().Acquire(t.Context(), rlock.Lease(20*time.Minute))
		require.NoError(t, err)
		require.False(t, carries(write.Context(), rw.Reader()), "the owner writes, and does not read")
		read, err := rw.Reader().Acquire(write.Context(), rlock.Lease(10*time.Minute))
		require.NoError(t, err)
		require.Equal(t, read.Deadline(), deadlineOf(read.Context(), rw.Reader()))
		require.Equal(t, write.Deadline(), deadlineOf(read.Context(), rw.Writer()), "the read hold does not hide the write hold")
		require.False(t, carries(write.Context(), rw.Reader()), "only the context of the read hold carries it")
		again, err := rw.Writer().TryAcquire(read.Context())
		require.NoError(t, err, "it re-enters from within the read hold")
		require.Equal(t, read.Deadline(), deadlineOf(again.Context(), rw.Reader()))
		require.NoError(t, again.Unlock(t.Context()))
		nearest, _ := rlock.HoldFrom(again.Context(), rw.Writer())
		require.NoError(t, nearest.Err(), "the hold of the re-entry is over, and the one outside it is not (M.11)")
		require.NoError(t, write.Err())
		require.NoError(t, read.Unlock(t.Context()))
		require.NoError(t, write.Unlock(t.Context()))
	})
}

// The members of a multi lock are held as if each had been taken by itself.
func TestHoldFromFindsTheMembersOfAMultiLock(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(time.Hour))
		fenced, plain := client.NewLock(testkit.NewName(), rlock.Fenced()), other.NewLock(testkit.NewName())
		multi := rlock.NewMultiLock(fenced, plain)
		hold, err := multi.Acquire(t.Context())
		require.NoError(t, err)
		ctx := hold.Context()

		group, ok := rlock.HoldFrom(ctx, rlock.NewMultiLock(plain, fenced))
		require.True(t, ok, "any handle on the same members")
		require.Zero(t, group.Token())
		one, ok := rlock.HoldFrom(ctx, fenced)
		require.True(t, ok)
		require.NotZero(t, one.Token(), "the member's own token")
		require.Greater(t, time.Until(deadlineOf(ctx, plain)), 50*time.Minute, "the member's own deadline")
		require.Less(t, time.Until(group.Deadline()), time.Minute)
		for what, none := range map[string]handles.Any{
			"some of the members": rlock.NewMultiLock(fenced),
			"more locks":          rlock.NewMultiLock(fenced, plain, client.NewLock(testkit.NewName())),
		} {
			require.False(t, carries(ctx, none), what)
		}

		require.ErrorIs(t, one.Unlock(t.Context()), rlock.ErrNotHeld)
		require.NoError(t, hold.Err())
		require.True(t, testkit.Must(plain.ForceUnlock(t.Context())))
		testkit.Within(t, "the group's hold ends with a member", group.Done())
		require.ErrorIs(t, group.Err(), rlock.ErrLost)
		lost, ok := rlock.HoldFrom(ctx, plain)
		require.True(t, ok)
		require.ErrorIs(t, lost.Err(), rlock.ErrLost)
		require.NoError(t, one.Err(), "each member has an end of its own")
		require.ErrorIs(t, context.Cause(one.Context()), rlock.ErrLost, "all of them have the context of the group")
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		require.ErrorIs(t, one.Err(), rlock.ErrNotHeld)
		require.NotErrorIs(t, one.Err(), rlock.ErrLost)
		require.NotZero(t, one.Token())
	})
}

func TestHoldFromKnowsAMultiLockFromARedLock(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	name := testkit.NewName()
	a, b := client.NewLock(name+":1"), client.NewLock(name+":2") // in the order of a multi lock
	multi, red := rlock.NewMultiLock(a, b), rlock.NewRedLock(a, b)
	require.NoError(t, multi.Do(t.Context(), func(ctx context.Context) error {
		require.True(t, carries(ctx, multi))
		require.True(t, carries(ctx, a))
		require.False(t, carries(ctx, rlock.NewMultiLock(a, nil)), "a group that cannot work")
		require.False(t, carries(ctx, red), "a majority of two is both, but it is a red lock")
		return red.Do(ctx, func(ctx context.Context) error {
			require.True(t, carries(ctx, red))
			require.True(t, carries(ctx, multi), "the hold of the multi lock is farther out")
			require.True(t, carries(ctx, a), "so is that of its member")
			return nil
		})
	}))
	require.NoError(t, red.Do(t.Context(), func(ctx context.Context) error {
		require.True(t, carries(ctx, red))
		require.False(t, carries(ctx, a))
		require.False(t, carries(ctx, multi))
		return nil
	}))
}

func TestHoldFromNothing(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	run := func(context.Context) error { return nil }
	require.NoError(t, client.NewLock(testkit.NewName()).Do(t.Context(), func(ctx context.Context) error {
		for what, none := range map[string]handles.Any{
			"nil":              nil,
			"a nil lock":       (*rlock.Lock)(nil),
			"a zero lock":      &rlock.Lock{},
			"a nil multi lock": (*rlock.MultiLock)(nil),
			"a zero red lock":  &rlock.RedLock{},
			"no locks":         rlock.NewMultiLock(),
			"a nil side":       (*rlock.RWLock)(nil).Reader(),
		} {
			hold, ok := handles.HoldFrom(ctx, none)
			require.False(t, ok, what)
			require.Nil(t, hold, what)
			require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrNotHeld, what)
			value, err := handles.DoValue(ctx, none, func(context.Context) (int, error) { return 1, nil })
			require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
			require.Zero(t, value)
			if none != nil {
				ran, err := none.TryDo(ctx, run)
				require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
				require.False(t, ran, what)
			}
		}
		return nil
	}))
}

// Middleware that made an owner with WithOwner would hide the hold of its caller, and wait for it.
func TestMiddlewareThatEnsuresAnOwnerDoesNotWaitForItsCaller(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	order, stock := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())
	middleware := func(ctx context.Context, owner func(context.Context) context.Context) error {
		ctx = owner(ctx)
		return order.Do(ctx, func(ctx context.Context) error {
			return stock.Do(ctx, func(ctx context.Context) error {
				return stock.Do(ctx, func(context.Context) error { return nil }, rlock.Wait(0))
			})
		}, rlock.Wait(20*time.Millisecond))
	}
	require.NoError(t, order.Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, middleware(ctx, rlock.WithOwner), rlock.ErrNotAcquired)
		require.NoError(t, middleware(ctx, rlock.EnsureOwner))
		return middleware(rlock.EnsureOwner(ctx), rlock.EnsureOwner)
	}))
}

func TestAPanicPassesThroughTryDoAndDoValue(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t)).NewLock(testkit.NewName())
	require.PanicsWithValue(t, "boom", func() {
		_, _ = lock.TryDo(t.Context(), func(context.Context) error { panic("boom") })
	})
	require.PanicsWithValue(t, "boom", func() {
		_, _ = rlock.DoValue(t.Context(), lock, func(context.Context) (int, error) { panic("boom") })
	})
	require.False(t, testkit.Must(lock.IsLocked(t.Context())))
}
