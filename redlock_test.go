package rlock_test

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
)

// masters is an environment for red locks: three independent servers, each behind a proxy.
type masters struct {
	*testing.T
	servers [3]*redistest.Server
	proxies [3]*redistest.Proxy
	direct  [3]*redis.Client
	name    string
}

func newMasters(t *testing.T) *masters {
	t.Helper()
	m := &masters{T: t, name: newName()}
	for i := range m.servers {
		m.servers[i] = redistest.Start(t)
		m.proxies[i] = redistest.NewProxy(t, m.servers[i].Addr)
		m.direct[i] = m.servers[i].Client(t)
	}
	return m
}

// lock returns a red lock, with clients of its own, and its members.
func (m *masters) lock(opts ...rlock.Option) (*rlock.RedLock, []*rlock.Lock) {
	m.Helper()
	opts = append([]rlock.Option{rlock.WithCommandTimeout(time.Second)}, opts...)
	return m.lockOf(m.clients(redis.Options{MaxRetries: -1, ReadTimeout: time.Second}, opts...))
}

// lockOf is lock with existing clients.
func (m *masters) lockOf(clients []*rlock.Client) (*rlock.RedLock, []*rlock.Lock) {
	var lockers []rlock.Locker
	var members []*rlock.Lock
	for _, client := range clients {
		members = append(members, client.NewLock(m.name))
		lockers = append(lockers, members[len(members)-1])
	}
	return rlock.NewRedLock(lockers...), members
}

// clients returns a client for each server.
func (m *masters) clients(opt redis.Options, opts ...rlock.Option) (clients []*rlock.Client) {
	m.Helper()
	for _, proxy := range m.proxies {
		opt.Addr = proxy.Addr
		clients = append(clients, newClient(m, redistest.Open(m, &opt), opts...))
	}
	return clients
}

// has reports on which servers the lock is held. A server that is down counts as not held.
func (m *masters) has() (held [3]bool) {
	m.Helper()
	for i, rdb := range m.direct {
		n, err := rdb.Exists(context.Background(), m.name).Result()
		held[i] = err == nil && n == 1
	}
	return held
}

func TestARedLockOfOneOrTwoMembersNeedsThemAll(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	clients := m.clients(redis.Options{MaxRetries: -1, DialerRetries: 1}, rlock.WithLogger(discard), rlock.WithCommandTimeout(time.Second))
	one, _ := m.lockOf(clients[:1])
	two, _ := m.lockOf(clients[:2])
	for _, red := range []*rlock.RedLock{one, two} {
		require.NoError(t, red.Lock(t.Context()))
		require.NoError(t, red.Unlock(t.Context()))
	}
	m.servers[0].Kill()
	for _, red := range []*rlock.RedLock{one, two} {
		require.ErrorAs(t, second(red.TryLock(t.Context())), new(*rlock.QuorumError))
	}
}

func TestARedLockSurvivesTheLossOfAMinority(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock()
	rival, _ := m.lock()
	m.servers[2].Kill()
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
				}, rlock.Wait(aLongTime))
				if err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
}

func TestARedLockIsRefusedOnlyByAMajority(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock()
	_, rivals := m.lock()
	require.NoError(t, rivals[0].Lock(t.Context()))
	require.True(t, must(red.TryLock(t.Context())), "one of three members refuses")
	require.NoError(t, red.Unlock(t.Context()))

	m.servers[1].Kill()
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
	eventually(t, "the member that agreed is free again", func() bool { return m.has() == [3]bool{true, false, false} })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, red.Lock(ctx), context.DeadlineExceeded)

	m.servers[1].Run()
	require.NoError(t, rivals[1].Lock(t.Context()))
	ok, err = red.TryLock(t.Context())
	require.NoError(t, err)
	require.False(t, ok, "two members refuse")
	err = red.Lock(t.Context(), rlock.Wait(300*time.Millisecond))
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.ErrorAs(t, err, &quorum)
	ok, err = red.TryLock(t.Context(), rlock.Wait(300*time.Millisecond))
	require.NoError(t, err)
	require.False(t, ok)

	waiting := async(func() error { return red.Lock(t.Context()) })
	eventually(t, "the red lock waits", func() bool { return red.Waiting() == 1 })
	require.NoError(t, rivals[0].Unlock(t.Context()))
	require.NoError(t, within(t, "the red lock gets a majority", waiting))
	require.NoError(t, red.Unlock(t.Context()))
	require.NoError(t, rivals[1].Unlock(t.Context()))
}

