package interop_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// deadFairWait is how long a fair lock waits for a dead waiter: the minimum that rlock allows.
const deadFairWait = 10 * time.Second

// startFairWaiter starts a process that waits for a fair lock. It returns a function that kills the process.
func startFairWaiter(t *testing.T, v version, language, address, name string) (kill func()) {
	t.Helper()
	if language == "Go" {
		waiter := startChild(t, "hold", holding{
			Addr: address, Kind: "fair", Name: name, Watchdog: time.Minute, FairWait: deadFairWait,
		})
		waiter.say("lock")
		return waiter.kill
	}
	own := newJVM(t, v)
	waiter := openFair(t, own, address, settings{FairWait: deadFairWait}).thread(1).lock("fair", name)
	if v.atLeast(3, 46) {
		waiter.LockAsync()
	} else {
		waiter.TryLockAsync(wait(deadFairWait)) // these versions wait 5 min for a dead waiter without a wait
	}
	return own.Kill
}

// TestKilledFairWaiterIsSkipped checks that a killed waiter blocks the queue until its deadline. Until then nobody overtakes
// it. Then the live waiters are served in the order of arrival.
func TestKilledFairWaiterIsSkipped(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for _, dead := range []string{"Go", "Java"} {
			t.Run(dead, func(t *testing.T) {
				t.Parallel()
				server, name := redistest.Start(t), newName()
				rdb := server.Client(t)
				java := openFair(t, sharedJVM(t, v), server.Addr, settings{FairWait: deadFairWait})
				client := newClient(t, rdb, rlock.WithWatchdogTimeout(4*time.Second), rlock.WithFairWait(deadFairWait))
				lock := client.NewFairLock(name)
				holder := goHand(t.Context(), lock)
				holder.lock(t)
				kill := startFairWaiter(t, v, dead, server.Addr, name)
				queued(t, rdb, name, 1)
				_, deadlines := inLine(t, rdb, name)
				deadline := time.UnixMilli(int64(deadlines[0]))
				// A waiter in Go comes first behind a dead waiter in Go: see the next test.
				alive := [2]hand{goHand(t.Context(), lock), javaHand(java.thread(1).lock("fair", name))}
				if dead == "Java" {
					alive[0], alive[1] = alive[1], alive[0]
				}
				first := alive[0].ask()
				queued(t, rdb, name, 2)
				second := alive[1].ask()
				queued(t, rdb, name, 3)
				kill()

				// Wait until shortly before the deadline. While the lock is free and its first waiter dead, Redisson's waiters
				// ask as fast as they can.
				<-time.After(time.Until(deadline) - time.Second)
				newcomers := barge(goHand(t.Context(), lock), javaHand(java.thread(2).lock("fair", name)))
				holder.release(t)
				alive[0].granted(t, first)
				require.False(t, time.Now().Before(deadline), "granted before the deadline of the dead waiter")
				newcomers.refused(t)
				alive[0].release(t)
				alive[1].granted(t, second)
				alive[1].release(t)
				require.Empty(t, keysOf(t, rdb))
			})
		}
	})
}

// TestLiveFairWaiterOfJavaKeepsPlaceBehindDeadOneOfGo checks a special case of deadlines. Redisson derives a deadline from
// the one ahead, so behind a waiter of rlock it looks like one of rlock's. But Redisson never renews it.
func TestLiveFairWaiterOfJavaKeepsPlaceBehindDeadOneOfGo(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		java := openFair(t, sharedJVM(t, v), server.Addr, settings{})
		lock := newClient(t, rdb, rlock.WithFairWait(deadFairWait), rlock.WithPollInterval(100*time.Millisecond)).NewFairLock(name)
		holder, inGo := goHand(t.Context(), lock), goHand(t.Context(), lock)
		holder.lock(t)
		kill := startFairWaiter(t, v, "Go", server.Addr, name)
		queued(t, rdb, name, 1)
		inJava := java.thread(1).lock("fair", name)
		gotJava := inJava.TryLockAsync(wait(deadFairWait))
		queued(t, rdb, name, 2)
		gotGo := inGo.ask()
		queued(t, rdb, name, 3)
		before, deadlines := inLine(t, rdb, name)
		kill()
		// Move all deadlines, so that the dead waiter's is half a second away.
		passed := math.Floor(deadlines[0]) - float64(time.Now().Add(500*time.Millisecond).UnixMilli())
		for _, waiter := range before {
			require.NoError(t, rdb.ZIncrBy(t.Context(), fairDeadlines(name), -passed, waiter).Err())
		}
		eventually(t, "the dead waiter is skipped", func() bool {
			return rdb.ZScore(t.Context(), fairDeadlines(name), before[0]).Err() != nil
		})
		after, _ := inLine(t, rdb, name)
		require.Equal(t, before[1:], after, "the live waiters keep their places")
		holder.release(t)
		got := within(t, "Java has the lock", gotJava)
		require.NoError(t, got.Err)
		require.True(t, got.Value)
		require.NoError(t, inJava.Unlock())
		inGo.granted(t, gotGo)
		inGo.release(t)
		require.Empty(t, keysOf(t, rdb))
	})
}

// TestHeldFairLockWithOnlyDeadWaiters checks an attempt on a held lock when only dead waiters are left in the queue. It
// clears the queue, and is refused as usual.
func TestHeldFairLockWithOnlyDeadWaiters(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		java := openFair(t, sharedJVM(t, v), server.Addr, settings{})
		lock := newClient(t, rdb, rlock.WithPollInterval(time.Hour)).NewFairLock(name)
		holder := javaHand(java.thread(1).lock("fair", name))
		holder.lock(t)
		leaveDead := func(thread int) {
			t.Helper()
			ghost := leaveGhost(t, rdb, java.thread(thread), name)
			require.NoError(t, rdb.ZAdd(t.Context(), fairDeadlines(name), redis.Z{Score: 1, Member: ghost}).Err())
		}
		leaveDead(2)
		goHand(t.Context(), lock).refused(t, "the lock is held")
		requireKeys(t, rdb, []string{name})
		leaveDead(3)
		next := goHand(t.Context(), lock)
		asked := next.ask()
		eventually(t, "the new waiter replaces the dead one", func() bool {
			waiters, _ := inLine(t, rdb, name)
			return len(waiters) == 1 && !strings.HasPrefix(waiters[0], java.ID)
		})
		holder.release(t)
		next.granted(t, asked)
		next.release(t)
		require.Empty(t, keysOf(t, rdb))
	})
}
