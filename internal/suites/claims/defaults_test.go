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

// TestAnOptionOfAHandleIsTheDefaultOfItsCalls checks that what a call may be given, its handle may be given, and that the call wins.
func TestAnOptionOfAHandleIsTheDefaultOfItsCalls(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb)
	ctx := t.Context()
	left := func(hold *rlock.Hold, err error) time.Duration {
		require.NoError(t, err)
		defer func() { require.NoError(t, hold.Unlock(ctx)) }()
		return time.Until(hold.Deadline()).Round(time.Second)
	}
	for kind, newLock := range map[string]func(string, ...rlock.LockOption) *rlock.Lock{
		"lock": client.NewLock, "fair": client.NewFairLock, "spin": client.NewSpinLock,
		"read": func(name string, opts ...rlock.LockOption) *rlock.Lock {
			return client.NewRWLock(name, opts...).Reader()
		},
	} {
		lock := newLock(testkit.NewName(), rlock.Lease(20*time.Second), rlock.Wait(300*time.Millisecond))
		require.Equal(t, 20*time.Second, left(lock.Acquire(ctx)), kind)
		require.Equal(t, 20*time.Second, left(lock.TryAcquire(ctx)), kind)
		require.Equal(t, 10*time.Second, left(lock.Acquire(ctx, rlock.Lease(10*time.Second))), kind)
		require.Equal(t, 10*time.Second, left(lock.Acquire(ctx, rlock.RenewedLease(10*time.Second))), "%s: the call has another kind of lease", kind)
		require.Equal(t, 30*time.Second, left(newLock(testkit.NewName()).Acquire(ctx)), kind)

		other := testkit.NewClient(t, rdb).NewRWLock(lock.Name()).Writer()
		if kind != "read" {
			other = testkit.NewClient(t, rdb).NewLock(lock.Name())
		}
		hold := testkit.Must(other.Acquire(ctx))
		elapsed := redistest.Stopwatch(t)
		require.ErrorIs(t, lock.Do(ctx, func(context.Context) error { return nil }), rlock.ErrNotAcquired, kind)
		require.GreaterOrEqual(t, elapsed(), 300*time.Millisecond, kind)
		require.False(t, testkit.Must(lock.TryLock(ctx)), kind)
		require.NoError(t, hold.Unlock(ctx), kind)
	}

	permits := client.NewSemaphore(testkit.NewName(), rlock.Total(5), rlock.Permits(3), rlock.RenewedLease(20*time.Second))
	require.NoError(t, permits.Do(ctx, func(context.Context) error {
		require.Equal(t, 2, testkit.Must(permits.AvailablePermits(ctx)))
		return permits.Do(ctx, func(context.Context) error { return nil }, rlock.Permits(2))
	}))
}

// TestAnOptionOfAnotherKindIsRefused checks that a handle refuses what its kind does not have, before it sends anything.
func TestAnOptionOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Start(t).Client(t))
	ctx, name := t.Context(), testkit.NewName()
	backoff := rlock.Backoff(time.Second, time.Second)
	for what, err := range map[string]error{
		"Backoff of a lock":           client.NewLock(name, backoff).Lock(ctx),
		"Backoff of a fair lock":      client.NewFairLock(name, backoff).Lock(ctx),
		"Backoff of a reader":         client.NewRWLock(name, backoff).Reader().Lock(ctx),
		"Backoff of a semaphore":      testkit.Second(client.NewSemaphore(name, backoff).Permits(ctx)),
		"Total of a lock":             client.NewLock(name, rlock.Total(1)).Lock(ctx),
		"ExpireAfter of a lock":       client.NewLock(name, rlock.ExpireAfter(time.Hour)).Lock(ctx),
		"NonReentrant of a semaphore": testkit.Second(client.NewSemaphore(name, rlock.NonReentrant()).Permits(ctx)),
		"Fenced of a semaphore":       testkit.Second(client.NewSemaphore(name, rlock.Fenced()).Permits(ctx)),
		"Permits of a lock":           client.NewLock(name, rlock.Permits(2)).Lock(ctx),
		"a nil option":                client.NewLock(name, nil).Lock(ctx),
	} {
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
	}
}
