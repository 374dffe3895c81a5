package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// This file has tests for review findings about groups whose members fail and return.

// voted is TryAcquire of a red lock, again until enough members have replied: one that has just been started may be slow.
func voted(t *testing.T, red *rlock.RedLock) (err error) {
	t.Helper()
	testkit.Eventually(t, "enough members vote", func() bool {
		_, err = red.TryAcquire(t.Context())
		return !errors.Is(err, rlock.ErrUnavailable)
	})
	return err
}

// lockOnce acquires a lock, and unlocks it.
func lockOnce(t *testing.T, lock handles.Any) {
	t.Helper()
	require.NoError(t, testkit.Must(lock.Acquire(t.Context())).Unlock(t.Context()))
}

// The loss is the same as above, but the unlock detects it.
func TestUnlockOfARedLockDetectsThatAMajorityForgot(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock(rlock.WithLogger(testkit.Discard), rlock.WithWatchdogTimeout(6*time.Second)) // no renewal comes before the unlock
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, "all members hold the lock", func() bool { return m.Has() == [3]bool{true, true, true} })
	require.NoError(t, m.Direct[0].Del(t.Context(), m.LockName).Err())
	require.NoError(t, m.Direct[1].Del(t.Context(), m.LockName).Err())
	require.NoError(t, hold.Err())
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)

	hold, err = red.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, "all members hold the lock", func() bool { return m.Has() == [3]bool{true, true, true} })
	<-time.After(500 * time.Millisecond) // a member that joins late causes an early renewal of the others
	require.NoError(t, m.Direct[0].Del(t.Context(), m.LockName).Err())
	require.NoError(t, hold.Unlock(t.Context()), "a majority excluded other owners")
}

func TestAGroupReportsAnExpiredLeaseOnDemand(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	n := testkit.NewName()
	one, two, three := client.NewLock(n+"1"), client.NewLock(n+"2"), client.NewLock(n+"3")
	for _, group := range []handles.Any{rlock.NewMultiLock(one, two, three), rlock.NewRedLock(one, two, three)} {
		hold, err := group.Acquire(t.Context(), rlock.Lease(50*time.Millisecond))
		require.NoError(t, err)
		over := testkit.Async(func() error {
			for hold.Err() == nil {
				time.Sleep(time.Until(hold.Deadline())) // in virtual time, its timer may fire before or after this
			}
			return hold.Err()
		})
		require.ErrorIs(t, testkit.Within(t, "the loss is noticed", over), rlock.ErrLost)
		if err := hold.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, rlock.ErrLost)
		}
	}
}

// A waiter acquires the free member and releases it again. That release must not wake the waiter itself.
func TestWaitersForARedLockDoNotWakeThemselves(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	_, rivals := m.Lock()
	require.NoError(t, rivals[0].Lock(t.Context()))
	require.NoError(t, rivals[1].Lock(t.Context()))
	require.NoError(t, rivals[2].Lock(t.Context()))
	waiting := testkit.Async(func() error { return red.Do(t.Context(), func(context.Context) error { return nil }) })
	testkit.Eventually(t, "the waiter has tried and listens", func() bool { return m.Acquires() >= 3+6 })
	before := m.Acquires()
	require.NoError(t, rivals[2].Unlock(t.Context()))
	<-time.After(2 * time.Second)
	require.Less(t, m.Acquires()-before, 60, "the pauses grow to one second")
	require.NoError(t, rivals[1].Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the second member makes a majority", waiting))
	require.NoError(t, rivals[0].Unlock(t.Context()))
}

func TestARedLockSurvivesTheCloseOfAClient(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	clients := m.Clients(redis.Options{})
	red, _ := m.LockOf(clients)
	first := m.Proxies[0].HoldRequest(1, testkit.Runs("acquire"))
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err, "the others are a majority")
	first.Release()
	testkit.Eventually(t, "the first member joins", func() bool { return clients[0].Stats().Held == 1 })
	require.NoError(t, clients[0].Close())
	require.NoError(t, hold.Err())
	testkit.Stays(t, "Close releases nothing", func() bool { return m.Has() == [3]bool{true, true, true} })
	require.NoError(t, hold.Unlock(t.Context()))
	testkit.Eventually(t, "the unlock releases all members", func() bool { return m.Has() == [3]bool{} })

	rival, _ := m.Lock()
	held := testkit.Must(rival.Acquire(t.Context()))
	before := m.Acquires()
	require.Error(t, testkit.Second(red.Acquire(t.Context(), rlock.Wait(time.Second))))
	require.Less(t, m.Acquires()-before, 60, "the waiter pauses between the rounds")
	require.NoError(t, held.Unlock(t.Context()))
	lockOnce(t, red)
}

