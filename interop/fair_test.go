package interop_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func fairDeadlines(name string) string { return derived("redisson_lock_timeout", name) }

// inLine returns the waiters for a fair lock, the next one first, and the deadline of each, in Unix ms.
func inLine(tb testing.TB, rdb *redis.Client, name string) (waiters []string, deadlines []float64) {
	tb.Helper()
	var queue *redis.StringSliceCmd
	var scores *redis.ZSliceCmd
	_, err := rdb.TxPipelined(context.Background(), func(tx redis.Pipeliner) error {
		queue = tx.LRange(context.Background(), derived("redisson_lock_queue", name), 0, -1)
		scores = tx.ZRangeWithScores(context.Background(), fairDeadlines(name), 0, -1)
		return nil
	})
	require.NoError(tb, err)
	byWaiter := make(map[string]float64)
	for _, z := range scores.Val() {
		byWaiter[z.Member.(string)] = z.Score
	}
	require.Len(tb, byWaiter, len(queue.Val()), "every waiter in the queue has a deadline, and nobody else")
	for _, waiter := range queue.Val() {
		require.Contains(tb, byWaiter, waiter)
		deadlines = append(deadlines, byWaiter[waiter])
	}
	return queue.Val(), deadlines
}

// openFair opens a Redisson client for fair locks.
func openFair(tb testing.TB, j *jvm, address string, s settings) *redissonClient {
	tb.Helper()
	s.Watchdog = watchdogOf(j.version)
	if !j.version.atLeast(3, 46) {
		s.FairWait = 0
	}
	return j.open(tb, s, address)
}

// bargers are newcomers that keep trying to get a lock while others wait for it.
type bargers struct {
	stop chan struct{}
	got  []<-chan []string // successes and errors
}

func barge(hands ...hand) bargers {
	b := bargers{stop: make(chan struct{})}
	for _, h := range hands {
		got := make(chan []string, 1)
		b.got = append(b.got, got)
		go func() {
			var all []string
			defer func() { got <- all }()
			for {
				select {
				case <-b.stop:
					return
				case <-time.After(time.Millisecond):
				}
				if ok, err := h.try(); ok || err != nil {
					all = append(all, fmt.Sprintf("%v %s: %v, %v", time.Now().UnixMilli(), h.language, ok, errors.Join(err, h.unlock())))
				}
			}
		}()
	}
	return b
}

// refused stops the newcomers, and requires that none of them ever got the lock.
func (b bargers) refused(t *testing.T) {
	t.Helper()
	close(b.stop)
	for _, got := range b.got {
		require.Empty(t, within(t, "the newcomers stop", got), "nobody overtakes the queue")
	}
}

func TestFairQueueOfBothLanguagesIsServedInOrder(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		// Each waiter in Java listens on a channel of its own. By default, Redisson opens a connection for every 5 channels.
		java := openFair(t, sharedJVM(t, v), server.Addr, settings{More: map[string]any{"subscriptionsPerConnection": 50}})
		client := newClient(t, rdb, tune.PollInterval(time.Hour), rlock.WithWatchdogTimeout(watchdogOf(v)))
		lock := client.NewFairLock(name)
		holder := goHand(t.Context(), lock)
		holder.lock(t)

		const n = 100
		type turn struct {
			waiter int
			err    error
		}
		served := make(chan turn, n)
		waiters := make([]hand, n)
		for i := range waiters {
			waiters[i] = goHand(t.Context(), lock)
			if i%2 == 1 {
				waiters[i] = javaHand(java.thread(i).lock("fair", name))
			}
			asked := waiters[i].ask()
			go func() { served <- turn{i, <-asked} }()
			queued(t, rdb, name, int64(i+1))
		}
		_, deadlines := inLine(t, rdb, name)
		require.IsIncreasing(t, deadlines)

		newcomers := barge(goHand(t.Context(), lock), javaHand(java.thread(n).lock("fair", name)))
		holder.release(t)
		for i := range waiters {
			next := within(t, "the next one is served", served)
			require.NoError(t, next.err)
			require.Equal(t, i, next.waiter, "the order of arrival")
			if i == n-1 {
				newcomers.refused(t) // the queue is empty now, so they could get the lock
			}
			waiters[i].release(t)
		}
		require.Empty(t, keysOf(t, rdb))
	})
}

// fairLeaver is a waiter for a fair lock that gives up.
type fairLeaver struct {
	name  string
	wait  time.Duration // by how much the deadlines behind it move; waiters in Go move nobody
	start func(ctx context.Context, inGo *rlock.Lock, inJava *javaLock) (left <-chan error, leave func())
}

