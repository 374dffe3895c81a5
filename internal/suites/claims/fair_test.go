package claims

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestAFairLockIsServedInOrderAcrossProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	holder := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context()))
	const n = 12
	var clients [3]*rlock.Client
	for i := range clients {
		clients[i] = testkit.NewClient(t, server.Client(t), tune.PollInterval(time.Hour))
	}
	served := make(chan int, n)
	var waiting []<-chan error
	for i := range n {
		lock := clients[i%3].NewFairLock(holder.Name())
		waiting = append(waiting, testkit.Async(func() error {
			err := lock.Lock(t.Context())
			if err == nil {
				served <- i
				err = lock.Unlock(t.Context())
			}
			return err
		}))
		testkit.Eventually(t, "it queues", func() bool { return len(testkit.Queued(t, rdb, holder)) == i+1 })
	}
	require.False(t, testkit.Must(clients[0].NewFairLock(holder.Name()).TryLock(t.Context())), "no caller jumps the queue")
	require.Len(t, testkit.Queued(t, rdb, holder), n, "a TryLock does not join the queue")
	require.NoError(t, holder.Unlock(t.Context()))
	for i := range n {
		require.Equal(t, i, testkit.Within(t, "the next waiter acquires the lock", served))
		require.NoError(t, testkit.Within(t, "the waiter unlocks", waiting[i]))
	}
	testkit.Eventually(t, "nothing is left", func() bool { return !testkit.LeftIn(t, rdb, testkit.Keys(holder)) })
}

// A waiter that gives up leaves the queue, whatever the reason.
func TestAFairWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	holder := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context()))
	empty := func() bool { return len(testkit.Queued(t, rdb, holder)) == 0 }

	client := testkit.NewClient(t, server.Client(t))
	lock := client.NewFairLock(holder.Name())
	require.ErrorIs(t, lock.Lock(t.Context(), rlock.Wait(50*time.Millisecond)), rlock.ErrNotAcquired)
	testkit.Eventually(t, "it leaves after its wait ran out", empty)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := testkit.Async(func() error { return lock.Lock(ctx) })
	testkit.Eventually(t, "it queues", func() bool { return !empty() })
	cancel()
	require.ErrorIs(t, testkit.Within(t, "it gives up", waiting), context.Canceled)
	testkit.Eventually(t, "it leaves after its context ended", empty)
	waiting = testkit.Async(func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, "it queues", func() bool { return !empty() })
	require.NoError(t, client.Close())
	require.ErrorIs(t, testkit.Within(t, "it gives up", waiting), rlock.ErrClosed)
	require.True(t, empty(), "Close waits until the waiter has left")
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestALeavingFairWaiterPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(time.Hour))
	name := testkit.NewName()
	holder := testkit.NewClient(t, f.Direct).NewFairLock(name)
	require.NoError(t, holder.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	leaver := f.Client.NewFairLock(name)
	leaving := testkit.Async(func() error { return leaver.Lock(ctx) })
	testkit.Eventually(t, "it queues", func() bool { return len(testkit.Queued(t, f.Direct, holder)) == 1 })
	next := testkit.NewClient(t, f.Server.Client(t), tune.PollInterval(time.Hour)).NewFairLock(name)
	waiting := testkit.Async(func() error { return next.Lock(t.Context()) })
	testkit.Eventually(t, "another queues behind", func() bool { return len(testkit.Queued(t, f.Direct, holder)) == 2 })
	f.Proxy.Freeze() // the message that the lock is free does not reach the head
	require.NoError(t, holder.Unlock(t.Context()))
	cancel()
	require.ErrorIs(t, testkit.Within(t, "it gives up", leaving), context.Canceled)
	f.Proxy.Thaw()
	require.NoError(t, testkit.Within(t, "the next waiter is woken", waiting))
	require.NoError(t, next.Unlock(t.Context()))
}

