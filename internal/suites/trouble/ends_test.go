package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAVerbReturnsAtOnceWhenItsHoldIsOver stops Redis until the deadline has passed. The command timeout is 5 s: a verb
// that asks Redis takes as long.
func TestAVerbReturnsAtOnceWhenItsHoldIsOver(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	ends := map[string]func(t *testing.T, lock testkit.Locker, stop func()) (passed func() time.Duration, err error){
		"Unlock": func(t *testing.T, lock testkit.Locker, stop func()) (func() time.Duration, error) {
			t.Helper()
			require.NoError(t, lock.Lock(t.Context(), rlock.Lease(lease)))
			stop()
			return redistest.Stopwatch(t), lock.Unlock(t.Context())
		},
		"a partial unlock": func(t *testing.T, lock testkit.Locker, stop func()) (func() time.Duration, error) {
			t.Helper()
			ctx := rlock.WithOwner(t.Context())
			require.NoError(t, lock.Lock(ctx, rlock.Lease(lease)))
			require.NoError(t, lock.Lock(ctx, rlock.Lease(lease)))
			stop()
			return redistest.Stopwatch(t), lock.Unlock(ctx)
		},
		"Hold.Unlock": func(t *testing.T, lock testkit.Locker, stop func()) (func() time.Duration, error) {
			t.Helper()
			hold, err := lock.Acquire(t.Context(), rlock.Lease(lease))
			require.NoError(t, err)
			stop()
			return redistest.Stopwatch(t), hold.Unlock(t.Context())
		},
		"Do": func(t *testing.T, lock testkit.Locker, stop func()) (passed func() time.Duration, err error) {
			t.Helper()
			err = lock.Do(t.Context(), func(context.Context) error {
				stop()
				passed = redistest.Stopwatch(t)
				return nil
			}, rlock.Lease(lease))
			return passed, err
		},
	}
	for kind, of := range testkit.Kinds {
		for how, end := range ends {
			t.Run(kind+", "+how, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				lock := of.Make(testkit.NewClient(t, server.Client(t), rlock.WithCommandTimeout(5*time.Second), rlock.WithLogger(testkit.Discard)), testkit.NewName())
				passed, err := end(t, lock, func() {
					deadline := time.Now().Add(lease)
					server.Pause()
					time.Sleep(time.Until(deadline)) // the hold's deadline is earlier
				})
				took := passed()
				server.Resume()
				require.ErrorIs(t, err, rlock.ErrLost)
				require.NotErrorIs(t, err, rlock.ErrUnavailable)
				require.ErrorContains(t, err, "its lease ended")
				require.Less(t, took, 3*time.Second)
			})
		}
	}
}
