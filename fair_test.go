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

// queued returns who stands in the queue of a fair lock, the next one first.
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
	require.EqualValues(tb, len(queue.Val()), deadlines.Val(), "each has a deadline")
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
	require.False(t, must(clients[0].NewFairLock(holder.Name()).TryLock(t.Context())), "nobody passes the queue")
	require.Len(t, queued(t, rdb, holder), n, "and who only tries does not join it")
	require.NoError(t, holder.Unlock(t.Context()))
	for i := range n {
		require.Equal(t, i, within(t, "the next one gets it", served))
		require.NoError(t, within(t, "and gives it back", waiting[i]))
	}
	eventually(t, "nothing is left", func() bool { return !leftIn(t, rdb, holder.Keys()) })
}

// Whoever gives up leaves the queue, for whatever reason.
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
	eventually(t, "its wait was over", empty)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := async(func() error { return lock.Lock(ctx) })
	eventually(t, "it queues", func() bool { return !empty() })
	cancel()
	require.ErrorIs(t, within(t, "it gives up", waiting), context.Canceled)
	eventually(t, "its context ended", empty)
	waiting = async(func() error { return lock.Lock(t.Context()) })
	eventually(t, "it queues", func() bool { return !empty() })
	require.NoError(t, client.Close())
	require.ErrorIs(t, within(t, "it gives up", waiting), rlock.ErrClosed)
	require.True(t, empty(), "its client was closed, which waits for that")
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestAFairWaiterThatLeavesHandsTheWakeUpOn(t *testing.T) {
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
	f.proxy.Freeze() // the head is told that the lock is free, and does not hear it
	require.NoError(t, holder.Unlock(t.Context()))
	cancel()
	require.ErrorIs(t, within(t, "it gives up", leaving), context.Canceled)
	f.proxy.Thaw()
	require.NoError(t, within(t, "the next one is told", waiting))
	require.NoError(t, next.Unlock(t.Context()))
}

// A request that is delivered after its waiter has given up must not queue for nobody.
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
			eventually(t, "both the request and the leave have come", func() bool {
				return f.proxy.Count(rlock.Runs("release")) == 1 && f.proxy.Count(rlock.Runs("acquire")) == asked+1
			})
			eventually(t, "and are done", func() bool { return len(queued(t, f.direct, holder)) == 0 })
			stays(t, "nobody queues", func() bool { return len(queued(t, f.direct, holder)) == 0 })
			require.NoError(t, holder.Unlock(t.Context()))
			require.True(t, must(holder.TryLock(t.Context())))
			require.NoError(t, holder.Unlock(t.Context()))
		})
	}
}

// A process that is killed while it waits blocks the queue until its deadline, and no longer. Here the deadline is moved
// by hand: the least that WithFairWait allows is longer than a test should take.
func TestADeadFairWaiterIsEvicted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := newClient(t, rdb, rlock.WithPollInterval(time.Hour), rlock.WithFairWait(10*time.Second))
		lock := client.NewFairLock(newName())
		require.NoError(t, rdb.RPush(t.Context(), lock.Keys()[1], other).Err())
		dead := float64(time.Now().Add(700 * time.Millisecond).UnixMilli())
		require.NoError(t, rdb.ZAdd(t.Context(), lock.Keys()[2], redis.Z{Score: dead, Member: other}).Err())
		require.False(t, must(lock.TryLock(t.Context())), "it is first")
		require.NoError(t, lock.Lock(t.Context(), rlock.Wait(aLongTime)), "nobody announces that, so the script says when")
		require.False(t, float64(time.Now().UnixMilli()) < dead-100, "it had its time")
		require.NoError(t, lock.Unlock(t.Context()))
		eventually(t, "nothing is left", func() bool { return !leftIn(t, rdb, lock.Keys()) })
	})
}