// An acquire that arrives after its waiter has given up must not leave a waiter in the queue.
func TestADelayedFairRequestLeavesNoGhost(t *testing.T) {
	t.Parallel()
	for what, queuedBefore := range map[string]bool{"the first request": false, "a later one": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, nil, tune.PollInterval(100*time.Millisecond))
			name := testkit.NewName()
			holder := testkit.NewClient(t, f.Direct).NewFairLock(name)
			require.NoError(t, holder.Lock(t.Context()))
			lock := f.Client.NewFairLock(name)
			ctx, cancel := context.WithCancel(t.Context())
			asked := 0
			if queuedBefore {
				waiting := testkit.Async(func() error { return lock.Lock(ctx) })
				testkit.Eventually(t, "it queues", func() bool { return len(testkit.Queued(t, f.Direct, holder)) == 1 })
				held := f.Proxy.HoldRequest(1, testkit.Runs("acquire"))
				testkit.Within(t, "it asks again", held.Met())
				asked = f.Proxy.Count(testkit.Runs("acquire"))
				cancel()
				require.ErrorIs(t, testkit.Within(t, "it gives up", waiting), context.Canceled)
				testkit.Eventually(t, "it has left", func() bool { return len(testkit.Queued(t, f.Direct, holder)) == 0 })
				held.Release()
			} else {
				held := f.Proxy.HoldRequest(1, testkit.Runs("acquire"))
				waiting := testkit.Async(func() error { return lock.Lock(ctx) })
				testkit.Within(t, "it asks", held.Met())
				cancel()
				require.ErrorIs(t, testkit.Within(t, "it gives up", waiting), context.Canceled)
				held.Release()
			}
			testkit.Eventually(t, "both the acquire and the release have arrived", func() bool {
				return f.Proxy.Count(testkit.Runs("release")) == 1 && f.Proxy.Count(testkit.Runs("acquire")) == asked+1
			})
			testkit.Eventually(t, "the queue is empty", func() bool { return len(testkit.Queued(t, f.Direct, holder)) == 0 })
			testkit.Stays(t, "the queue stays empty", func() bool { return len(testkit.Queued(t, f.Direct, holder)) == 0 })
			require.NoError(t, holder.Unlock(t.Context()))
			require.True(t, testkit.Must(holder.TryLock(t.Context())))
			require.NoError(t, holder.Unlock(t.Context()))
		})
	}
}

// A Java process that is killed while it waits blocks the queue until its deadline, and no longer.
func TestADeadFairWaiterOfJavaIsEvicted(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb, tune.PollInterval(time.Hour), tune.FairWait(10*time.Second))
		lock := client.NewFairLock(testkit.NewName())
		require.NoError(t, rdb.RPush(t.Context(), testkit.Keys(lock)[1], testkit.Stranger).Err())
		dead := float64(time.Now().Add(700 * time.Millisecond).UnixMilli())
		require.NoError(t, rdb.ZAdd(t.Context(), testkit.Keys(lock)[2], redis.Z{Score: dead, Member: testkit.Stranger}).Err())
		require.False(t, testkit.Must(lock.TryLock(t.Context())), "the dead waiter is first")
		require.NoError(t, lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)), "no message announces the eviction, so the script returns its time")
		require.False(t, float64(time.Now().UnixMilli()) < dead-100, "the dead waiter is not evicted early")
		require.NoError(t, lock.Unlock(t.Context()))
		testkit.Eventually(t, "nothing is left", func() bool { return !testkit.LeftIn(t, rdb, testkit.Keys(lock)) })
	})
}

