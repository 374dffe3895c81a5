package conform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file has the claims of the conformance suite about the errors with which a hold ends, and about the log.

func unlockPastDeadline(f *fixture) {
	lock := f.lock()
	for name, unlock := range map[string]func(hold *rlock.Hold) error{
		"Hold.Unlock": func(hold *rlock.Hold) error { return hold.Unlock(f.Context()) },
		"Unlock":      func(hold *rlock.Hold) error { return lock.Unlock(hold.Context()) },
	} {
		hold, err := lock.Acquire(f.Context(), rlock.Lease(2*time.Second)) // Redis has the holder 22 ms longer
		require.NoError(f, err)
		if name == "Unlock" {
			require.NoError(f, lock.Lock(hold.Context(), rlock.Lease(time.Second)), "an inner acquisition, so that its unlock is a partial one")
		}
		ctx := hold.Context()
		testkit.Within(f, "the deadline passes", hold.Done())
		err = unlock(hold)
		require.ErrorIs(f, err, rlock.ErrLost, name)
		require.ErrorContains(f, err, "its lease ended", name)
		require.NotErrorIs(f, err, rlock.ErrUnavailable, name)
		require.ErrorIs(f, context.Cause(ctx), rlock.ErrLost, name)
		if name == "Unlock" {
			require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost)
		}
		require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrNotHeld)
	}
	err := lock.Do(f.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }, rlock.Lease(time.Second))
	require.ErrorIs(f, err, rlock.ErrLost, "Do")
	rival := f.rival()
	require.NoError(f, rival.Lock(f.Context(), rlock.Wait(testkit.ALongTime)), "the release goes on in the background")
	require.NoError(f, rival.Unlock(f.Context()))
}

// lose makes Redis forget a lock, and waits until its holder knows.
func (f *fixture) lose(ctx context.Context, lock testkit.Locker) {
	f.Helper()
	for _, key := range testkit.Keys(lock) {
		require.NoError(f, f.admin.Del(f.Context(), key).Err())
	}
	testkit.Within(f, "the holder is told of the loss", ctx.Done())
	require.ErrorIs(f, context.Cause(ctx), rlock.ErrLost)
}

func doKeepsError(f *fixture) {
	lock := f.lock()
	boom := errors.New("boom") // a pointer: == compares the identity
	for _, mine := range []error{
		nil, boom, errors.Join(boom, context.Canceled), fmt.Errorf("another lock: %w", rlock.ErrLost), rlock.ErrNotAcquired, rlock.ErrUnavailable,
	} {
		require.True(f, identical(lock.Do(f.Context(), func(context.Context) error { return mine }), mine), "%v", mine)
	}
}

// identical reports whether two errors are the same value, which says more than [errors.Is].
func identical(a, b error) bool { return any(a) == any(b) }

func doReportsLossOnce(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(300 * time.Millisecond))
	boom := errors.New("boom")
	var cause error
	do := func(result func(cause error) error) error {
		return lock.Do(f.Context(), func(ctx context.Context) error {
			f.lose(ctx, lock)
			cause = context.Cause(ctx)
			return result(cause)
		})
	}
	err := do(func(error) error { return nil })
	require.ErrorIs(f, err, rlock.ErrLost)
	require.True(f, strings.HasPrefix(err.Error(), "rlock: do "), err)
	require.Contains(f, err.Error(), ": while held: lock lost: ")

	err = do(func(error) error { return boom })
	require.ErrorIs(f, err, rlock.ErrLost)
	require.ErrorIs(f, err, boom)
	require.NotContains(f, err.Error(), "\n")
	require.Equal(f, 1, strings.Count(err.Error(), "lock lost"), err)
	require.Contains(f, err.Error(), "while held")
	require.Contains(f, err.Error(), "boom")

	require.True(f, identical(do(func(cause error) error { return cause }), cause), "the cause alone")
	joined := error(nil)
	err = do(func(cause error) error {
		joined = fmt.Errorf("save: %w", errors.Join(boom, cause))
		return joined
	})
	require.True(f, identical(err, joined), "an error that wraps the cause is returned alone: %v", err)
}

func doReportsOwnLoss(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(300 * time.Millisecond))
	outer, inner := f.newLock(client, f.name), f.newLock(client, testkit.NewName())
	var innerLost error
	err := outer.Do(f.Context(), func(ctx context.Context) error {
		hold, err := inner.Acquire(f.Context())
		require.NoError(f, err)
		f.lose(hold.Context(), inner)
		innerLost = hold.Unlock(f.Context())
		require.ErrorIs(f, innerLost, rlock.ErrLost)
		f.lose(ctx, outer)
		return innerLost
	})
	require.ErrorIs(f, err, rlock.ErrLost)
	require.ErrorIs(f, err, innerLost)
	require.NotEqual(f, innerLost, err, "the loss of the inner lock does not hide that of the outer one")
	require.Contains(f, err.Error(), "while held")
}