// A process that dies with many waiters blocks the queue for one wait, not for one after the other. Those who live keep
// their places, and so do Java's, whose deadlines say nothing of who is alive.
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
		java := rdb.ZScore(ctx, lock.Keys()[2], "living:1").Val() + 300000 // as Redisson makes it, of the one ahead
		require.NoError(t, rdb.RPush(ctx, lock.Keys()[1], other).Err())
		require.NoError(t, rdb.ZAdd(ctx, lock.Keys()[2], redis.Z{Score: java, Member: other}).Err())
		require.Negative(t, ask("living:2"))
		for minute := range 7 { // in which the dead say nothing, and the living ask
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

func TestFairWaitersThatDiedAreEvictedWhileTheLockIsHeld(t *testing.T) {
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

func TestALivingFairWaiterKeepsItsPlaceHoweverLongItWaits(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := newClient(t, rdb, rlock.WithPollInterval(50*time.Millisecond), rlock.WithFairWait(10*time.Second))
	holder := client.NewFairLock(newName())
	require.NoError(t, holder.Lock(t.Context()))
	waiting := async(func() error { return holder.Lock(t.Context()) })
	eventually(t, "it queues", func() bool { return len(queued(t, rdb, holder)) == 1 })
	me := queued(t, rdb, holder)[0]
	for range 3 { // as if all of its time had passed
		require.NoError(t, rdb.ZAdd(t.Context(), holder.Keys()[2], redis.Z{Score: 1, Member: me}).Err())
		eventually(t, "it renews its deadline", func() bool {
			return rdb.ZScore(t.Context(), holder.Keys()[2], me).Val() > float64(time.Now().Add(9*time.Second).UnixMilli())
		})
		require.Equal(t, []string{me}, queued(t, rdb, holder))
	}
	require.NoError(t, rdb.Del(t.Context(), holder.Keys()[1], holder.Keys()[2]).Err())
	eventually(t, "one that was thrown out queues again", func() bool { return len(queued(t, rdb, holder)) == 1 })
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, within(t, "it gets the lock", waiting))
	require.NoError(t, holder.Unlock(t.Context()))
}

// A free lock whose head is slow to take it must not have the others ask all the time.
func TestWaitersBehindASlowHeadDoNotPoll(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := newClient(t, rdb).NewFairLock(newName())
	require.NoError(t, rdb.RPush(t.Context(), lock.Keys()[1], other).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), lock.Keys()[2],
		redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: other}).Err())
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	require.ErrorIs(t, lock.Lock(t.Context(), rlock.Wait(time.Second)), rlock.ErrNotAcquired)
	require.LessOrEqual(t, stats(t, rdb)["evalsha"], 4, "once, once subscribed, and to leave")
}

// Redisson's testWaitTimeoutDrift: whoever comes and goes leaves no time behind.
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
		eventually(t, "and others come and go", func() bool { return len(queued(t, rdb, holder)) == 1 })
		for _, z := range rdb.ZRangeWithScores(t.Context(), holder.Keys()[2], 0, -1).Val() {
			most := time.Now().Add(time.Minute + 5*time.Minute + time.Second).UnixMilli()
			require.LessOrEqual(t, int64(z.Score), most, "its lease and its wait")
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
				inside++ // the lock is what makes this no race
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

func TestTheWaitingProcessOfAKilledOneIsServed(t *testing.T) {
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

func TestAFairWaiterLeavesTheQueueHoweverLongTheOutage(t *testing.T) {
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
	<-time.After(50 * time.Millisecond) // until it sleeps: with nothing under way there is nothing unanswered
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

// A holder's lease of an hour must not make a dead waiter's place last for an hour.
func TestADeadFairWaiterDoesNotOutlastALongLease(t *testing.T) {
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

// With short leases and many waiters only the head watches the lease.
func TestFairWaitersBehindTheHeadLeaveTheLeaseAlone(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := newClient(t, rdb).NewFairLock(newName())
	const n = 60
	done := make(chan error, n)
	for range n {
		go func() { done <- lock.Lock(t.Context(), rlock.Lease(50*time.Millisecond)) }() // and lets it run out
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
