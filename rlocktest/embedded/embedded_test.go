package embedded_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/rlocktest/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(context.Context) error { return nil }

// TestStart has two goroutines exclude each other, and another server that knows nothing of them.
func TestStart(t *testing.T) {
	t.Parallel()
	locks, stop, err := embedded.Start(rlock.WithKeyPrefix("app:"))
	require.NoError(t, err)
	defer stop()
	others, end, err := embedded.Start()
	require.NoError(t, err)
	defer end()
	require.NoError(t, locks.NewLock("invoice:42").Do(t.Context(), func(context.Context) error {
		require.ErrorIs(t, locks.NewLock("invoice:42").Do(t.Context(), nothing, rlock.Wait(0)), rlock.ErrNotAcquired)
		return others.NewLock("invoice:42").Do(t.Context(), nothing, rlock.Wait(0))
	}))
	waiting := make(chan error)
	hold, err := locks.NewLock("invoice:42").Acquire(t.Context())
	require.NoError(t, err)
	go func() { waiting <- locks.NewLock("invoice:42").Do(context.Background(), nothing) }()
	require.Eventually(t, func() bool { return locks.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, <-waiting)
}

// TestTheClockRuns has a lease that ends, and a hold that is renewed for an hour.
func TestTheClockRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks, stop, err := embedded.Start()
		require.NoError(t, err)
		defer stop()
		_, err = locks.NewLock("leased").Acquire(t.Context(), rlock.Lease(time.Minute))
		require.NoError(t, err)
		kept, err := locks.NewLock("kept").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, locks.NewLock("leased").Do(t.Context(), nothing, rlock.Wait(0)))
		require.NoError(t, kept.Err())
		require.NoError(t, kept.Unlock(t.Context()))
	})
}

// TestStopEndsAll has holds and waits end, also if several goroutines stop it.
func TestStopEndsAll(t *testing.T) {
	t.Parallel()
	locks, stop, err := embedded.Start()
	require.NoError(t, err)
	hold, err := locks.NewLock("invoice:42").Acquire(t.Context())
	require.NoError(t, err)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	stop()
	<-stopped
	stop()
	require.ErrorIs(t, hold.Err(), rlock.ErrClosed)
	require.ErrorIs(t, locks.NewLock("invoice:42").Lock(t.Context()), rlock.ErrClosed)
}

func TestStartWithAnOptionThatCannotWork(t *testing.T) {
	t.Parallel()
	locks, stop, err := embedded.Start(rlock.WithCommandTimeout(-1))
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
	require.Nil(t, locks)
	require.Nil(t, stop)
}

// TestAProgramGetsNoTestFlags checks that a program which imports this package does not get the package testing with it.
func TestAProgramGetsNoTestFlags(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, "github.com/go-rlock/rlock")
	require.NotContains(t, deps, "testing")
}