func TestDeadFairWaitersAreEvictedWhileTheLockIsHeld(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		lock := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
		require.NoError(t, lock.Lock(ctx))
		rival := testkit.NewClient(t, rdb).NewFairLock(lock.Name())
		for _, try := range []func() error{
			func() error { return testkit.Second(rival.TryAcquire(ctx)) },
			func() error { return testkit.Second(rival.Acquire(ctx, rlock.Wait(100*time.Millisecond))) },
		} {
			require.NoError(t, rdb.RPush(ctx, testkit.Keys(lock)[1], testkit.Stranger).Err())
			require.NoError(t, rdb.ZAdd(ctx, testkit.Keys(lock)[2], redis.Z{Score: 1, Member: testkit.Stranger}).Err())
			require.ErrorIs(t, try(), rlock.ErrNotAcquired)
			require.NotContains(t, testkit.Queued(t, rdb, lock), testkit.Stranger)
		}
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestALiveFairWaiterKeepsItsPositionHoweverLongItWaits(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, tune.PollInterval(50*time.Millisecond), tune.FairWait(10*time.Second))
	holder := client.NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context()))
	waiting := testkit.Async(func() error { return holder.Lock(t.Context()) })
	testkit.Eventually(t, "it queues", func() bool { return len(testkit.Queued(t, rdb, holder)) == 1 })
	me := testkit.Queued(t, rdb, holder)[0]
	for range 3 { // as if its deadline had passed
		require.NoError(t, rdb.ZAdd(t.Context(), testkit.Keys(holder)[2], redis.Z{Score: 1, Member: me}).Err())
		testkit.Eventually(t, "it renews its deadline", func() bool {
			return rdb.ZScore(t.Context(), testkit.Keys(holder)[2], me).Val() > float64(time.Now().Add(9*time.Second).UnixMilli())
		})
		require.Equal(t, []string{me}, testkit.Queued(t, rdb, holder))
	}
	require.NoError(t, rdb.Del(t.Context(), testkit.Keys(holder)[1], testkit.Keys(holder)[2]).Err())
	testkit.Eventually(t, "an evicted waiter queues again", func() bool { return len(testkit.Queued(t, rdb, holder)) == 1 })
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it gets the lock", waiting))
	require.NoError(t, holder.Unlock(t.Context()))
}

// While a slow head does not take the free lock, the waiters behind it must not ask all the time.
func TestWaitersBehindASlowHeadDoNotPoll(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
	require.NoError(t, rdb.RPush(t.Context(), testkit.Keys(lock)[1], testkit.Stranger).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), testkit.Keys(lock)[2],
		redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: testkit.Stranger}).Err())
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	require.ErrorIs(t, lock.Lock(t.Context(), rlock.Wait(time.Second)), rlock.ErrNotAcquired)
	require.LessOrEqual(t, testkit.Stats(t, rdb)["evalsha"], 4, "one acquire, one after the subscription, and the release")
}

// This is Redisson's testWaitTimeoutDrift: a waiter that comes and goes must not push back the deadlines of others.
func TestFairDeadlinesDoNotDrift(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb)
	holder := client.NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(time.Minute)))
	waiting := testkit.Async(func() error { return holder.Lock(t.Context()) })
	testkit.Eventually(t, "one waits", func() bool { return len(testkit.Queued(t, rdb, holder)) == 1 })
	for range 30 {
		require.ErrorIs(t, holder.Lock(t.Context(), rlock.Wait(3*time.Millisecond)), rlock.ErrNotAcquired)
		testkit.Eventually(t, "the others have left again", func() bool { return len(testkit.Queued(t, rdb, holder)) == 1 })
		for _, z := range rdb.ZRangeWithScores(t.Context(), testkit.Keys(holder)[2], 0, -1).Val() {
			latest := time.Now().Add(time.Minute + 5*time.Minute + time.Second).UnixMilli()
			require.LessOrEqual(t, int64(z.Score), latest, "the deadline covers one lease and one wait")
		}
	}
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it gets the lock", waiting))
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestFiveHundredFairWaiters(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb)
	lock := client.NewFairLock(testkit.NewName())
	const n = 500
	done := make(chan error, n)
	inside := 0
	for range n {
		go func() {
			done <- lock.Do(t.Context(), func(context.Context) error {
				inside++ // no race, because the lock excludes the others
				return nil
			})
		}()
	}
	for range n {
		require.NoError(t, testkit.Within(t, "each gets its turn", done))
	}
	require.Equal(t, n, inside)
	testkit.Eventually(t, "nothing is left", func() bool { return !testkit.LeftIn(t, rdb, testkit.Keys(lock)) && testkit.Remains(client) == 0 })
}

