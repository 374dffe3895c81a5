package rlock_test

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
)

// queued returns the holder fields of the waiters in the queue of a fair lock, in order.
func queued(tb testing.TB, rdb redis.UniversalClient, lock *rlock.Lock) []string {
	tb.Helper()
	var queue *redis.StringSliceCmd
	var deadlines *redis.IntCmd
	_, err := rdb.TxPipelined(context.Background(), func(tx redis.Pipeliner) error {
		queue = tx.LRange(context.Background(), lock.Keys()[1], 0, -1)
		deadlines = tx.ZCard(context.Background(), lock.Keys()[2])
		return nil
	})
	require.NoError(tb, err)
	require.EqualValues(tb, len(queue.Val()), deadlines.Val(), "each waiter has a deadline")
	return queue.Val()
}

func TestAFairLockIsServedInOrderAcrossProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	holder := newClient(t, rdb).NewFairLock(newName())
	require.NoError(t, holder.Lock(t.Context()))
	const n = 12
	var clients [3]*rlock.Client
	for i := range clients {
		clients[i] = newClient(t, server.Client(t), rlock.WithPollInterval(time.Hour))
	}
	served := make(chan int, n)
	var waiting []<-chan error
	for i := range n {
		lock := clients[i%3].NewFairLock(holder.Name())
		waiting = append(waiting, async(func() error {
			err := lock.Lock(t.Context())
			if err == nil {
				served <- i
				err = lock.Unlock(t.Context())
			}
			return err
		}))
		eventually(t, "it queues", func() bool { return len(queued(t, rdb, holder)) == i+1 })
	}
	require.False(t, must(clients[0].NewFairLock(holder.Name()).TryLock(t.Context())), "no caller jumps the queue")
	require.Len(t, queued(t, rdb, holder), n, "a TryLock does not join the queue")
	require.NoError(t, holder.Unlock(t.Context()))
	for i := range n {
		require.Equal(t, i, within(t, "the next waiter acquires the lock", served))
		require.NoError(t, within(t, "the waiter unlocks", waiting[i]))
	}
	eventually(t, "nothing is left", func() bool { return !leftIn(t, rdb, holder.Keys()) })
}

// A waiter that gives up leaves the queue, whatever the reason.
func TestAFairWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	holder := newClient(t, rdb).NewFairLock(newName())
	require.NoError(t, holder.Lock(t.Context()))
	empty := func() bool { return len(queued(t, rdb, holder)) == 0 }

	client := newClient(t, server.Client(t))
	lock := client.NewFairLock(holder.Name())
	require.ErrorIs(t, lock.Lock(t.Context(), rlock.Wait(50*time.Millisecond)), rlock.ErrNotAcquired)
	eventually(t, "it leaves after its wait ran out", empty)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := async(func() error { return lock.Lock(ctx) })
	eventually(t, "it queues", func() bool { return !empty() })
	cancel()
	require.ErrorIs(t, within(t, "it gives up", waiting), context.Canceled)
	eventually(t, "it leaves after its context ended", empty)
	waiting = async(func() error { return lock.Lock(t.Context()) })
	eventually(t, "it queues", func() bool { return !empty() })
	require.NoError(t, client.Close())
	require.ErrorIs(t, within(t, "it gives up", waiting), rlock.ErrClosed)
	require.True(t, empty(), "Close waits until the waiter has left")
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestALeavingFairWaiterPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(time.Hour))
	name := newName()
	holder := newClient(t, f.direct).NewFairLock(name)
	require.NoError(t, holder.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	leaver := f.client.NewFairLock(name)
	leaving := async(func() error { return leaver.Lock(ctx) })
	eventually(t, "it queues", func() bool { return len(queued(t, f.direct, holder)) == 1 })
	next := newClient(t, f.server.Client(t), rlock.WithPollInterval(time.Hour)).NewFairLock(name)
	waiting := async(func() error { return next.Lock(t.Context()) })
	eventually(t, "another queues behind", func() bool { return len(queued(t, f.direct, holder)) == 2 })
	f.proxy.Freeze() // the message that the lock is free does not reach the head
	require.NoError(t, holder.Unlock(t.Context()))
	cancel()
	require.ErrorIs(t, within(t, "it gives up", leaving), context.Canceled)
	f.proxy.Thaw()
	require.NoError(t, within(t, "the next waiter is woken", waiting))
	require.NoError(t, next.Unlock(t.Context()))
}