func TestAMultiLockWaitEndsAlthoughItsLeasesExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}))
	n := testkit.NewName()
	group := rlock.NewMultiLock(client.NewLock(n+"1"), client.NewLock(n+"2"), client.NewLock(n+"3"))
	proxy.Delay(20 * time.Millisecond)
	waiting := testkit.Async(func() error {
		return testkit.Second(group.Acquire(t.Context(), rlock.Lease(30*time.Millisecond), rlock.Wait(200*time.Millisecond)))
	})
	require.Error(t, testkit.Within(t, "the wait ends", waiting))
}

func TestMaxHoldEndsARedLock(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	const lease = 2500 * time.Millisecond
	red, _ := m.Lock(rlock.WithMaxHold(8*time.Second), rlock.WithWatchdogTimeout(lease), rlock.WithLogger(testkit.Discard))
	start := time.Now()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Within(t, "the hold ends", hold.Done())
	require.GreaterOrEqual(t, time.Since(start), 7900*time.Millisecond)
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	if err := hold.Unlock(t.Context()); err != nil {
		require.ErrorIs(t, err, rlock.ErrLost)
	}
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
}

func TestTroubleIsNotARefusalForQueuedRedLockWaiters(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	m.Servers[0].Kill()
	m.Servers[1].Kill()
	ctx, cancel := context.WithCancel(t.Context())
	head := testkit.Async(func() error { return testkit.Second(red.Acquire(ctx)) })
	testkit.Eventually(t, "the first waiter waits", func() bool { return testkit.Waiting(red) == 1 })
	testkit.Eventually(t, "the first waiter has tried", func() bool { return m.Acquires() >= 2 })
	err := testkit.Second(red.Acquire(t.Context(), rlock.Wait(time.Second)))
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	cancel()
	require.ErrorIs(t, testkit.Within(t, "the first waiter leaves", head), context.Canceled)
}

func TestAnUnlockDoesNotWaitForUnneededMembers(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock(rlock.WithCommandTimeout(testkit.ALongTime), rlock.WithLogger(testkit.Discard))
	m.Servers[2].Pause()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	m.Servers[0].Pause()
	passed := redistest.Stopwatch(t)
	require.NoError(t, hold.Unlock(t.Context()), "two members are free: the one that was never held, and the one that replies")
	require.Less(t, passed(), testkit.ALongTime/2)
	m.Servers[0].Resume()
	m.Servers[2].Resume()
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
}

func TestMembersAreCalledConcurrently(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.LockOf(m.Clients(redis.Options{ReadTimeout: time.Minute},
		rlock.WithWatchdogTimeout(time.Hour), rlock.WithCommandTimeout(time.Minute)))
	lockOnce(t, red)
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
	var held []*redistest.Fault
	for _, proxy := range m.Proxies {
		held = append(held, proxy.HoldRequest(1, testkit.Runs("acquire")))
	}
	var hold *rlock.Hold
	locking := testkit.Async(func() (err error) {
		hold, err = red.Acquire(t.Context())
		return err
	})
	for _, fault := range held {
		testkit.Within(t, "each member is called although none has replied", fault.Met())
	}
	held[0].Release()
	held[1].Release()
	require.NoError(t, testkit.Within(t, "two members are enough", locking))
	require.NoError(t, hold.Unlock(t.Context()))
	held[2].Release()
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
}
