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
		require.NoError(t, red.Lock(t.Context()))
		require.NoError(t, red.Unlock(t.Context()))
	}
	m.Servers[0].Kill()
	for _, red := range []*rlock.RedLock{one, two} {
		require.ErrorAs(t, testkit.Second(red.TryLock(t.Context())), new(*rlock.QuorumError))
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
	require.True(t, testkit.Must(red.TryLock(t.Context())), "one of three members refuses")
	require.NoError(t, red.Unlock(t.Context()))

	m.Servers[1].Kill()
	ok, err := red.TryLock(t.Context())
	require.False(t, ok)
	require.Error(t, err, "one member refuses, and the vote of the dead member would have decided")
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	var quorum *rlock.QuorumError
	require.ErrorAs(t, err, &quorum)
	require.Equal(t, 2, quorum.Need)
	require.Len(t, quorum.Errors, 3)
	require.NoError(t, quorum.Errors[2])
	require.ErrorContains(t, err, "member 1")
	require.ErrorContains(t, err, "held by another owner")
	require.ErrorContains(t, err, "member 2")
	testkit.Eventually(t, "the member that agreed is free again", func() bool { return m.Has() == [3]bool{true, false, false} })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, red.Lock(ctx), context.DeadlineExceeded)

	m.Servers[1].Run()
	require.NoError(t, rivals[1].Lock(t.Context()))
	require.False(t, voted(t, red), "two members refuse")
	err = red.Lock(t.Context(), rlock.Wait(300*time.Millisecond))
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.ErrorAs(t, err, &quorum)
	ok, err = red.TryLock(t.Context(), rlock.Wait(300*time.Millisecond))
	require.NoError(t, err)
	require.False(t, ok)

	waiting := testkit.Async(func() error { return red.Lock(t.Context()) })
	testkit.Eventually(t, "the red lock waits", func() bool { return testkit.Waiting(red) == 1 })
	require.NoError(t, rivals[0].Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the red lock gets a majority", waiting))
	require.NoError(t, red.Unlock(t.Context()))
	require.NoError(t, rivals[1].Unlock(t.Context()))
}

func TestAMemberWhoseReplyIsLateDoesNotCount(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	require.NoError(t, red.Lock(t.Context()))
	require.NoError(t, red.Unlock(t.Context()))
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
	m.Servers[2].Kill()
	held := m.Proxies[1].HoldReply(1, testkit.Runs("acquire"))
	err := testkit.Second(red.TryLock(t.Context()))
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
	require.NoError(t, red.Lock(t.Context()))
	require.NoError(t, red.Unlock(t.Context()))
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

func TestARestartedMemberIsReacquired(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	m := testkit.NewMasters(t)
	red, _ := m.Lock(rlock.WithWatchdogTimeout(lease), rlock.WithLogger(testkit.Discard))
	m.Servers[2].Kill()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	m.Servers[2].Run()
	// The other members must be renewed after a member joins. Only then is a later loss of a member known to be harmless.
	renewed := func() {
		testkit.Eventually(t, "all members hold the lock", func() bool { return m.Has() == [3]bool{true, true, true} })
		joined := time.Now()
		testkit.Eventually(t, "all members are renewed", func() bool {
			for _, rdb := range m.Direct {
				if time.Now().Add(rdb.PTTL(t.Context(), m.LockName).Val()).Before(joined.Add(lease)) {
					return false
				}
			}
			return true
		})
	}
	renewed()          // the dead member has joined
	for i := range 3 { // one after another, so that in the end every member has been reacquired
		m.Servers[i].Kill()
		m.Servers[i].Run() // empty
		renewed()          // it is reacquired
		require.NoError(t, hold.Err())
	}
	rival, _ := m.Lock()
	require.False(t, testkit.Must(rival.TryLock(t.Context())))
	require.NoError(t, hold.Unlock(t.Context()))
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
	require.True(t, testkit.Must(rival.TryLock(t.Context())))
	require.NoError(t, rival.Unlock(t.Context()))
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
