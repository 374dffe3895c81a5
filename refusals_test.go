package rlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// This file tests how locks react to commands that Redis refuses.

func TestServerStatesAreNotContention(t *testing.T) { //nolint:tparallel // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	ctx := t.Context()
	lock := newClient(t, rdb).NewLock(newName())
	set := func(name, value string) { require.NoError(t, rdb.ConfigSet(ctx, name, value).Err()) }

	t.Run("a waiting verb waits for a transient state to end", func(t *testing.T) {
		set("min-replicas-to-write", "1")
		_, err := lock.TryLock(ctx)
		require.ErrorContains(t, err, "NOREPLICAS")
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		_, err = lock.TryLock(ctx, rlock.Wait(100*time.Millisecond))
		require.ErrorContains(t, err, "NOREPLICAS", "the end of the wait does not turn it into contention")
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		waiting := async(func() error { return lock.Lock(ctx) })
		eventually(t, "the waiter waits", func() bool { return lock.Waiting() == 1 })
		set("min-replicas-to-write", "0")
		require.NoError(t, within(t, "the waiter gets the lock", waiting))
		require.NoError(t, lock.Unlock(ctx))
	})
	t.Run("when Redis is out of memory, held locks can be released", func(t *testing.T) { outOfMemory(t, rdb, set) })
	t.Run("locks survive a flush of the script cache", func(t *testing.T) {
		hold, err := newClient(t, rdb, rlock.WithWatchdogTimeout(time.Second)).NewLock(newName()).Acquire(ctx)
		require.NoError(t, err)
		for range 10 {
			require.NoError(t, rdb.ScriptFlush(ctx).Err())
			require.NoError(t, lock.Lock(ctx))
			require.NoError(t, rdb.ScriptFlush(ctx).Err())
			require.NoError(t, lock.Unlock(ctx))
		}
		before := hold.Deadline()
		require.NoError(t, rdb.ScriptFlush(ctx).Err())
		eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
		require.NoError(t, hold.Unlock(ctx))
	})
}

// outOfMemory unlocks locks of all kinds, and keeps waiters waiting, while Redis is out of memory.
func outOfMemory(t *testing.T, rdb *redis.Client, set func(name, value string)) {
	t.Helper()
	ctx := t.Context()
	owner := rlock.WithOwner(ctx)
	client := newClient(t, rdb, rlock.WithWatchdogTimeout(time.Second), rlock.WithPollInterval(100*time.Millisecond))
	var held []*rlock.Lock
	var waiting []<-chan error
	for kind, k := range kinds {
		if lock, ok := k.make(client, newName()).(*rlock.Lock); ok {
			held = append(held, lock)
			require.NoError(t, lock.Lock(owner), kind)
			require.NoError(t, lock.Lock(owner), kind)
		}
	}
	for kind, k := range kinds {
		if k.groups || k.rival != nil {
			continue
		}
		name := newName()
		holder := k.make(client, name)
		require.NoError(t, holder.Lock(ctx), kind)
		waiting = append(waiting, async(func() error { return k.make(client, name).Lock(owner, rlock.Wait(aLongTime)) }))
		eventually(t, "the waiter waits", func() bool { return holder.Waiting() == 1 })
		defer func() { require.NoError(t, holder.Unlock(ctx)) }()
	}
	set("maxmemory", "1")
	defer set("maxmemory", "0")
	_, err := newClient(t, rdb).NewLock(newName()).TryLock(ctx)
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	for _, lock := range held {
		require.NoError(t, lock.Unlock(owner))
		require.Equal(t, 1, must(lock.HoldCount(owner)))
		require.NoError(t, lock.Unlock(owner))
		require.Empty(t, holders(t, rdb, lock.Name()))
	}
	<-time.After(300 * time.Millisecond) // a few poll intervals
	for _, waiter := range waiting {
		require.Empty(t, waiter, "the waiter still waits")
	}
}

func TestDeniedCommands(t *testing.T) { //nolint:tparallel // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	user := func(t *testing.T, rules ...string) redis.UniversalClient {
		t.Helper()
		return openAs(t, server)(newUser(t, admins(t, server), rules...))
	}
	t.Run("without PEXPIRE no lock is left without a lease", func(t *testing.T) {
		lock := newClient(t, user(t, "~*", "&*", "+@all", "-pexpire")).NewLock(newName())
		require.Regexp(t, "can't run this command|no permissions to run", lock.Lock(t.Context()).Error())
		require.Empty(t, holders(t, admin, lock.Name()))
	})
	t.Run("without PUBLISH a release frees the lock", func(t *testing.T) {
		lock := newClient(t, user(t, "~*", "&*", "+@all", "-publish")).NewLock(newName())
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Empty(t, holders(t, admin, lock.Name()))
	})
	t.Run("without access to channels waiters poll", func(t *testing.T) {
		logger, log := recording()
		holder := newClient(t, admin).NewLock(newName())
		lock := newClient(t, user(t, "~*", "+@all"), logger, rlock.WithPollInterval(50*time.Millisecond)).
			NewLock(holder.Name())
		require.NoError(t, holder.Lock(t.Context()))
		waiting := async(func() error { return lock.Lock(t.Context()) })
		eventually(t, "the refusal is logged", func() bool { return log.Contains("NOPERM") })
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, within(t, "the waiter gets the lock", waiting))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "the refusal is logged once")
	})
}
