package trouble

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// This file has what users of other libraries report about semaphores, see reports_test.go.

// TestSeveralPermitsThatComeBackOneByOne wakes who waits for all of them, with the last one.
func TestSeveralPermitsThatComeBackOneByOne(t *testing.T) {
	t.Parallel()
	server, ctx, name := redistest.Start(t), t.Context(), testkit.NewName()
	rdb := server.Client(t)
	semaphore := func() *rlock.Semaphore {
		return testkit.NewClient(t, rdb, tune.PollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour)).NewSemaphore(name, rlock.Total(3))
	}
	var holds []*rlock.Hold
	for range 3 {
		holds = append(holds, testkit.Must(semaphore().Acquire(ctx)))
	}
	granted := make(chan *rlock.Hold, 1)
	waiter := semaphore()
	done := testkit.Async(func() error {
		hold, err := waiter.Acquire(ctx, rlock.Permits(3))
		granted <- hold
		return err
	})
	testkit.Eventually(t, "it waits", func() bool {
		return testkit.Must(rdb.Exists(ctx, "rlock:{"+name+"}").Result()) == 1
	})
	for _, hold := range holds {
		require.Empty(t, granted)
		require.NoError(t, hold.Unlock(ctx))
	}
	require.NoError(t, testkit.Within(t, "it has all permits", done))
	require.NoError(t, (<-granted).Unlock(ctx))
}

// TestPermitsAreNotSetTwice has several clients set a semaphore up while all of its permits are out.
func TestPermitsAreNotSetTwice(t *testing.T) {
	t.Parallel()
	rdb, ctx, name := redistest.Start(t).Client(t), t.Context(), testkit.NewName()
	first := testkit.NewClient(t, rdb).NewSemaphore(name, rlock.Total(2))
	hold := testkit.Must(first.Acquire(ctx, rlock.Permits(2)))
	other := testkit.NewClient(t, rdb).NewSemaphore(name, rlock.Total(2))
	require.False(t, testkit.Must(other.TrySetPermits(ctx, 2)), "0 of 2 are free, which is not none")
	_, err := other.TryAcquire(ctx)
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.NoError(t, hold.Unlock(ctx))
	require.Equal(t, 2, testkit.Must(other.AvailablePermits(ctx)))
}