func TestAMemberWhoseReplyIsLateDoesNotCount(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock()
	require.NoError(t, red.Lock(t.Context()))
	require.NoError(t, red.Unlock(t.Context()))
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
	m.servers[2].Kill()
	held := m.proxies[1].HoldReply(1, rlock.Runs("acquire"))
	err := second(red.TryLock(t.Context()))
	within(t, "the member has granted the lock", held.Met())
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	eventually(t, "the member that replied in time is released", func() bool { return !m.has()[0] })
	held.Release()
	eventually(t, "the member that replies late is released", func() bool { return m.has() == [3]bool{} })
}

func TestALateMemberJoinsAnOpenHold(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock()
	require.NoError(t, red.Lock(t.Context()))
	require.NoError(t, red.Unlock(t.Context()))
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
	held := m.proxies[2].HoldRequest(1, rlock.Runs("acquire"))
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err, "a majority is enough")
	within(t, "the third member was called too", held.Met())
	held.Release()
	eventually(t, "the late member joins", func() bool { return m.has() == [3]bool{true, true, true} })
	m.servers[0].Kill()
	require.NoError(t, hold.Unlock(t.Context()))
	eventually(t, "the living members are released", func() bool { return m.has() == [3]bool{} })
}

func TestARestartedMemberIsReacquired(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock(rlock.WithWatchdogTimeout(1500*time.Millisecond), rlock.WithLogger(discard))
	m.servers[2].Kill()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	m.servers[2].Run()
	// The other members must be renewed after a member joins. Only then is a later loss of a member known to be harmless.
	renewed := func() {
		eventually(t, "all members hold the lock", func() bool { return m.has() == [3]bool{true, true, true} })
		joined := time.Now()
		eventually(t, "all members are renewed", func() bool {
			for _, rdb := range m.direct {
				if time.Now().Add(rdb.PTTL(t.Context(), m.name).Val()).Before(joined.Add(1500 * time.Millisecond)) {
					return false
				}
			}
			return true
		})
	}
	renewed()          // the dead member has joined
	for i := range 3 { // one after another, so that in the end every member has been reacquired
		m.servers[i].Kill()
		m.servers[i].Run() // empty
		renewed()          // it is reacquired
		require.NoError(t, hold.Err())
	}
	rival, _ := m.lock()
	require.False(t, must(rival.TryLock(t.Context())))
	require.NoError(t, hold.Unlock(t.Context()))
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
	require.True(t, must(rival.TryLock(t.Context())))
	require.NoError(t, rival.Unlock(t.Context()))
}

func TestARedLockThatLosesItsMajorityStaysLost(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, members := m.lock(rlock.WithWatchdogTimeout(time.Second), rlock.WithLogger(discard))
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	ctx := hold.Context()
	m.servers[0].Kill()
	m.servers[1].Kill()
	within(t, "the hold ends when a majority may have forgotten it", hold.Done())
	require.False(t, time.Now().Before(hold.Deadline()), "the hold does not end earlier")
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
	m.servers[0].Run()
	m.servers[1].Run()
	stays(t, "no member is reacquired any more", func() bool { return m.has() == [3]bool{false, false, true} })
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	var quorum *rlock.QuorumError
	err = hold.Unlock(t.Context())
	require.ErrorIs(t, err, rlock.ErrLost)
	require.ErrorAs(t, err, &quorum)
	eventually(t, "the remaining member is released", func() bool { return m.has() == [3]bool{} })
	for _, member := range members {
		eventually(t, "nothing is left", func() bool { return member.Remains() == 0 })
	}
}

func TestAHungMemberDelaysNobody(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock(rlock.WithCommandTimeout(aLongTime), rlock.WithLogger(discard))
	m.servers[1].Pause()
	hold, err := red.Acquire(t.Context())
	require.NoError(t, err)
	start := time.Now()
	require.NoError(t, hold.Unlock(t.Context()))
	require.Less(t, time.Since(start), aLongTime/2, "Unlock returns when a majority is released")
	m.servers[1].Resume()
	eventually(t, "all members are released", func() bool { return m.has() == [3]bool{} })
}

func TestALeaseOfARedLock(t *testing.T) {
	t.Parallel()
	m := newMasters(t)
	red, _ := m.lock()
	hold, err := red.Acquire(t.Context(), rlock.Lease(time.Second))
	require.NoError(t, err)
	require.Less(t, time.Until(hold.Deadline()), time.Second, "the deadline counts from the call, less a margin")
	within(t, "the lease ends", hold.Done())
	err = hold.Unlock(t.Context())
	require.True(t, err == nil || errors.Is(err, rlock.ErrLost))
	eventually(t, "nothing is left", func() bool { return m.has() == [3]bool{} })
}