// fairLeavers returns one leaver per way to give up. Their waits leave others enough time to queue behind them.
func fairLeavers() []fairLeaver {
	const timeout = 6 * time.Second
	return []fairLeaver{
		{"Go, the context ends", 0, func(
			ctx context.Context, inGo *rlock.Lock, _ *javaLock,
		) (<-chan error, func()) {
			ctx, cancel := context.WithCancel(rlock.WithOwner(ctx))
			return async(func() error { return inGo.Lock(ctx) }), cancel
		}},
		{"Go, the wait ends", 0, func(
			ctx context.Context, inGo *rlock.Lock, _ *javaLock,
		) (<-chan error, func()) {
			return goHand(ctx, inGo, rlock.Wait(timeout)).ask(), func() {}
		}},
		{"Java, the wait ends", timeout, func(
			_ context.Context, _ *rlock.Lock, inJava *javaLock,
		) (<-chan error, func()) {
			asked := inJava.TryLockAsync(wait(timeout))
			return async(func() error {
				got := <-asked
				if got.Value {
					return nil
				}
				return cmp.Or(got.Err, rlock.ErrNotAcquired)
			}), func() {}
		}},
	}
}

// TestFairWaiterThatGivesUpLeavesQueue checks that such a waiter leaves nothing in Redis. In Java, the deadlines of the
// waiters behind it move forward.
func TestFairWaiterThatGivesUpLeavesQueue(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for _, leaver := range fairLeavers() {
			t.Run(leaver.name, func(t *testing.T) {
				t.Parallel()
				server, name := redistest.Start(t), newName()
				rdb := server.Client(t)
				java := openFair(t, sharedJVM(t, v), server.Addr, settings{})
				lock := newClient(t, rdb, rlock.WithWatchdogTimeout(watchdogOf(v))).NewFairLock(name)
				holder := goHand(t.Context(), lock)
				holder.lock(t)
				thread := func(n int) *javaLock { return java.thread(n).lock("fair", name) }
				others := []hand{javaHand(thread(1)), javaHand(thread(3)), goHand(t.Context(), lock)}
				asked := []<-chan error{others[0].ask()}
				queued(t, rdb, name, 1)
				left, leave := leaver.start(t.Context(), lock, thread(2))
				queued(t, rdb, name, 2)
				for i, other := range others[1:] {
					asked = append(asked, other.ask())
					queued(t, rdb, name, int64(3+i))
				}
				before, deadlines := inLine(t, rdb, name)
				leave()
				require.ErrorIs(t, within(t, "the leaver gives up", left), rlock.ErrNotAcquired)
				eventually(t, "the leaver has left the queue", func() bool { return rdb.ZCard(t.Context(), fairDeadlines(name)).Val() == 3 })
				after, hastened := inLine(t, rdb, name)
				require.Equal(t, []string{before[0], before[2], before[3]}, after)
				require.InDelta(t, deadlines[0], hastened[0], 0, "the deadline of the waiter ahead stays")
				require.InDelta(t, deadlines[2]-float64(leaver.wait.Milliseconds()), hastened[1], 0)

				holder.release(t)
				for i, other := range others {
					other.granted(t, asked[i])
					other.release(t)
				}
				require.Empty(t, keysOf(t, rdb))
			})
		}
	})
}

// leaveGhost lets a thread wait for a fair lock without other waiters, and interrupts it. It returns the entry that stays in
// the queue.
func leaveGhost(t *testing.T, rdb *redis.Client, thread *javaThread, name string) string {
	t.Helper()
	asked := thread.lock("fair", name).LockAsync(interruptibly)
	queued(t, rdb, name, 1)
	waiters, _ := inLine(t, rdb, name)
	subscribed(t, rdb, lockChannel(name)+":"+waiters[0], 1)
	<-time.After(500 * time.Millisecond) // until it sleeps: a pending command may still acquire the lock
	err := thread.InterruptUntil(t, asked)
	require.True(t, isInterrupted(err), "%v", err)
	left, _ := inLine(t, rdb, name)
	require.Equal(t, waiters, left, "the waiter stays queued")
	require.Equal(t, []string{thread.Holder(t)}, left)
	return left[0]
}

// TestInterruptedFairWaiterOfJavaBlocksUntilDeadline checks that the queue waits for an interrupted waiter in Java until its
// deadline, and no longer, because Redisson leaves it in the queue. The test moves the deadline, which is minutes away.
func TestInterruptedFairWaiterOfJavaBlocksUntilDeadline(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		java := openFair(t, sharedJVM(t, v), server.Addr, settings{})
		lock := newClient(t, rdb, tune.PollInterval(time.Hour)).NewFairLock(name)
		holder, inGo := goHand(t.Context(), lock), goHand(t.Context(), lock)
		holder.lock(t)
		ghost := leaveGhost(t, rdb, java.thread(1), name)

		deadline := time.Now().Add(time.Second).Truncate(time.Millisecond)
		require.NoError(t, rdb.ZAdd(t.Context(), fairDeadlines(name),
			redis.Z{Score: float64(deadline.UnixMilli()), Member: ghost}).Err())
		holder.release(t)
		inGo.lock(t)
		require.False(t, time.Now().Before(deadline), "granted before the deadline of the interrupted waiter")
		inGo.release(t)
		require.Empty(t, keysOf(t, rdb))
	})
}
