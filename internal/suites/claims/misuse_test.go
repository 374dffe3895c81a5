package claims

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// This file tests unusual callers and unusual redis clients.

func TestANilContextPanicsAndBreaksNothing(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	lock := client.NewLock(testkit.NewName())
	var none context.Context
	require.Panics(t, func() { _ = lock.Lock(none) })
	require.Panics(t, func() { _, _ = lock.TryLock(none) })
	require.True(t, testkit.Must(lock.TryLock(t.Context())), "nobody holds the lock")
	require.Panics(t, func() { _ = lock.Unlock(none) })
	require.NoError(t, lock.Unlock(t.Context()))
	testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client) == 0 })
}

// A failing test calls runtime.Goexit, which may end the goroutine within Do.
func TestDoUnlocksWhenItsGoroutineEnds(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t)).NewLock(testkit.NewName())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = lock.Do(t.Context(), func(context.Context) error {
			runtime.Goexit()
			return nil
		})
	}()
	testkit.Within(t, "the goroutine ends", ended)
	require.True(t, testkit.Must(lock.TryLock(t.Context())))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestAClosedRedisClientFailsAtOnce(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	rdb := redistest.Start(t).Client(t)
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, rdb, logger, rlock.WithWatchdogTimeout(time.Second), rlock.WithCommandTimeout(time.Second))
	hold, err := client.NewLock(testkit.NewName()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Close())
	lock := client.NewLock(testkit.NewName())
	require.ErrorIs(t, testkit.Second(lock.TryLock(t.Context())), redis.ErrClosed)
	locking := testkit.Async(func() error { return lock.Lock(t.Context()) })
	require.ErrorIs(t, testkit.Within(t, "Lock returns, because waiting cannot help", locking), redis.ErrClosed)
	testkit.Within(t, "the hold ends with its lease", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.Error(t, hold.Unlock(t.Context()))
}

// TestAClosedRedisClientEndsEveryWait has a caller of each kind wait, listen and sleep when the application closes its redis client.
func TestAClosedRedisClientEndsEveryWait(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	ctx := t.Context()
	rdb, name := server.Client(t), testkit.NewName()
	logger, _ := testkit.Recording()
	client, other := testkit.NewClient(t, rdb, logger, tune.PollInterval(testkit.Never)), testkit.NewClient(t, server.Client(t))
	waits := make(map[string]<-chan error)
	for kind, k := range testkit.Kinds {
		held, waiting := k.Make(other, name+kind), k.Make(client, name+kind)
		if k.Rival != nil {
			held = k.Rival(other, name+kind)
		}
		require.NoError(t, held.Lock(ctx, rlock.Lease(testkit.Never)), kind)
		waits[kind] = testkit.Async(func() error { return waiting.Lock(ctx) })
	}
	require.True(t, testkit.Must(other.NewSemaphore(name).TrySetPermits(ctx, 0)))
	waits["semaphore"] = testkit.Async(func() error { return testkit.Second(client.NewSemaphore(name).Acquire(ctx)) })
	require.True(t, testkit.Must(other.NewPlainSemaphore(name+"plain").TrySetPermits(ctx, 0)))
	waits["plain semaphore"] = testkit.Async(func() error { return client.NewPlainSemaphore(name + "plain").Acquire(ctx) })
	require.True(t, testkit.Must(other.NewCountDownLatch(name+"latch").TrySetCount(ctx, 1)))
	waits["latch"] = testkit.Async(func() error { return client.NewCountDownLatch(name + "latch").Await(ctx) })
	testkit.Eventually(t, "all wait", func() bool { return client.Stats().Waiting >= len(waits) })
	time.Sleep(500 * time.Millisecond) // until they listen
	passed := redistest.Stopwatch(t)
	require.NoError(t, rdb.Close())
	for kind, wait := range waits {
		err := testkit.Within(t, kind+" ends", wait)
		require.ErrorIs(t, err, rlock.ErrClosed, kind)
		require.ErrorIs(t, err, redis.ErrClosed, kind)
		t.Logf("%s, %v: %v", kind, passed(), err)
	}
	require.Less(t, passed(), 2*time.Second)
}

