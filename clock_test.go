package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// A server that believes that a minute has passed lets the next owner in: no client can keep it from that. The holder is told
// at its next renewal, and the tokens tell the two apart.
func TestAServersClockThatJumpsForwardIsALoss(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	rdb := server.Client(t)
	lock := newClient(t, rdb, rlock.WithWatchdogTimeout(9*time.Second)).NewFencedLock(newName())
	rival := newClient(t, rdb).NewFencedLock(lock.Name())
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	_ = hold.Done()

	clock.Set(3 * time.Second)
	before := hold.Deadline()
	eventually(t, "a jump that is shorter than the lease is mended by the next renewal", func() bool {
		return hold.Deadline().After(before)
	})
	require.InDelta(t, 9*time.Second, must(lock.TTL(t.Context())), float64(4*time.Second))
	require.NoError(t, hold.Err())

	clock.Set(time.Minute)
	believed := hold.Deadline()
	next, err := rival.TryAcquire(t.Context())
	require.NoError(t, err)
	within(t, "the holder is told", hold.Done())
	require.True(t, time.Now().Before(believed), "by a renewal, and not by the end of what it believed to be its lease")
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.Greater(t, next.Token(), hold.Token())
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.NoError(t, next.Unlock(t.Context()), "whose lock was left alone")
}

// A server whose clock is set back keeps locks for longer. Their holders do not believe so, and give back what is theirs.
func TestAServersClockThatJumpsBackBlocksNobody(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	rdb := server.Client(t)
	lock := newClient(t, rdb).NewFencedLock(newName())
	rival := newClient(t, rdb, rlock.WithPollInterval(100*time.Millisecond)).NewFencedLock(lock.Name())
	hold, err := lock.Acquire(t.Context(), rlock.Lease(2*time.Second))
	require.NoError(t, err)
	clock.Set(-2 * time.Minute)
	require.Greater(t, must(lock.TTL(t.Context())), time.Minute)
	within(t, "the lease ends when it should", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	next, err := rival.Acquire(t.Context(), rlock.Wait(aLongTime))
	require.NoError(t, err, "the holder has released what it no longer relies on")
	require.Greater(t, next.Token(), hold.Token(), "though the clock, of which tokens are made, is behind")
	require.NoError(t, next.Unlock(t.Context()))
	if err := hold.Unlock(t.Context()); err != nil {
		require.ErrorIs(t, err, rlock.ErrLost)
	}
}

// The clocks of clients are an hour behind Redis's. Deadlines in the queue are by Redis's alone.
func TestFairWaitersGoByTheServersClock(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	clock.Set(time.Hour)
	rdb := server.Client(t)
	holder := newClient(t, rdb).NewFairLock(newName())
	require.NoError(t, holder.Lock(t.Context()))
	queue := make(chan int, 4)
	var served []<-chan error
	for i := range 4 {
		lock := newClient(t, server.Client(t), rlock.WithFairWait(10*time.Second)).NewFairLock(holder.Name())
		served = append(served, async(func() error {
			return lock.Do(t.Context(), func(context.Context) error { queue <- i; return nil })
		}))
		eventually(t, "it queues", func() bool { return len(queued(t, rdb, holder)) == i+1 })
	}
	now := rdb.Time(t.Context()).Val()
	require.Greater(t, now, time.Now().Add(59*time.Minute))
	for _, waiter := range rdb.ZRangeWithScores(t.Context(), holder.Keys()[2], 0, -1).Val() {
		require.Greater(t, waiter.Score, float64(now.UnixMilli()), "it is taken for alive")
		require.Less(t, waiter.Score, float64(now.Add(10*time.Minute).UnixMilli()), "and not for an hour")
	}
	require.NoError(t, holder.Unlock(t.Context()))
	for i := range 4 {
		require.Equal(t, i, within(t, "each is served in its turn", queue))
		require.NoError(t, within(t, "and is done", served[i]))
	}
}
