package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/tune"
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

// TestKilledFairWaiterIsSkipped checks that a killed waiter in Java blocks the queue until its deadline, and one in Go not at
// all. Nobody overtakes the queue. The live waiters are served in the order of arrival.
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
				client := newClient(t, rdb, rlock.WithWatchdogTimeout(4*time.Second), tune.FairWait(deadFairWait))
				lock := client.NewFairLock(name)
				holder := goHand(t.Context(), lock)
				holder.lock(t)
				kill := startFairWaiter(t, v, dead, server.Addr, name)
				queued(t, rdb, name, 1)
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
				deadline := time.Now() // of a dead waiter in Go: none
				if dead == "Java" {
					// While the lock is free and its first waiter dead, Redisson's waiters ask as fast as they can, so it is free only
					// shortly before the deadline.
					_, deadlines := inLine(t, rdb, name)
					deadline = time.UnixMilli(int64(deadlines[0]))
					<-time.After(time.Until(deadline) - time.Second)
				}
				newcomers := barge(goHand(t.Context(), lock), javaHand(java.thread(2).lock("fair", name)))
				passed := redistest.Stopwatch(t)
				holder.release(t)
				alive[0].granted(t, first)
				if dead == "Java" {
					require.False(t, time.Now().Before(deadline), "granted before the deadline of the dead waiter")
				} else {
					require.Less(t, passed(), 2*time.Second, "the dead waiter is passed over")
				}
				newcomers.refused(t)
				alive[0].release(t)
				alive[1].granted(t, second)
				alive[1].release(t)
				require.Empty(t, keysOf(t, rdb))
			})
		}
	})
}

// TestJavaPassesKilledWaiterOfGo checks that a killed waiter in Go is in the way of one in Java for 3 s from the release, and
// not until the deadline that it had.
func TestJavaPassesKilledWaiterOfGo(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		java := openFair(t, sharedJVM(t, v), server.Addr, settings{})
		lock := newClient(t, rdb).NewFairLock(name)
		holder, inGo := goHand(t.Context(), lock), goHand(t.Context(), lock)
		holder.lock(t)
		own := startChild(t, "hold", holding{Addr: server.Addr, Kind: "fair", Name: name, Watchdog: time.Minute})
		own.say("lock")
		queued(t, rdb, name, 1)
		inJava := java.thread(1).lock("fair", name)
		gotJava := inJava.TryLockAsync(wait(time.Minute))
		queued(t, rdb, name, 2)
		gotGo := inGo.ask()
		queued(t, rdb, name, 3)
		own.kill()
		passed := redistest.Stopwatch(t)
		holder.release(t)
		got := within(t, "Java has the lock", gotJava)
		require.NoError(t, got.Err)
		require.True(t, got.Value)
		require.Less(t, passed(), 9*time.Second, "3.21.3 is woken only when the waiter in Go asks")
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
		lock := newClient(t, rdb, tune.PollInterval(time.Hour)).NewFairLock(name)
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
