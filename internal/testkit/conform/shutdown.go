package conform

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// stopping begins a shutdown of a client, and returns when the hold is told of it. Its result comes on the channel.
func stopping(f *fixture, ctx context.Context, client *rlock.Client, hold *rlock.Hold) <-chan error {
	f.Helper()
	stopped := testkit.Async(func() error { return client.Shutdown(ctx) })
	testkit.Within(f, "the hold's context ends", hold.Context().Done())
	return stopped
}

// shutdownTells has the holders told and the waiters end, while the locks stay held and are renewed.
func shutdownTells(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(steady))
	lock := f.newLock(client, f.name)
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	done := hold.Done()
	rival := f.newRival(client, f.name)
	waiting := testkit.Async(func() error { return rival.Lock(f.Context()) })
	queued := testkit.Async(func() error { return rival.Lock(f.Context()) })
	testkit.Eventually(f, "both wait", func() bool { return testkit.Waiting(rival) == 2 })

	stopped := stopping(f, f.Context(), client, hold)
	require.ErrorIs(f, context.Cause(hold.Context()), rlock.ErrClosed)
	require.ErrorIs(f, testkit.Within(f, "the first waiter's wait ends", waiting), rlock.ErrClosed)
	require.ErrorIs(f, testkit.Within(f, "the queued waiter's wait ends", queued), rlock.ErrClosed)
	require.ErrorIs(f, f.newLock(client, testkit.NewName()).Lock(f.Context()), rlock.ErrClosed)
	_, err = rival.TryLock(f.Context())
	require.ErrorIs(f, err, rlock.ErrClosed)

	deadline := hold.Deadline()
	testkit.Eventually(f, "the lock is renewed for longer than its lease", func() bool {
		return hold.Deadline().After(deadline.Add(steady))
	})
	require.NoError(f, hold.Err())
	select {
	case <-done:
		f.Error("Done is closed although the lock is held")
	default:
	}
	require.True(f, isLocked(f, lock), "queries work")
	select {
	case err := <-stopped:
		f.Errorf("Shutdown did not wait for the hold: %v", err)
	default:
	}
	require.NoError(f, hold.Unlock(f.Context()))
	require.NoError(f, testkit.Within(f, "Shutdown returns", stopped))
	require.False(f, isLocked(f, f.lock()))
	require.ErrorIs(f, lock.Lock(f.Context()), rlock.ErrClosed)
	require.NoError(f, client.Shutdown(f.Context()), "the second one has nothing to do")
}

// shutdownReenters has a section that winds up take its own lock again.
func shutdownReenters(f *fixture) {
	client := f.client()
	lock := f.newLock(client, f.name)
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	stopped := stopping(f, f.Context(), client, hold)

	within := context.WithoutCancel(hold.Context())
	inner, err := lock.Acquire(within, rlock.Wait(testkit.ALongTime))
	require.NoError(f, err, "the owner re-enters")
	require.ErrorIs(f, context.Cause(inner.Context()), rlock.ErrClosed, "a context that is asked for later has ended too")
	require.NoError(f, inner.Err())
	require.Equal(f, 2, holdCount(f, within, lock))
	other := f.newLock(client, testkit.NewName())
	require.ErrorIs(f, other.Lock(within), rlock.ErrClosed, "another lock is no re-entry")

	require.NoError(f, hold.Unlock(f.Context()))
	testkit.Stays(f, "Shutdown waits for the inner acquisition", func() bool { return len(stopped) == 0 })
	require.True(f, isLocked(f, lock))
	require.NoError(f, inner.Unlock(f.Context()))
	require.NoError(f, testkit.Within(f, "Shutdown returns", stopped))
	require.False(f, isLocked(f, f.lock()))
}

// shutdownEndsWithContext has a shutdown close the client although a hold is left.
func shutdownEndsWithContext(f *fixture) {
	client := f.client()
	lock := f.newLock(client, f.name)
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	hurry := errors.New("a second signal")
	ctx, cancel := context.WithCancelCause(f.Context())
	stopped := stopping(f, ctx, client, hold)
	patient := testkit.Async(func() error { return client.Shutdown(f.Context()) })
	testkit.Stays(f, "both wait", func() bool { return len(stopped)+len(patient) == 0 })
	cancel(hurry)
	err = testkit.Within(f, "the hurried one returns", stopped)
	require.ErrorIs(f, err, context.Canceled)
	require.ErrorIs(f, err, hurry)
	require.Regexp(f, `^rlock: shutdown with [1-3] holds? left of ".*": `, err.Error())
	require.ErrorIs(f, testkit.Within(f, "the patient one returns", patient), rlock.ErrClosed)
	require.ErrorIs(f, hold.Err(), rlock.ErrClosed)
	require.True(f, isLocked(f, f.lock()), "nothing is freed by force")
	require.NoError(f, hold.Unlock(f.Context()))
	require.NoError(f, client.Shutdown(f.Context()))
}

// shutdownWithinSection has a shutdown refused that would wait for its own caller.
func shutdownWithinSection(f *fixture) {
	client := f.client()
	lock := f.newLock(client, f.name)
	require.NoError(f, lock.Do(f.Context(), func(ctx context.Context) error {
		require.ErrorIs(f, client.Shutdown(ctx), rlock.ErrInvalidOption)
		require.NoError(f, ctx.Err(), "nothing is stopped")
		outer := f.client()
		return f.newLock(outer, testkit.NewName()).Do(ctx, func(ctx context.Context) error {
			require.ErrorIs(f, client.Shutdown(ctx), rlock.ErrInvalidOption, "also from within another client's section")
			return ctx.Err()
		})
	}))
	require.NoError(f, lock.Lock(f.Context()))
	require.NoError(f, lock.Unlock(f.Context()))
}