// An acquire that arrives after its waiter has given up must not leave a waiter in the queue.
func TestADelayedFairRequestLeavesNoGhost(t *testing.T) {
	t.Parallel()
	for what, queuedBefore := range map[string]bool{"the first request": false, "a later one": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, nil, rlock.WithPollInterval(100*time.Millisecond))
			name := newName()
			holder := newClient(t, f.direct).NewFairLock(name)
			require.NoError(t, holder.Lock(t.Context()))
			lock := f.client.NewFairLock(name)
			ctx, cancel := context.WithCancel(t.Context())
			asked := 0
			if queuedBefore {
				waiting := async(func() error { return lock.Lock(ctx) })
				eventually(t, "it queues", func() bool { return len(queued(t, f.direct, holder)) == 1 })
				held := f.proxy.HoldRequest(1, rlock.Runs("acquire"))
				within(t, "it asks again", held.Met())
				asked = f.proxy.Count(rlock.Runs("acquire"))
				cancel()
				require.ErrorIs(t, within(t, "it gives up", waiting), context.Canceled)
				eventually(t, "it has left", func() bool { return len(queued(t, f.direct, holder)) == 0 })
				held.Release()
			} else {
				held := f.proxy.HoldRequest(1, rlock.Runs("acquire"))
				waiting := async(func() error { return lock.Lock(ctx) })
				within(t, "it asks", held.Met())
				cancel()
				require.ErrorIs(t, within(t, "it gives up", waiting), context.Canceled)
				held.Release()
			}
			eventually(t, "both the acquire and the release have arrived", func() bool {
				return f.proxy.Count(rlock.Runs("release")) == 1 && f.proxy.Count(rlock.Runs("acquire")) == asked+1
			})
			eventually(t, "the queue is empty", func() bool { return len(queued(t, f.direct, holder)) == 0 })
			stays(t, "the queue stays empty", func() bool { return len(queued(t, f.direct, holder)) == 0 })
			require.NoError(t, holder.Unlock(t.Context()))
			require.True(t, must(holder.TryLock(t.Context())))
			require.NoError(t, holder.Unlock(t.Context()))
		})
	}
}

// A process that is killed while it waits blocks the queue until its deadline, and no longer. The test sets the deadline
// itself, because the minimum of WithFairWait is longer than a test should take.
func TestADeadFairWaiterIsEvicted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := newClient(t, rdb, rlock.WithPollInterval(time.Hour), rlock.WithFairWait(10*time.Second))
		lock := client.NewFairLock(newName())
		require.NoError(t, rdb.RPush(t.Context(), lock.Keys()[1], other).Err())
		dead := float64(time.Now().Add(700 * time.Millisecond).UnixMilli())
		require.NoError(t, rdb.ZAdd(t.Context(), lock.Keys()[2], redis.Z{Score: dead, Member: other}).Err())
		require.False(t, must(lock.TryLock(t.Context())), "the dead waiter is first")
		require.NoError(t, lock.Lock(t.Context(), rlock.Wait(aLongTime)), "no message announces the eviction, so the script returns its time")
		require.False(t, float64(time.Now().UnixMilli()) < dead-100, "the dead waiter is not evicted early")
		require.NoError(t, lock.Unlock(t.Context()))
		eventually(t, "nothing is left", func() bool { return !leftIn(t, rdb, lock.Keys()) })
	})
}

