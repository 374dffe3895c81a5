package trouble

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
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
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second), rlock.WithPollInterval(100*time.Millisecond))
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
	t.Run("without PUBLISH a release frees the lock", func(t *testing.T) {
		lock := testkit.NewClient(t, user(t, "~*", "&*", "+@all", "-publish")).NewLock(testkit.NewName())
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Empty(t, testkit.Holders(t, admin, lock.Name()))
	})
	t.Run("without access to channels waiters poll", func(t *testing.T) {
		logger, log := testkit.Recording()
		holder := testkit.NewClient(t, admin).NewLock(testkit.NewName())
		lock := testkit.NewClient(t, user(t, "~*", "+@all"), logger, rlock.WithPollInterval(50*time.Millisecond)).
			NewLock(holder.Name())
		require.NoError(t, holder.Lock(t.Context()))
		waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
		testkit.Eventually(t, "the refusal is logged", func() bool { return log.Contains("NOPERM") })
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "the refusal is logged once")
	})
	t.Run("without access to its own channel a waiter is woken with all others", func(t *testing.T) {
		logger, log := testkit.Recording()
		held := testkit.NewClient(t, admin).NewLock(testkit.NewName())
		client := testkit.NewClient(t, user(t, "~*", "+@all", "&"+testkit.Channel(held)), logger, rlock.WithPollInterval(testkit.Never))
		lock := client.NewLock(held.Name())
		for range 3 { // it knows after the first time
			require.NoError(t, held.Lock(t.Context(), rlock.Lease(testkit.Never)))
			waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
			testkit.Eventually(t, "it listens to Redisson's channel", func() bool {
				return admin.PubSubNumSub(t.Context(), testkit.Channel(held)).Val()[testkit.Channel(held)] == 1
			})
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
			require.NoError(t, lock.Unlock(t.Context()))
		}
		require.Empty(t, admin.Keys(t.Context(), "*"+held.Name()+"*").Val(), "it left the line")
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "the log says so once: %s", log)
	})
}

// TestLocksWorkWithoutTheRightsOfTheLine has processes contend of which some lack one of these rights. Nobody is left in the line,
// where a waiter could get the lock after it has left.
func TestLocksWorkWithoutTheRightsOfTheLine(t *testing.T) { // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, right := range []string{"zadd", "zcount", "zrange", "zrank", "zrem", "zrevrangebyscore", "zscore", "pubsub"} {
		t.Run("without "+right, func(t *testing.T) {
			user := testkit.NewUser(t, testkit.Admins(t, server), "~*", "&*", "+@all", "-"+right)
			name, inside := testkit.NewName(), 0
			var logs []*testkit.Recorder
			var all []<-chan error
			for i := range 4 {
				logger, log := testkit.Recording()
				rdb := redis.UniversalClient(admin)
				if i < 2 {
					rdb = testkit.OpenAs(t, server)(user)
					logs = append(logs, log)
				}
				lock := testkit.NewClient(t, rdb, logger, rlock.WithPollInterval(100*time.Millisecond)).NewLock(name)
				for range 2 {
					all = append(all, testkit.Async(func() error {
						for range 5 {
							err := lock.Do(t.Context(), func(context.Context) error {
								inside++ // the race detector, and the sum, show whether it is exclusive
								return nil
							})
							if err != nil {
								return err
							}
						}
						return nil
					}))
				}
			}
			for _, one := range all {
				require.NoError(t, testkit.Within(t, "all have had their turns", one))
			}
			require.Equal(t, 8*5, inside)
			testkit.Eventually(t, "the lock is free", func() bool {
				return len(admin.Keys(t.Context(), name).Val()) == 0
			})
			testkit.Eventually(t, "nobody stands in the line", func() bool {
				return admin.ZCount(t.Context(), "redisson_unlock_latch:{"+name+"}:waiters", "0", "3e15").Val() == 0
			})
			for _, log := range logs {
				require.LessOrEqual(t, strings.Count(log.String(), "\n"), 1, "it is said once: %s", log)
			}
		})
	}
}