// The databases of a server share their channels, but not their keys.
func TestLocksInDifferentDatabasesAreIndependent(t *testing.T) {
	t.Parallel()
	redistest.NeedsRealServer(t, "several databases")
	server := redistest.Start(t)
	name := testkit.NewName()
	var locks [2]*rlock.Lock
	for db := range locks {
		rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, DB: db})
		locks[db] = testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never)).NewLock(name)
	}
	require.NoError(t, locks[0].Lock(t.Context(), rlock.Lease(testkit.Never)))
	require.True(t, testkit.Must(locks[1].TryLock(t.Context())))
	waiting := testkit.Async(func() error { return locks[0].Lock(rlock.WithOwner(t.Context())) })
	testkit.Eventually(t, "the waiter waits", func() bool { return testkit.Listens(locks[0]) })
	require.NoError(t, locks[1].Unlock(t.Context()), "the waiter receives the message of the other database")
	testkit.Stays(t, "the waiter still waits for its own lock", func() bool { return len(waiting) == 0 })
	require.NoError(t, locks[0].Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter gets its lock", waiting))
}

// Redis closes idle connections, and go-redis speaks either protocol. No call may fail because of that.
func TestConnectionsClosedByTheServer(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--timeout", "1")
			admin := redistest.Open(t, &redis.Options{Addr: server.Addr, PoolSize: 1})
			rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, Protocol: protocol, MaxRetries: -1})
			one := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never)).NewLock(testkit.NewName())
			two := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never)).NewLock(one.Name())
			require.NoError(t, one.Lock(t.Context(), rlock.Lease(testkit.Never)))
			waiting := testkit.Async(func() error { return two.Lock(t.Context()) })
			testkit.Eventually(t, "the waiter waits", func() bool { return testkit.Listens(two) })
			stale := rdb.PoolStats().StaleConns
			testkit.Eventually(t, "Redis has closed the idle connections", func() bool {
				list := testkit.Must(admin.Do(t.Context(), "client", "list", "type", "normal").Text())
				return strings.Count(list, "\n") == 1 // the admin connection itself
			})
			require.True(t, testkit.Must(one.IsLocked(t.Context())))
			require.Greater(t, rdb.PoolStats().StaleConns, stale, "the client notices a closed connection only when it uses it")
			require.NoError(t, one.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
			require.NoError(t, two.Unlock(t.Context()))
		})
	}
}

// There are many more waiters than connections. Each connection is slow, and the leases are short.
func TestFiveHundredWaitersDelayNoRenewal(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, &redis.Options{PoolSize: 2}, rlock.WithWatchdogTimeout(3*time.Second), tune.PollInterval(100*time.Millisecond))
	holder := testkit.NewClient(t, f.Direct)
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	f.Proxy.Delay(20 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting atomic.Int32
	for i := range 500 {
		lock := f.Client.NewLock(fmt.Sprint("waited for:", i))
		require.NoError(t, holder.NewLock(lock.Name()).Lock(t.Context(), rlock.Lease(time.Minute)))
		waiting.Add(1)
		go func() {
			defer waiting.Add(-1)
			_ = lock.Lock(ctx)
		}()
	}
	for range 5 {
		before := hold.Deadline()
		testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) || hold.Err() != nil })
		require.NoError(t, hold.Err())
	}
	require.EqualValues(t, 500, waiting.Load(), "all of them wait")
	require.NoError(t, hold.Unlock(t.Context()))
	cancel()
	testkit.Eventually(t, "all waiters leave", func() bool { return waiting.Load() == 0 })
}

// TestTheContextOfALostHoldDoesNotReenter asks for the context of a hold, and so for its owner, only after the lock was lost.
func TestTheContextOfALostHoldDoesNotReenter(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	lock := client.NewLock(testkit.NewName())
	for _, asked := range []string{"before the loss", "after it", "in the unlock"} {
		hold := testkit.Must(lock.Acquire(t.Context()))
		ctx := t.Context()
		if asked == "before the loss" {
			ctx = hold.Context()
			require.NoError(t, lock.Lock(ctx), asked)
			require.NoError(t, lock.Unlock(ctx), asked)
		}
		require.True(t, testkit.Must(lock.ForceUnlock(t.Context())), asked)
		<-hold.Done()
		if asked == "after it" {
			ctx = hold.Context()
		}
		if asked != "in the unlock" {
			require.ErrorIs(t, lock.Lock(context.WithoutCancel(ctx)), rlock.ErrLost, asked)
		}
		require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrLost, asked)
		require.NoError(t, lock.Lock(context.WithoutCancel(ctx)), "it is unlocked now")
		require.NoError(t, lock.Unlock(context.WithoutCancel(ctx)), asked)
	}
}