func TestAFairWaiterIsServedWhenTheHoldersProcessIsKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := testkit.NewName()
	child := testkit.StartChild(t, server.Addr, "fair", name)
	child.Next()
	testkit.Must(strconv.ParseInt(child.Answer(), 10, 64))
	lock := testkit.NewClient(t, server.Client(t)).NewFairLock(name)
	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, "it queues", func() bool { return len(testkit.Queued(t, server.Client(t), lock)) == 1 })
	child.Kill()
	require.NoError(t, testkit.Within(t, fmt.Sprint("it gets ", name), waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestAFairWaiterLeavesTheQueueAfterALongOutage(t *testing.T) {
	t.Parallel()
	var network testkit.Outage
	logger, log := testkit.Recording()
	f := testkit.NewFaulty(t, &redis.Options{Dialer: network.Dial, DialerRetries: 1, MaxRetries: -1}, logger,
		rlock.WithCommandTimeout(200*time.Millisecond), rlock.WithWatchdogTimeout(300*time.Millisecond))
	lock := f.Client.NewFairLock(testkit.NewName())
	holder := testkit.NewClient(t, f.Direct).NewFairLock(lock.Name())
	require.NoError(t, holder.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := testkit.Async(func() error { return lock.Lock(ctx) })
	testkit.Eventually(t, "it queues, subscribes and asks again", func() bool { return f.Proxy.Count(testkit.Runs("acquire")) >= 2 })
	<-time.After(50 * time.Millisecond) // until it sleeps, so that no command is in doubt
	network.Down.Store(true)
	cancel()
	require.ErrorIs(t, testkit.Within(t, "it gives up", waiting), context.Canceled)
	<-time.After(time.Second) // several leases and command timeouts
	require.Len(t, testkit.Queued(t, f.Direct, holder), 1)
	network.Down.Store(false)
	testkit.Eventually(t, "it leaves", func() bool { return len(testkit.Queued(t, f.Direct, holder)) == 0 })
	require.NoError(t, holder.Unlock(t.Context()))
	require.Empty(t, log.String())
}

// A holder's lease of an hour must not keep a dead waiter in the queue for an hour.
func TestALongLeaseKeepsNoDeadFairWaiter(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb, tune.FairWait(10*time.Second))
	holder := client.NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(time.Hour)))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := testkit.Async(func() error { return holder.Lock(ctx) })
	testkit.Eventually(t, "it queues", func() bool { return len(testkit.Queued(t, rdb, holder)) == 1 })
	deadline := rdb.ZScore(t.Context(), testkit.Keys(holder)[2], testkit.Queued(t, rdb, holder)[0]).Val()
	require.Less(t, deadline, float64(time.Now().Add(21*time.Second).UnixMilli()))
	cancel()
	require.ErrorIs(t, testkit.Within(t, "it gives up", waiting), context.Canceled)
	require.NoError(t, holder.Unlock(t.Context()))
}

// With short leases and many waiters, only the head waits for the end of the lease.
func TestOnlyTheHeadOfAFairQueueWatchesTheLease(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
	const n = 60
	done := make(chan error, n)
	for range n {
		go func() { done <- lock.Lock(t.Context(), rlock.Lease(50*time.Millisecond)) }() // the lease runs out
	}
	for range n {
		require.NoError(t, testkit.Within(t, "each gets its turn", done))
	}
	calls := testkit.Stats(t, rdb)["evalsha"] + testkit.Stats(t, rdb)["eval"]
	t.Logf("%.1f script calls for each of %d acquisitions", float64(calls)/n, n)
	require.Less(t, calls, 10*n)
	for range n {
		if err := lock.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, rlock.ErrLost)
		}
	}
}