// A process that dies with many waiters blocks the queue for one wait, not for one wait per waiter. Live waiters keep their
// positions. So do Redisson's waiters, because their deadlines do not show whether they are alive.
func TestFairWaitersThatDiedTogetherAreEvictedTogether(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		lock := newClient(t, rdb).NewFairLock(newName())
		source, n := rlock.Script("fair", "acquire")
		ask := func(waiter string) int64 {
			keys := append(lock.Keys()[:n:n], lock.Keys()[3])
			return must(rdb.Eval(ctx, source, keys, waiter, 60000, 1, lock.Channel(), "PUBLISH", 300000, "").Int64())
		}
		require.Zero(t, ask("holder"))
		var dead []string
		for i := range 100 {
			dead = append(dead, fmt.Sprint("dead:", i))
		}
		for _, waiter := range append(dead, "living:1") {
			require.Negative(t, ask(waiter))
		}
		java := rdb.ZScore(ctx, lock.Keys()[2], "living:1").Val() + 300000 // Redisson adds its wait to the deadline of the waiter ahead
		require.NoError(t, rdb.RPush(ctx, lock.Keys()[1], other).Err())
		require.NoError(t, rdb.ZAdd(ctx, lock.Keys()[2], redis.Z{Score: java, Member: other}).Err())
		require.Negative(t, ask("living:2"))
		for minute := range 7 { // each minute only the live waiters ask
			if minute < 6 {
				require.Equal(t, append(dead, "living:1", other, "living:2"), queued(t, rdb, lock))
			}
			for _, waiter := range queued(t, rdb, lock) {
				require.NoError(t, rdb.ZIncrBy(ctx, lock.Keys()[2], -60000, waiter).Err())
			}
			require.Negative(t, ask("living:2"))
			require.Negative(t, ask("living:1"))
		}
		require.Equal(t, []string{"living:1", other, "living:2"}, queued(t, rdb, lock))
		require.Equal(t, java-7*60000, rdb.ZScore(ctx, lock.Keys()[2], other).Val())
		require.NoError(t, rdb.Del(ctx, lock.Name()).Err())
		require.Zero(t, ask("living:1"))
		require.Equal(t, []string{other, "living:2"}, queued(t, rdb, lock))
	})
}

func TestDeadFairWaitersAreEvictedWhileTheLockIsHeld(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		lock := newClient(t, rdb).NewFairLock(newName())
		require.NoError(t, lock.Lock(ctx))
		rival := newClient(t, rdb).NewFairLock(lock.Name())
		for _, try := range []func() error{
			func() error { return second(rival.TryAcquire(ctx)) },
			func() error { return second(rival.Acquire(ctx, rlock.Wait(100*time.Millisecond))) },
		} {
			require.NoError(t, rdb.RPush(ctx, lock.Keys()[1], other).Err())
			require.NoError(t, rdb.ZAdd(ctx, lock.Keys()[2], redis.Z{Score: 1, Member: other}).Err())
			require.ErrorIs(t, try(), rlock.ErrNotAcquired)
			require.NotContains(t, queued(t, rdb, lock), other)
		}
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestALiveFairWaiterKeepsItsPositionHoweverLongItWaits(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := newClient(t, rdb, rlock.WithPollInterval(50*time.Millisecond), rlock.WithFairWait(10*time.Second))
	holder := client.NewFairLock(newName())
	require.NoError(t, holder.Lock(t.Context()))
	waiting := async(func() error { return holder.Lock(t.Context()) })
	eventually(t, "it queues", func() bool { return len(queued(t, rdb, holder)) == 1 })
	me := queued(t, rdb, holder)[0]
	for range 3 { // as if its deadline had passed
		require.NoError(t, rdb.ZAdd(t.Context(), holder.Keys()[2], redis.Z{Score: 1, Member: me}).Err())
		eventually(t, "it renews its deadline", func() bool {
			return rdb.ZScore(t.Context(), holder.Keys()[2], me).Val() > float64(time.Now().Add(9*time.Second).UnixMilli())
		})
		require.Equal(t, []string{me}, queued(t, rdb, holder))
	}
	require.NoError(t, rdb.Del(t.Context(), holder.Keys()[1], holder.Keys()[2]).Err())
	eventually(t, "an evicted waiter queues again", func() bool { return len(queued(t, rdb, holder)) == 1 })
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, within(t, "it gets the lock", waiting))
	require.NoError(t, holder.Unlock(t.Context()))
}

// While a slow head does not take the free lock, the waiters behind it must not ask all the time.
func TestWaitersBehindASlowHeadDoNotPoll(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := newClient(t, rdb).NewFairLock(newName())
	require.NoError(t, rdb.RPush(t.Context(), lock.Keys()[1], other).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), lock.Keys()[2],
		redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: other}).Err())
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	require.ErrorIs(t, lock.Lock(t.Context(), rlock.Wait(time.Second)), rlock.ErrNotAcquired)
	require.LessOrEqual(t, stats(t, rdb)["evalsha"], 4, "one acquire, one after the subscription, and the release")
}

