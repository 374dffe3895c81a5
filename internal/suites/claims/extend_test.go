package claims

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestAnExtensionWithoutAReply(t *testing.T) {
	t.Parallel()
	for what, fault := range testkit.Lossy {
		t.Run("the connection is "+what, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, testkit.Quick())
			hold := testkit.Must(f.Lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
			before := hold.Deadline()
			fault(f.Proxy, 1, testkit.Runs("renew"))
			err := hold.Extend(t.Context(), 2*time.Hour)
			require.ErrorIs(t, err, rlock.ErrUnavailable)
			require.NotErrorIs(t, err, rlock.ErrNotHeld)
			require.NoError(t, hold.Err(), "the hold goes on")
			require.Equal(t, before, hold.Deadline(), "with its old deadline")
			require.Greater(t, testkit.Must(f.Other.TTL(t.Context())), 100*time.Minute, "Redis ran it")
			require.NoError(t, hold.Extend(t.Context(), 2*time.Hour))
			require.Greater(t, hold.Deadline(), before)
			require.NoError(t, hold.Unlock(t.Context()))
		})
	}
}

func TestALateReplyToAnExtensionCounts(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	hold := testkit.Must(f.Lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
	before := hold.Deadline()
	held := f.Proxy.HoldReply(1, testkit.Runs("renew"))
	ctx, cancel := context.WithCancel(t.Context())
	extending := testkit.Async(func() error { return hold.Extend(ctx, 2*time.Hour) })
	testkit.Within(t, "Redis has extended the lease", held.Met())
	cancel()
	err := testkit.Within(t, "the caller leaves", extending)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, rlock.ErrUnavailable)
	require.Equal(t, before, hold.Deadline())
	held.Release()
	testkit.Eventually(t, "the reply counts", func() bool { return hold.Deadline().After(before.Add(50 * time.Minute)) })
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAnExtensionOfAHoldThatIsOverSendsNothing(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	hold := testkit.Must(f.Lock.Acquire(t.Context()))
	require.NoError(t, hold.Unlock(t.Context()))
	require.ErrorIs(t, hold.Extend(t.Context(), time.Hour), rlock.ErrNotHeld)
	hold = testkit.Must(f.Lock.Acquire(t.Context(), rlock.Lease(100*time.Millisecond)))
	testkit.Within(t, "the lease ends", hold.Done())
	require.ErrorIs(t, hold.Extend(t.Context(), time.Hour), rlock.ErrLost)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hold = testkit.Must(f.Lock.Acquire(t.Context()))
	require.ErrorIs(t, hold.Extend(ctx, time.Hour), context.Canceled)
	require.ErrorIs(t, hold.Extend(t.Context(), 0), rlock.ErrInvalidOption)
	require.NoError(t, f.Client.Close())
	require.ErrorIs(t, hold.Extend(t.Context(), time.Hour), rlock.ErrClosed)
	require.Zero(t, f.Proxy.Count(testkit.Runs("renew")))
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAnExtensionUnderWayBlocksNeitherRenewalsNorTheUnlock(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(3*time.Second))
	hold := testkit.Must(f.Lock.Acquire(t.Context()))
	held := f.Proxy.HoldRequest(1, testkit.Runs("renew"))
	extending := testkit.Async(func() error { return hold.Extend(t.Context(), time.Hour) })
	testkit.Within(t, "the extension is in flight", held.Met())
	before := hold.Deadline()
	testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
	require.NoError(t, hold.Unlock(t.Context()))
	held.Release()
	err := testkit.Within(t, "the extension returns", extending)
	require.ErrorIs(t, err, rlock.ErrNotHeld)
	require.NotErrorIs(t, err, rlock.ErrLost)
	f.Free("a late extension creates nothing")
}

func TestMaxHoldEndsAnExtendedHold(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t), rlock.WithMaxHold(500*time.Millisecond)).NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context()))
	require.NoError(t, hold.Extend(t.Context(), time.Hour))
	testkit.Within(t, "the hold ends", hold.Done())
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

func TestALockWhoseLeaseWasExtendedIsReleased(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := testkit.NewClient(t, rdb, tune.HandOver(100, time.Hour))
	queue := testkit.NewWaiterQueue(t, client.NewLock(testkit.NewName()))
	hold := testkit.Must(queue.Lock.Acquire(t.Context()))
	require.NoError(t, hold.Extend(t.Context(), time.Hour))
	queue.Join(t.Context())
	queue.AwaitSleep(admin)
	require.NoError(t, hold.Unlock(t.Context()))
	hold = queue.Next()
	calls := testkit.Stats(t, admin)
	require.Equal(t, 1, calls["evalsha"])
	require.LessOrEqual(t, testkit.Must(queue.Lock.TTL(t.Context())), 30*time.Second, "the next holder's own lease")
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAnExtensionDuringAShutdown(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	hold := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context(), rlock.Lease(time.Minute)))
	ctx := hold.Context()
	stopping := testkit.Async(func() error { return client.Shutdown(t.Context()) })
	testkit.Within(t, "the holder is told", ctx.Done())
	require.NoError(t, hold.Extend(t.Context(), time.Hour))
	require.Greater(t, time.Until(hold.Deadline()), 50*time.Minute)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the shutdown ends", stopping))
}
