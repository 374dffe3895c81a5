package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// This file has tests for review findings about groups whose members fail and return.

// Two masters restart empty, and another owner gets the lock before either is renewed. The first one is reacquired before the
// second one is called. That must not hide the loss.
func TestAMajorityThatForgotIsALossDespiteReacquiredMembers(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock(rlock.WithWatchdogTimeout(1500*time.Millisecond), rlock.WithLogger(discard))
	rival, _ := m.lock()
	m.proxies[1].Delay(5 * time.Millisecond) // so that the first is renewed, and reacquired, before the second
	for range 3 {
		hold, err := red.Acquire(t.Context())
		require.NoError(t, err)
		eventually(t, "all members hold the lock", func() bool { return m.has() == [3]bool{true, true, true} })
		before := hold.Deadline()
		eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
		for _, server := range m.servers[:2] {
			server.Kill()
			server.Run()
		}
		ok, err := rival.TryLock(t.Context())
		require.NoError(t, err)
		if ok {
			require.NoError(t, rival.Unlock(t.Context()))
			within(t, "the holder is notified", hold.Done())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		} else { // one was reacquired before the attempt, so a majority always knew the holder
			require.NoError(t, hold.Unlock(t.Context()))
		}
		eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
	}
}

// The loss is the same as above, but the unlock detects it.
func TestUnlockOfARedLockDetectsThatAMajorityForgot(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock(rlock.WithLogger(discard), rlock.WithWatchdogTimeout(6*time.Second)) // no renewal comes before the unlock
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	eventually(t, "all members hold the lock", func() bool { return m.has() == [3]bool{true, true, true} })
	require.NoError(t, m.direct[0].Del(t.Context(), m.name).Err())
	require.NoError(t, m.direct[1].Del(t.Context(), m.name).Err())
	require.NoError(t, hold.Err())
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)

	hold, err = red.Acquire(t.Context())
	require.NoError(t, err)
	eventually(t, "all members hold the lock", func() bool { return m.has() == [3]bool{true, true, true} })
	<-time.After(500 * time.Millisecond) // a member that joins late causes an early renewal of the others
	require.NoError(t, m.direct[0].Del(t.Context(), m.name).Err())
	require.NoError(t, hold.Unlock(t.Context()), "a majority excluded other owners")
}

func TestANestedGroupReportsAnExpiredLeaseOnDemand(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	n := newName()
	red := rlock.NewRedLock(client.NewLock(n+"1"), client.NewLock(n+"2"), client.NewLock(n+"3"))
	for _, group := range []rlock.Locker{rlock.NewMultiLock(client.NewLock(n+"9"), red), rlock.NewRedLock(red)} {
		hold, err := group.Acquire(t.Context(), rlock.Lease(50*time.Millisecond))
		require.NoError(t, err)
		over := async(func() error {
			for hold.Err() == nil {
				_ = hold.Deadline()
			}
			return hold.Err()
		})
		require.ErrorIs(t, within(t, "the loss is noticed", over), rlock.ErrLost)
		if err := hold.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, rlock.ErrLost)
		}
	}
}

// acquires counts the acquire calls to all members.
func (m *masters) acquires() (n int) {
	for _, proxy := range m.proxies {
		n += proxy.Count(rlock.Runs("acquire"))
	}
	return n
}

// A waiter acquires the free member and releases it again. That release must not wake the waiter itself.
func TestWaitersForARedLockDoNotWakeThemselves(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock()
	_, rivals := m.lock()
	require.NoError(t, rivals[0].Lock(t.Context()))
	require.NoError(t, rivals[1].Lock(t.Context()))
	require.NoError(t, rivals[2].Lock(t.Context()))
	waiting := async(func() error { return red.Lock(t.Context()) })
	eventually(t, "the waiter has tried and listens", func() bool { return m.acquires() >= 3+6 })
	before := m.acquires()
	require.NoError(t, rivals[2].Unlock(t.Context()))
	<-time.After(2 * time.Second)
	require.Less(t, m.acquires()-before, 60, "the pauses grow to one second")
	require.NoError(t, rivals[1].Unlock(t.Context()))
	require.NoError(t, within(t, "the second member makes a majority", waiting))
	require.NoError(t, red.Unlock(t.Context()))
	require.NoError(t, rivals[0].Unlock(t.Context()))
}

