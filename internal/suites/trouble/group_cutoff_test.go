package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAMultiLockThatWaitedReportsNoOutageWhenItsWaitEnds has the wait for the first member take nearly all of the time. The other
// member has no time to reply then, which says nothing about Redis.
func TestAMultiLockThatWaitedReportsNoOutageWhenItsWaitEnds(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	clients := m.Clients(redis.Options{MaxRetries: -1})
	one, two := clients[0].NewLock(m.LockName+":1"), clients[1].NewLock(m.LockName+":2")
	rival := testkit.NewClient(t, m.Direct[0]).NewLock(one.Name())
	require.NoError(t, rival.Lock(t.Context()))
	require.NoError(t, two.Lock(t.Context())) // it has a connection
	require.NoError(t, two.Unlock(t.Context()))
	start := time.Now()
	waiting := testkit.Async(func() error {
		return testkit.Second(rlock.NewMultiLock(one, two).Acquire(t.Context(), rlock.Wait(2*time.Second)))
	})
	testkit.Eventually(t, "the first member waits", func() bool { return testkit.Rests(one) && testkit.Listens(one) })
	m.Servers[1].Pause()
	<-time.After(time.Until(start.Add(1500 * time.Millisecond)))
	require.NoError(t, rival.Unlock(t.Context()))
	err := testkit.Within(t, "the wait ends", waiting)
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.NotErrorIs(t, err, rlock.ErrUnavailable)
}

// TestAReentryOfAMultiLockThatWaitedIsNotRefused has a multi lock wait for its first member and acquire both. Its owner asks
// again, for longer, while the other member is silent: nobody refused that.
func TestAReentryOfAMultiLockThatWaitedIsNotRefused(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	clients := m.Clients(redis.Options{MaxRetries: -1})
	one, two := clients[0].NewLock(m.LockName+":1"), clients[1].NewLock(m.LockName+":2")
	rival := testkit.NewClient(t, m.Direct[0]).NewLock(one.Name())
	require.NoError(t, rival.Lock(t.Context()))
	multi := rlock.NewMultiLock(one, two)
	var hold *rlock.Hold
	waiting := testkit.Async(func() (err error) {
		hold, err = multi.Acquire(t.Context())
		return err
	})
	testkit.Eventually(t, "the first member waits", func() bool { return testkit.Rests(one) && testkit.Listens(one) })
	require.NoError(t, rival.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the lock is acquired", waiting))
	m.Servers[1].Pause()
	ctx, cancel := context.WithTimeout(hold.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := multi.TryAcquire(ctx, rlock.Lease(time.Hour))
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	m.Servers[1].Resume()
	require.NoError(t, hold.Unlock(t.Context()))
}
