package trouble

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// This file tests how locks react to commands that Redis refuses.

func TestServerStatesAreNotContention(t *testing.T) { // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	ctx := t.Context()
	lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
	set := func(name, value string) { require.NoError(t, rdb.ConfigSet(ctx, name, value).Err()) }

	t.Run("a waiting verb waits for a transient state to end", func(t *testing.T) {
		set("min-replicas-to-write", "1")
		_, err := lock.TryLock(ctx)
		require.ErrorContains(t, err, "NOREPLICAS")
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		_, err = lock.TryLock(ctx, rlock.Wait(100*time.Millisecond))
		require.ErrorContains(t, err, "NOREPLICAS", "the end of the wait does not turn it into contention")
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		waiting := testkit.Async(func() error { return lock.Lock(ctx) })
		testkit.Eventually(t, "the waiter waits", func() bool { return testkit.Waiting(lock) == 1 })
		set("min-replicas-to-write", "0")
		require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
		require.NoError(t, lock.Unlock(ctx))
	})
	t.Run("when Redis is out of memory, held locks can be released", func(t *testing.T) { outOfMemory(t, rdb, set) })
	t.Run("locks survive a flush of the script cache", func(t *testing.T) {
		hold, err := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second)).NewLock(testkit.NewName()).Acquire(ctx)
		require.NoError(t, err)
		for range 10 {
			require.NoError(t, rdb.ScriptFlush(ctx).Err())
			require.NoError(t, lock.Lock(ctx))
			require.NoError(t, rdb.ScriptFlush(ctx).Err())
			require.NoError(t, lock.Unlock(ctx))
		}
		before := hold.Deadline()
		require.NoError(t, rdb.ScriptFlush(ctx).Err())
		testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
		require.NoError(t, hold.Unlock(ctx))
	})
}

// outOfMemory unlocks locks of all kinds, and keeps waiters waiting, while Redis is out of memory.
func outOfMemory(t *testing.T, rdb *redis.Client, set func(name, value string)) {
	t.Helper()
	ctx := t.Context()
	owner := rlock.WithOwner(ctx)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second), tune.PollInterval(100*time.Millisecond))
	var held []*rlock.Lock
	var waiting []<-chan error
	for kind, k := range testkit.Kinds {
		if lock, ok := k.Make(client, testkit.NewName()).(*rlock.Lock); ok {
			held = append(held, lock)
			require.NoError(t, lock.Lock(owner), kind)
			require.NoError(t, lock.Lock(owner), kind)
		}
	}
	for kind, k := range testkit.Kinds {
		if k.Groups || k.Rival != nil {
			continue
		}
		name := testkit.NewName()
		holder := k.Make(client, name)
		require.NoError(t, holder.Lock(ctx), kind)
		waiting = append(waiting, testkit.Async(func() error { return k.Make(client, name).Lock(owner, rlock.Wait(testkit.ALongTime)) }))
		testkit.Eventually(t, "the waiter waits", func() bool { return testkit.Waiting(holder) == 1 })
		defer func() { require.NoError(t, holder.Unlock(ctx)) }()
	}
	set("maxmemory", "1")
	defer set("maxmemory", "0")
	_, err := testkit.NewClient(t, rdb).NewLock(testkit.NewName()).TryLock(ctx)
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	for _, lock := range held {
		require.NoError(t, lock.Unlock(owner))
		require.Equal(t, 1, testkit.Must(lock.HoldCount(owner)))
		require.NoError(t, lock.Unlock(owner))
		require.Empty(t, testkit.Holders(t, rdb, lock.Name()))
	}
	<-time.After(300 * time.Millisecond) // a few poll intervals
	for _, waiter := range waiting {
		require.Empty(t, waiter, "the waiter still waits")
	}
}

func TestDeniedCommands(t *testing.T) { // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	user := func(t *testing.T, rules ...string) redis.UniversalClient {
		t.Helper()
		return testkit.OpenAs(t, server)(testkit.NewUser(t, testkit.Admins(t, server), rules...))
	}
	t.Run("without PEXPIRE no lock is left without a lease", func(t *testing.T) {
		logger, log := testkit.Recording()
		lock := testkit.NewClient(t, user(t, "~*", "&*", "+@all", "-pexpire"), logger).NewLock(testkit.NewName())
		require.Regexp(t, "can't run this command|no permissions to run", lock.Lock(t.Context()).Error())
		require.Empty(t, testkit.Holders(t, admin, lock.Name()))
		require.Empty(t, log.String(), "the error says it, and nothing works without the right")
	})
	t.Run("without PUBLISH a release frees the lock, and says so", func(t *testing.T) {
		for _, kind := range []string{"lock", "fenced", "read", "write"} {
			lock := testkit.MakeLock(kind, testkit.NewClient(t, user(t, "~*", "&*", "+@all", "-publish")), testkit.NewName())
			require.NoError(t, lock.Lock(t.Context()))
			denies(t, lock.Unlock(t.Context()))
			require.Empty(t, testkit.Holders(t, admin, lock.Name()))
		}
	})
	t.Run("without access to channels a waiter gets an error at once", func(t *testing.T) {
		for kind, k := range testkit.Kinds {
			if k.Groups || k.Rival != nil || kind == "spin" {
				continue
			}
			holder := testkit.MakeLock(kind, testkit.NewClient(t, admin), testkit.NewName())
			logger, log := testkit.Recording()
			lock := testkit.MakeLock(kind, testkit.NewClient(t, user(t, "~*", "+@all"), logger, tune.PollInterval(testkit.Never)), holder.Name())
			require.NoError(t, holder.Lock(t.Context(), rlock.Lease(testkit.Never)))
			for range 2 {
				passed := redistest.Stopwatch(t)
				err := lock.Lock(t.Context())
				denies(t, err)
				require.ErrorContains(t, err, `subscribe to "redisson_`)
				require.Less(t, passed(), 2*time.Second)
			}
			require.Empty(t, log.String(), "the error says it")
			require.NoError(t, holder.Unlock(t.Context()))
		}
	})
	t.Run("without access to channels nobody awaits a latch", func(t *testing.T) {
		latch := testkit.NewClient(t, user(t, "~*", "+@all")).NewCountDownLatch(testkit.NewName())
		require.True(t, testkit.Must(testkit.NewClient(t, admin).NewCountDownLatch(latch.Name()).TrySetCount(t.Context(), 1)))
		denies(t, latch.Await(t.Context()))
	})
}

// denies requires the error of a missing right.
func denies(t *testing.T, err error) {
	t.Helper()
	require.ErrorContains(t, err, "the user of Redis lacks a right")
	require.ErrorContains(t, err, "rlock doctor --kinds ")
	require.NotErrorIs(t, err, rlock.ErrUnavailable)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
}