func TestARedLockSurvivesTheCloseOfAClient(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	clients := m.clients(redis.Options{})
	red, _ := m.lockOf(clients)
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	eventually(t, "all members hold the lock", func() bool { return m.has() == [3]bool{true, true, true} })
	require.NoError(t, clients[0].Close())
	require.NoError(t, hold.Err())
	stays(t, "Close releases nothing", func() bool { return m.has() == [3]bool{true, true, true} })
	require.NoError(t, hold.Unlock(t.Context()))
	eventually(t, "the unlock releases all members", func() bool { return m.has() == [3]bool{} })

	rival, _ := m.lock()
	require.NoError(t, rival.Lock(t.Context()))
	before := m.acquires()
	require.Error(t, red.Lock(t.Context(), rlock.Wait(time.Second)))
	require.Less(t, m.acquires()-before, 60, "the waiter pauses between the rounds")
	require.NoError(t, rival.Unlock(t.Context()))
	require.NoError(t, red.Lock(t.Context()))
	require.NoError(t, red.Unlock(t.Context()))
}

func TestAMultiLockWaitEndsAlthoughItsLeasesExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := newClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}))
	n := newName()
	group := rlock.NewMultiLock(client.NewLock(n+"1"), client.NewLock(n+"2"), client.NewLock(n+"3"))
	proxy.Delay(20 * time.Millisecond)
	got := make(chan bool, 1)
	go func() {
		ok, _ := group.TryLock(t.Context(), rlock.Lease(30*time.Millisecond), rlock.Wait(200*time.Millisecond))
		got <- ok
	}()
	require.False(t, within(t, "the wait ends", got))
}

func TestMaxHoldEndsARedLock(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock(rlock.WithMaxHold(8*time.Second), rlock.WithWatchdogTimeout(1500*time.Millisecond), rlock.WithLogger(discard))
	m.servers[2].Kill()
	start := time.Now()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	m.servers[2].Run()
	all := func() bool { return m.has() == [3]bool{true, true, true} }
	eventually(t, "the restarted member joins", all)
	before := hold.Deadline()
	eventually(t, "the members are renewed", func() bool { return hold.Deadline().After(before.Add(100 * time.Millisecond)) })
	require.NoError(t, m.direct[0].Del(t.Context(), m.name).Err())
	eventually(t, "the lost member is reacquired, and no two members have the same age", all)
	within(t, "the hold ends with its oldest member", hold.Done())
	require.GreaterOrEqual(t, time.Since(start), 7900*time.Millisecond)
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	if err := hold.Unlock(t.Context()); err != nil {
		require.ErrorIs(t, err, rlock.ErrLost)
	}
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
}

func TestTroubleIsNotARefusalForQueuedRedLockWaiters(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock()
	m.servers[0].Kill()
	m.servers[1].Kill()
	ctx, cancel := context.WithCancel(t.Context())
	head := async(func() error { return red.Lock(ctx) })
	eventually(t, "the first waiter waits", func() bool { return red.Waiting() == 1 })
	eventually(t, "the first waiter has tried", func() bool { return m.acquires() >= 2 })
	err := second(red.TryLock(t.Context(), rlock.Wait(time.Second)))
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	cancel()
	require.ErrorIs(t, within(t, "the first waiter leaves", head), context.Canceled)
}

func TestAnUnlockDoesNotWaitForUnneededMembers(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock(rlock.WithCommandTimeout(aLongTime), rlock.WithLogger(discard))
	m.servers[2].Pause()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	m.servers[0].Pause()
	start := time.Now()
	require.NoError(t, hold.Unlock(t.Context()), "two members are free: the one that was never held, and the one that replies")
	require.Less(t, time.Since(start), aLongTime/2)
	m.servers[0].Resume()
	m.servers[2].Resume()
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
}

func TestMembersAreCalledConcurrently(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lockOf(m.clients(redis.Options{ReadTimeout: time.Minute},
		rlock.WithWatchdogTimeout(time.Hour), rlock.WithCommandTimeout(time.Minute)))
	require.NoError(t, red.Lock(t.Context()))
	require.NoError(t, red.Unlock(t.Context()))
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
	var held []*redistest.Fault
	for _, proxy := range m.proxies {
		held = append(held, proxy.HoldRequest(1, rlock.Runs("acquire")))
	}
	locking := async(func() error { return red.Lock(t.Context()) })
	for _, fault := range held {
		within(t, "each member is called although none has replied", fault.Met())
	}
	held[0].Release()
	held[1].Release()
	require.NoError(t, within(t, "two members are enough", locking))
	require.NoError(t, red.Unlock(t.Context()))
	held[2].Release()
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
}