func doNamesPhase(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, other.Lock(f.Context()))
	never := func(context.Context) error { return errors.New("must not run") }
	err := lock.Do(f.Context(), never, rlock.Wait(0))
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.ErrorContains(f, err, ": while waiting: ")
	ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
	defer cancel()
	err = lock.Do(ctx, never)
	require.ErrorIs(f, err, context.DeadlineExceeded)
	require.ErrorContains(f, err, ": while waiting: ")
	err = lock.Lock(f.Context(), rlock.Wait(0))
	require.NotContains(f, err.Error(), "while waiting", "only Do has phases")
	require.NoError(f, other.Unlock(f.Context()))
}

func errorNamesAge(f *fixture) {
	client := f.client()
	lock, rival := f.newLock(client, f.name), f.newRival(client, f.name)
	const wait = 600 * time.Millisecond
	start := time.Now()
	require.NoError(f, rival.Lock(f.Context()))
	err := lock.Lock(f.Context(), rlock.Wait(wait))
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.Regexp(f, `not acquired: held by this process for \d+\.\ds`, err.Error())
	var age float64
	_, text, _ := strings.Cut(err.Error(), "held by this process for ")
	require.NoError(f, testkit.Second(fmt.Sscanf(text, "%fs", &age)))
	const rounded = 0.051
	require.GreaterOrEqual(f, age, wait.Seconds()-rounded)
	require.LessOrEqual(f, age, time.Since(start).Seconds()+rounded)
	ok, err := lock.TryLock(f.Context())
	require.NoError(f, err)
	require.False(f, ok)
	elsewhere := f.lock().Lock(f.Context(), rlock.Wait(0))
	require.ErrorIs(f, elsewhere, rlock.ErrNotAcquired)
	require.NotContains(f, elsewhere.Error(), "this process", "another client's hold")
	require.NoError(f, rival.Unlock(f.Context()))
}

func unlockEndsNoOther(f *fixture) {
	client := f.client()
	lock, same := f.newLock(client, f.name), f.newLock(client, f.name)
	fails := func(err error) {
		f.Helper()
		require.ErrorIs(f, err, rlock.ErrNotHeld)
		require.NotErrorIs(f, err, rlock.ErrLost)
	}
	grouped := f.kind.Groups
	owner := rlock.WithOwner(f.Context())
	fails(lock.Unlock(f.Context()))
	fails(lock.Unlock(owner))

	require.NoError(f, lock.Lock(f.Context()))
	if !grouped {
		fails(same.Unlock(f.Context()))
	}
	fails(same.Unlock(rlock.WithOwner(f.Context())))
	require.NoError(f, lock.Unlock(f.Context()))
	fails(lock.Unlock(f.Context()))

	if grouped { // what it made, only the handle unlocks
		same = lock
	}
	require.NoError(f, lock.Lock(owner))
	require.NoError(f, same.Unlock(owner))
	fails(same.Unlock(owner))

	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	if !grouped {
		fails(lock.Unlock(hold.Context()))
		fails(lock.Unlock(f.Context()))
	}
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrNotHeld)
	require.NoError(f, hold.Err(), "no unlock of a handle ends a Hold")
	require.NoError(f, hold.Unlock(f.Context()))
	fails(hold.Unlock(f.Context()))
	fails(hold.Err())
}

func lossLoggedOnce(f *fixture) {
	log := &testkit.Recorder{}
	lock := f.lock(rlock.WithWatchdogTimeout(300*time.Millisecond), rlock.WithLogger(log.Logger()))
	err := lock.Do(f.Context(), func(ctx context.Context) error {
		return lock.Do(ctx, func(ctx context.Context) error {
			f.lose(ctx, lock)
			return nil
		})
	})
	require.ErrorIs(f, err, rlock.ErrLost)
	testkit.Eventually(f, "the loss is logged", func() bool { return log.Contains("lock lost while held") })
	testkit.Stays(f, "the loss is logged once", func() bool { return strings.Count(log.String(), "lock lost while held") == 1 })
	require.Contains(f, log.String(), f.name)
}

func logsItself(f *fixture) {
	log := &testkit.Recorder{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	client := f.client()
	lock := f.newLock(client, f.name)
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	logger.Info("handle", slog.Any("lock", testkit.Handle(lock)))
	require.Contains(f, log.String(), f.name)
	if _, isLock := testkit.Handle(lock).(*rlock.Lock); isLock { // a group is logged as it is printed
		require.Contains(f, log.String(), "lock.name=")
		require.Contains(f, log.String(), "lock.kind=")
	}
	logger.Info("hold", slog.Any("hold", hold))
	text := log.String()
	require.Contains(f, text, "hold.name=")
	require.Contains(f, text, "hold.deadline=")
	require.Equal(f, hold.Token() != 0, strings.Contains(text, "hold.token="), text)
	require.NotContains(f, text, client.ID()[:9])
	require.NoError(f, hold.Unlock(f.Context()))
}
