package trouble

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

// A server whose clock jumps a minute ahead expires the lease and lets the next owner in. No client can prevent that. The
// holder learns of the loss at its next renewal, and the fencing tokens distinguish the two owners.
func TestAForwardJumpOfTheServersClockIsALoss(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	rdb := server.Client(t)
	lock := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(9*time.Second)).NewLock(testkit.NewName(), rlock.Fenced())
	rival := testkit.NewClient(t, rdb).NewLock(lock.Name(), rlock.Fenced())
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	_ = hold.Done()

	clock.Set(3 * time.Second)
	before := hold.Deadline()
	testkit.Eventually(t, "the next renewal extends the lease after a jump that is shorter than it", func() bool {
		return hold.Deadline().After(before)
	})
	require.InDelta(t, 9*time.Second, testkit.Must(lock.TTL(t.Context())), float64(4*time.Second))
	require.NoError(t, hold.Err())

	clock.Set(time.Minute)
	believed := hold.Deadline()
	next, err := rival.TryAcquire(t.Context())
	require.NoError(t, err)
	testkit.Within(t, "the holder learns of the loss", hold.Done())
	require.True(t, time.Now().Before(believed), "it learns from a renewal, before its own deadline")
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.Greater(t, next.Token(), hold.Token())
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.NoError(t, next.Unlock(t.Context()), "the next owner still has the lock")
}

// A server whose clock is set back keeps locks for longer. Their holders rely on their own deadlines, and release in time.
func TestABackwardJumpOfTheServersClockBlocksNobody(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	rdb := server.Client(t)
	lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName(), rlock.Fenced())
	rival := testkit.NewClient(t, rdb, tune.PollInterval(100*time.Millisecond)).NewLock(lock.Name(), rlock.Fenced())
	hold, err := lock.Acquire(t.Context(), rlock.Lease(2*time.Second))
	require.NoError(t, err)
	clock.Set(-2 * time.Minute)
	require.Greater(t, testkit.Must(lock.TTL(t.Context())), time.Minute)
	testkit.Within(t, "the hold ends at its own deadline", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	next, err := rival.Acquire(t.Context(), rlock.Wait(testkit.ALongTime))
	require.NoError(t, err, "the holder has released the lock after its deadline")
	require.Greater(t, next.Token(), hold.Token(), "although tokens come from the clock, which is now behind")
	require.NoError(t, next.Unlock(t.Context()))
	if err := hold.Unlock(t.Context()); err != nil {
		require.ErrorIs(t, err, rlock.ErrLost)
	}
}

// The clocks of the clients are an hour behind that of Redis. Deadlines in the queue depend on the clock of Redis alone.
func TestFairDeadlinesUseTheServersClock(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	clock.Set(time.Hour)
	rdb := server.Client(t)
	holder := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context()))
	queue := make(chan int, 4)
	var served []<-chan error
	for i := range 4 {
		lock := testkit.NewClient(t, server.Client(t), tune.FairWait(10*time.Second)).NewFairLock(holder.Name())
		served = append(served, testkit.Async(func() error {
			return lock.Do(t.Context(), func(context.Context) error { queue <- i; return nil })
		}))
		testkit.Eventually(t, "it queues", func() bool { return len(testkit.Queued(t, rdb, holder)) == i+1 })
	}
	now := rdb.Time(t.Context()).Val()
	require.Greater(t, now, time.Now().Add(59*time.Minute))
	for _, waiter := range rdb.ZRangeWithScores(t.Context(), testkit.Keys(holder)[2], 0, -1).Val() {
		require.Greater(t, waiter.Score, float64(now.UnixMilli()), "its deadline is in the future")
		require.Less(t, waiter.Score, float64(now.Add(10*time.Minute).UnixMilli()), "its deadline is not an hour too late")
	}
	require.NoError(t, holder.Unlock(t.Context()))
	for i := range 4 {
		require.Equal(t, i, testkit.Within(t, "the waiters acquire in order", queue))
		require.NoError(t, testkit.Within(t, "Do returns", served[i]))
	}
}
