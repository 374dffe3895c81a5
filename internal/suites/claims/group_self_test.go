package claims

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

const waitsForItself = "self-deadlock: a group of locks waits for a lock that another of its members holds"

// TestAGroupThatWaitsForItselfIsLogged has two members be one lock in Redis: by one name in two clients of one server. The group could
// wait forever, and the log says why.
func TestAGroupThatWaitsForItselfIsLogged(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	for what, of := range map[string]func(one, two *rlock.Client, name string) rlock.Locker{
		"multi": func(one, two *rlock.Client, name string) rlock.Locker {
			return rlock.NewMultiLock(one.NewLock(name), two.NewLock(name))
		},
		"plain and fair": func(one, two *rlock.Client, name string) rlock.Locker {
			return rlock.NewMultiLock(one.NewLock(name), two.NewFairLock(name))
		},
		"red": func(one, two *rlock.Client, name string) rlock.Locker {
			return rlock.NewRedLock(one.NewLock(name), two.NewLock(name))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			logger, log := testkit.Recording()
			client := func() *rlock.Client {
				return testkit.NewClient(t, rdb, logger, rlock.WithWatchdogTimeout(2*time.Second))
			}
			lock := of(client(), client(), testkit.NewName())
			waiting := testkit.Async(func() error { return lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)) })
			testkit.Eventually(t, "the log says so", func() bool { return log.Contains(waitsForItself) || len(waiting) > 0 })
			require.Empty(t, waiting)
		})
	}
}

// TestAGroupThatWaitsForItselfNeedsTheRightsOfItsMembers to find that out: Redis denies it nothing.
func TestAGroupThatWaitsForItselfNeedsTheRightsOfItsMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := testkit.Limited(t, testkit.Admins(t, server), testkit.OpenAs(t, server))("multi")
	logger, log := testkit.Recording()
	member := func(name string) *rlock.Lock {
		return testkit.NewClient(t, rdb, logger, rlock.WithKeyPrefix(testkit.AppPrefix), rlock.WithWatchdogTimeout(2*time.Second)).NewLock(name)
	}
	name := testkit.NewName()
	lock := rlock.NewMultiLock(member(name), member(name))
	waiting := testkit.Async(func() error { return lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)) })
	testkit.Eventually(t, "the log says so", func() bool { return log.Contains(waitsForItself) || len(waiting) > 0 })
	require.Empty(t, waiting)
}

// TestAGroupThatWaitsForOthersIsNotAccused has another owner hold a member for longer than the log waits before it looks.
func TestAGroupThatWaitsForOthersIsNotAccused(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	logger, log := testkit.Recording()
	client := func() *rlock.Client {
		return testkit.NewClient(t, rdb, logger, rlock.WithWatchdogTimeout(300*time.Millisecond))
	}
	one, two, free, taken := client(), client(), testkit.NewName(), testkit.NewName()
	hold, err := testkit.NewClient(t, rdb).NewLock(taken).Acquire(t.Context())
	require.NoError(t, err)
	lock := rlock.NewMultiLock(one.NewLock(free), two.NewLock(taken))
	require.ErrorIs(t, lock.Lock(t.Context(), rlock.Wait(time.Second)), rlock.ErrNotAcquired)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
	require.NoError(t, lock.Unlock(t.Context()))
	require.False(t, log.Contains(waitsForItself))
}

// TestTheSameNameOnTwoServers is no mistake.
func TestTheSameNameOnTwoServers(t *testing.T) {
	t.Parallel()
	name := testkit.NewName()
	one, two := testkit.NewClient(t, redistest.Embedded(t)), testkit.NewClient(t, redistest.Embedded(t))
	for _, lock := range []rlock.Locker{
		rlock.NewMultiLock(one.NewLock(name), two.NewLock(name)), rlock.NewMultiLock(one.NewLock(name), two.NewFairLock(name)),
	} {
		require.NoError(t, lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

// TestLocksOfTwoFamiliesAreNoGroup has one client give one name to locks that do not know each other, but are one key in Redis.
func TestLocksOfTwoFamiliesAreNoGroup(t *testing.T) {
	t.Parallel()
	client, name := testkit.NewClient(t, redistest.Embedded(t)), testkit.NewName()
	plain, fair, both := client.NewLock(name), client.NewFairLock(name), client.NewRWLock(name)
	inner := rlock.NewRedLock(fair, client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName()))
	for what, lock := range map[string]rlock.Locker{
		"plain and fair": rlock.NewMultiLock(plain, fair), "plain and write": rlock.NewMultiLock(both.WriteLock(), plain),
		"fair and read": rlock.NewMultiLock(fair, both.ReadLock()), "within a red lock": rlock.NewMultiLock(plain, inner),
		"of a red lock": rlock.NewRedLock(plain, fair, client.NewLock(testkit.NewName())),
	} {
		ok, err := lock.TryLock(t.Context())
		require.False(t, ok, what)
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
		require.ErrorContains(t, err, "different families", what)
	}
	lock := rlock.NewMultiLock(plain, client.NewSpinLock(name), client.NewFencedLock(testkit.NewName()))
	require.NoError(t, lock.Lock(t.Context()), "locks of one family are one lock")
	require.NoError(t, lock.Unlock(t.Context()))
}
