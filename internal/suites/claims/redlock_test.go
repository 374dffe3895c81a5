package claims

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

func TestARedLockOfOneOrTwoMembersNeedsThemAll(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	clients := m.Clients(redis.Options{MaxRetries: -1, DialerRetries: 1}, rlock.WithLogger(testkit.Discard), rlock.WithCommandTimeout(time.Second))
	one, _ := m.LockOf(clients[:1])
	two, _ := m.LockOf(clients[:2])
	for _, red := range []*rlock.RedLock{one, two} {
		lockOnce(t, red)
	}
	m.Servers[0].Kill()
	for _, red := range []*rlock.RedLock{one, two} {
		require.ErrorContains(t, testkit.Second(red.TryAcquire(t.Context())), "are needed: member 1 ")
	}
}

func TestARedLockSurvivesTheLossOfAMinority(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	rival, _ := m.Lock()
	m.Servers[2].Kill()
	var inside sync.Mutex
	var wg sync.WaitGroup
	for i, lock := range []*rlock.RedLock{red, rival, red, rival} {
		wg.Go(func() {
			for range 5 {
				err := lock.Do(t.Context(), func(context.Context) error {
					if !inside.TryLock() {
						t.Error("two owners are in the critical section")
					}
					defer inside.Unlock()
					return nil
				}, rlock.Wait(testkit.ALongTime))
				if err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
}

func TestARedLockIsRefusedOnlyByAMajority(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	_, rivals := m.Lock()
	require.NoError(t, rivals[0].Lock(t.Context()))
	hold, err := red.TryAcquire(t.Context())
	require.NoError(t, err, "one of three members refuses")
	require.NoError(t, hold.Unlock(t.Context()))

	m.Servers[1].Kill()
	_, err = red.TryAcquire(t.Context())
	require.Error(t, err, "one member refuses, and the vote of the dead member would have decided")
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	require.ErrorContains(t, err, "2 of 3 members failed, 2 are needed")
	require.NotContains(t, err.Error(), "member 3")
	require.ErrorContains(t, err, "member 1")
	require.ErrorContains(t, err, "held by another owner")
	require.ErrorContains(t, err, "member 2")
	testkit.Eventually(t, "the member that agreed is free again", func() bool { return m.Has() == [3]bool{true, false, false} })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, testkit.Second(red.Acquire(ctx)), context.DeadlineExceeded)

	m.Servers[1].Run()
	require.NoError(t, rivals[1].Lock(t.Context()))
	require.ErrorIs(t, voted(t, red), rlock.ErrNotAcquired, "two members refuse")
	_, err = red.Acquire(t.Context(), rlock.Wait(300*time.Millisecond))
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.ErrorContains(t, err, "2 are needed")

	waiting := testkit.Async(func() error { return red.Do(t.Context(), func(context.Context) error { return nil }) })
	testkit.Eventually(t, "the red lock waits", func() bool { return testkit.Waiting(red) == 1 })
	require.NoError(t, rivals[0].Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the red lock gets a majority", waiting))
	require.NoError(t, rivals[1].Unlock(t.Context()))
}

func TestAMemberWhoseReplyIsLateDoesNotCount(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	lockOnce(t, red)
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
	m.Servers[2].Kill()
	held := m.Proxies[1].HoldReply(1, testkit.Runs("acquire"))
	err := testkit.Second(red.TryAcquire(t.Context()))
	testkit.Within(t, "the member has granted the lock", held.Met())
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	testkit.Eventually(t, "the member that replied in time is released", func() bool { return !m.Has()[0] })
	held.Release()
	testkit.Eventually(t, "the member that replies late is released", func() bool { return m.Has() == [3]bool{} })
}

func TestALateMemberJoinsAnOpenHold(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	lockOnce(t, red)
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
	held := m.Proxies[2].HoldRequest(1, testkit.Runs("acquire"))
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err, "a majority is enough")
	testkit.Within(t, "the third member was called too", held.Met())
	held.Release()
	testkit.Eventually(t, "the late member joins", func() bool { return m.Has() == [3]bool{true, true, true} })
	m.Servers[0].Kill()
	require.NoError(t, hold.Unlock(t.Context()))
	testkit.Eventually(t, "the living members are released", func() bool { return m.Has() == [3]bool{} })
}

func TestARedLockThatLosesItsMajorityStaysLost(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, members := m.Lock(rlock.WithWatchdogTimeout(time.Second), rlock.WithLogger(testkit.Discard))
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	ctx := hold.Context()
	m.Servers[0].Kill()
	m.Servers[1].Kill()
	testkit.Within(t, "the hold ends when a majority may have forgotten it", hold.Done())
	require.False(t, time.Now().Before(hold.Deadline()), "the hold does not end earlier")
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
	m.Servers[0].Run()
	m.Servers[1].Run()
	testkit.Stays(t, "no member is reacquired any more", func() bool {
		has := m.Has()
		return !has[0] && !has[1]
	})
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.Equal(t, hold.Err(), hold.Unlock(t.Context()))
	testkit.Eventually(t, "the remaining member is released", func() bool { return m.Has() == [3]bool{} })
	for _, member := range members {
		testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(member) == 0 })
	}
}

func TestAHungMemberDelaysNobody(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock(rlock.WithCommandTimeout(testkit.ALongTime), rlock.WithLogger(testkit.Discard))
	m.Servers[1].Pause()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	passed := redistest.Stopwatch(t)
	require.NoError(t, hold.Unlock(t.Context()))
	require.Less(t, passed(), testkit.ALongTime/2, "Unlock returns when a majority is released")
	m.Servers[1].Resume()
	testkit.Eventually(t, "all members are released", func() bool { return m.Has() == [3]bool{} })
}

func TestALeaseOfARedLock(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	hold, err := red.Acquire(t.Context(), rlock.Lease(time.Second))
	require.NoError(t, err)
	require.Less(t, time.Until(hold.Deadline()), time.Second, "the deadline counts from the call, less a margin")
	testkit.Within(t, "the lease ends", hold.Done())
	err = hold.Unlock(t.Context())
	require.True(t, err == nil || errors.Is(err, rlock.ErrLost))
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
}
