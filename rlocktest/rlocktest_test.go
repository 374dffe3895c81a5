package rlocktest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/rlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(context.Context) error { return nil }

func TestHoldElsewhere(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t)
	release := rlocktest.HoldElsewhere(t, locks, "invoice:42")
	lock := locks.NewLock("invoice:42")
	require.ErrorIs(t, lock.Do(t.Context(), nothing, rlock.Wait(0)), rlock.ErrNotAcquired)
	release()
	release()
	require.NoError(t, lock.Do(t.Context(), nothing, rlock.Wait(0)))
}

// TestHoldElsewhereOfAProcessThatDies is of one with the options of the client.
func TestHoldElsewhereOfAProcessThatDies(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t, rlock.WithKeyPrefix("app:"), rlock.WithWatchdogTimeout(time.Minute))
	rlocktest.HoldElsewhere(t, locks, "invoice:42")
	lock := locks.NewLock("invoice:42")
	require.ErrorIs(t, lock.Do(t.Context(), nothing, rlock.Wait(0)), rlock.ErrNotAcquired)
	rlocktest.Advance(t, locks, time.Minute)
	require.NoError(t, lock.Do(t.Context(), nothing, rlock.Wait(0)))
}

func TestLose(t *testing.T) {
	t.Parallel()
	lock := rlocktest.New(t).NewLock("invoice:42")
	require.ErrorIs(t, lock.Do(t.Context(), func(ctx context.Context) error {
		rlocktest.Lose(t, lock)
		<-ctx.Done()
		return nil
	}), rlock.ErrLost)
}

func TestOutage(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t)
	lock := locks.NewLock("invoice:42")
	end := rlocktest.Outage(t, locks)
	require.ErrorIs(t, lock.Do(t.Context(), nothing, rlock.Wait(0)), rlock.ErrUnavailable)
	end()
	require.NoError(t, lock.Do(t.Context(), nothing))
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	locks, dead := rlocktest.New(t), rlocktest.New(t)
	rlocktest.Advance(t, dead, time.Hour)
	lock := locks.NewLock("invoice:42")
	hold, err := lock.Acquire(t.Context(), rlock.Lease(time.Minute))
	require.NoError(t, err)
	rlocktest.Advance(t, locks, time.Minute)
	held, err := lock.IsLocked(t.Context())
	require.NoError(t, err)
	require.False(t, held)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

// fatal is a test that notes how it ends.
type fatal struct {
	testing.TB

	said string
}

func (*fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAdvanceByANumberWithoutAUnit(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t)
	for _, d := range []time.Duration{30, 0, -time.Second} {
		f, over := &fatal{TB: t}, make(chan struct{})
		go func() {
			defer close(over)
			rlocktest.Advance(f, locks, d)
		}()
		<-over
		require.Contains(t, f.said, "advance by "+d.String()+", but the least is 1ms")
	}
}

// TestInABubble has a lock that is held for an hour, with its renewals, and somebody who waits for it, in no time.
func TestInABubble(t *testing.T) {
	t.Parallel()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		locks := rlocktest.New(t)
		lock, inside := locks.NewLock("invoice:42"), time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
					time.Sleep(time.Minute)
					return ctx.Err()
				}))
			})
		}
		all.Wait()
		require.GreaterOrEqual(t, time.Since(inside), 3*time.Minute)
		release := rlocktest.HoldElsewhere(t, locks, "invoice:42")
		all.Go(func() { require.NoError(t, lock.Do(t.Context(), nothing)) })
		synctest.Wait()
		require.Equal(t, 1, locks.Stats().Waiting)
		release()
		all.Wait()
	})
	require.Less(t, time.Since(began), 3*time.Minute)
}

// TestALockThatIsLeftHeld fails the test that leaves it.
func TestALockThatIsLeftHeld(t *testing.T) {
	t.Parallel()
	inner := &recorder{TB: t}
	locks := rlocktest.New(inner)
	_, err := locks.NewLock("invoice:42").Acquire(t.Context())
	require.NoError(t, err)
	for _, cleanup := range slices.Backward(inner.cleanups) {
		cleanup()
	}
	require.True(t, inner.failed)
}

// recorder is a test that fails without failing this one.
type recorder struct {
	testing.TB

	cleanups []func()
	failed   bool
}

func (r *recorder) Cleanup(f func())      { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