// This is Redisson's testWaitTimeoutDrift: a waiter that comes and goes must not push back the deadlines of others.
func TestFairDeadlinesDoNotDrift(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := newClient(t, rdb)
	holder := client.NewFairLock(newName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(time.Minute)))
	waiting := async(func() error { return holder.Lock(t.Context()) })
	eventually(t, "one waits", func() bool { return len(queued(t, rdb, holder)) == 1 })
	for range 30 {
		require.ErrorIs(t, holder.Lock(t.Context(), rlock.Wait(3*time.Millisecond)), rlock.ErrNotAcquired)
		eventually(t, "the others have left again", func() bool { return len(queued(t, rdb, holder)) == 1 })
		for _, z := range rdb.ZRangeWithScores(t.Context(), holder.Keys()[2], 0, -1).Val() {
			latest := time.Now().Add(time.Minute + 5*time.Minute + time.Second).UnixMilli()
			require.LessOrEqual(t, int64(z.Score), latest, "the deadline covers one lease and one wait")
		}
	}
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, within(t, "it gets the lock", waiting))
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestFiveHundredFairWaiters(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := newClient(t, rdb)
	lock := client.NewFairLock(newName())
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
		require.NoError(t, within(t, "each gets its turn", done))
	}
	require.Equal(t, n, inside)
	eventually(t, "nothing is left", func() bool { return !leftIn(t, rdb, lock.Keys()) && client.Remains() == 0 })
}

func TestAFairWaiterIsServedWhenTheHoldersProcessIsKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := newName()
	child := startChild(t, server.Addr, "fair", name)
	child.next()
	must(strconv.ParseInt(child.answer(), 10, 64))
	lock := newClient(t, server.Client(t)).NewFairLock(name)
	waiting := async(func() error { return lock.Lock(t.Context()) })
	eventually(t, "it queues", func() bool { return len(queued(t, server.Client(t), lock)) == 1 })
	child.kill()
	require.NoError(t, within(t, fmt.Sprint("it gets ", name), waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestAFairWaiterLeavesTheQueueAfterALongOutage(t *testing.T) {
	t.Parallel()
	var network outage
	logger, log := recording()
	f := newFaulty(t, &redis.Options{Dialer: network.dial, DialerRetries: 1, MaxRetries: -1}, logger,
		rlock.WithCommandTimeout(200*time.Millisecond), rlock.WithWatchdogTimeout(300*time.Millisecond))
	lock := f.client.NewFairLock(newName())
	holder := newClient(t, f.direct).NewFairLock(lock.Name())
	require.NoError(t, holder.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := async(func() error { return lock.Lock(ctx) })
	eventually(t, "it queues, subscribes and asks again", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == 2 })
	<-time.After(50 * time.Millisecond) // until it sleeps, so that no command is in doubt
	network.down.Store(true)
	cancel()
	require.ErrorIs(t, within(t, "it gives up", waiting), context.Canceled)
	<-time.After(time.Second) // several leases and command timeouts
	require.Len(t, queued(t, f.direct, holder), 1)
	network.down.Store(false)
	eventually(t, "it leaves", func() bool { return len(queued(t, f.direct, holder)) == 0 })
	require.NoError(t, holder.Unlock(t.Context()))
	require.Empty(t, log.String())
}

// A holder's lease of an hour must not keep a dead waiter in the queue for an hour.
func TestALongLeaseKeepsNoDeadFairWaiter(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := newClient(t, rdb, rlock.WithFairWait(10*time.Second))
	holder := client.NewFairLock(newName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(time.Hour)))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := async(func() error { return holder.Lock(ctx) })
	eventually(t, "it queues", func() bool { return len(queued(t, rdb, holder)) == 1 })
	deadline := rdb.ZScore(t.Context(), holder.Keys()[2], queued(t, rdb, holder)[0]).Val()
	require.Less(t, deadline, float64(time.Now().Add(21*time.Second).UnixMilli()))
	cancel()
	require.ErrorIs(t, within(t, "it gives up", waiting), context.Canceled)
	require.NoError(t, holder.Unlock(t.Context()))
}

// With short leases and many waiters, only the head waits for the end of the lease.
func TestOnlyTheHeadOfAFairQueueWatchesTheLease(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := newClient(t, rdb).NewFairLock(newName())
	const n = 60
	done := make(chan error, n)
	for range n {
		go func() { done <- lock.Lock(t.Context(), rlock.Lease(50*time.Millisecond)) }() // the lease runs out
	}
	for range n {
		require.NoError(t, within(t, "each gets its turn", done))
	}
	calls := stats(t, rdb)["evalsha"] + stats(t, rdb)["eval"]
	t.Logf("%.1f script calls for each of %d acquisitions", float64(calls)/n, n)
	require.Less(t, calls, 10*n)
	for range n {
		if err := lock.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, rlock.ErrLost)
		}
	}
}
