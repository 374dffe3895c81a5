package claims

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// awaitQueued waits until so many waiters are in the queue of a fair lock, and Redis would reach them all.
func awaitQueued(t *testing.T, rdb *redis.Client, lock *rlock.Lock, n int) {
	t.Helper()
	testkit.Eventually(t, "they queue and listen", func() bool {
		waiters := testkit.Queued(t, rdb, lock)
		if len(waiters) != n {
			return false
		}
		for _, waiter := range waiters {
			channel := testkit.Channel(lock) + ":" + waiter
			if rdb.PubSubNumSub(t.Context(), channel).Val()[channel] == 0 {
				return false
			}
		}
		return true
	})
}

// TestAFairHandOffCostsTwoCommands has eight callers take turns, each in a process of its own, or all in one. Each of them asks
// once, and releases once.
func TestAFairHandOffCostsTwoCommands(t *testing.T) {
	t.Parallel()
	for what, processes := range map[string]int{"eight processes": 8, "one process": 1} {
		for _, kind := range []string{"fair", "fenced fair"} {
			t.Run(what+", "+kind, func(t *testing.T) {
				t.Parallel()
				const callers, turns = 8, 25
				server := redistest.Start(t)
				admin := server.Client(t)
				first := testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), testkit.NewName())
				clients := make([]*rlock.Client, processes)
				for i := range clients {
					clients[i] = testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never))
				}
				run := func(turns int) {
					require.NoError(t, first.Lock(t.Context()))
					var wg sync.WaitGroup
					for i := range callers {
						lock := testkit.MakeLock(kind, clients[i%processes], first.Name())
						wg.Go(func() {
							for range turns {
								if err := lock.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
									t.Error(err)
								}
							}
						})
					}
					awaitQueued(t, admin, first, callers)
					require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
					require.NoError(t, first.Unlock(t.Context()))
					wg.Wait()
				}
				run(1) // they subscribe
				run(turns)
				calls := testkit.Stats(t, admin)
				perTurn := float64(calls["evalsha"]+calls["eval"]) / (callers * turns)
				t.Logf("%.2f commands, %.2f messages", perTurn, float64(calls["publish"])/(callers*turns))
				require.LessOrEqual(t, perTurn, 2.1)
				if processes == 1 {
					require.Less(t, calls["publish"], callers*turns/4, "a process needs no message from itself")
					if kind == "fair" {
						looks := float64(calls["lindex"]+calls["llen"]+calls["zcard"]+calls["hget"]+calls["zrem"]) / (callers * turns)
						require.Less(t, looks, 5.0, "the scripts look only once")
					}
				}
				testkit.Eventually(t, "nothing is left", func() bool { return !testkit.LeftIn(t, admin, testkit.Keys(first)) })
			})
		}
	}
}

func TestKilledFairProcessesCostLittle(t *testing.T) {
	t.Parallel()
	requireCost(t, 100*time.Millisecond, func() time.Duration { return costOfKilledFairProcesses(t) })
}

func costOfKilledFairProcesses(t *testing.T) time.Duration {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(t)
	holder := testkit.NewClient(t, server.Client(t)).NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(testkit.Never)))
	var children []*testkit.Child
	for i := range 3 {
		child := testkit.StartChild(t, server.Addr, "fair", holder.Name())
		child.Next()
		awaitQueued(t, rdb, holder, i+1)
		children = append(children, child)
	}
	next := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewFairLock(holder.Name())
	waiting := testkit.Async(func() error { return next.Lock(t.Context()) })
	awaitQueued(t, rdb, holder, 4)
	for _, child := range children {
		child.Kill()
	}
	testkit.Eventually(t, "Redis has noticed", func() bool {
		return len(rdb.PubSubChannels(t.Context(), testkit.Channel(holder)+":*").Val()) == 1
	})
	passed := redistest.Stopwatch(t)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the fourth has the lock", waiting))
	cost := passed()
	require.NoError(t, next.Unlock(t.Context()))
	return cost
}

// A process that is stopped is granted the lock, for its first term of 3 s. Then it is out of the queue.
func TestAStoppedFairProcessCostsItsFirstTermOnce(t *testing.T) {
	t.Parallel()
	requireCost(t, 3200*time.Millisecond, func() time.Duration { return costOfAStoppedFairProcess(t) })
}

func costOfAStoppedFairProcess(t *testing.T) time.Duration {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(t)
	holder := testkit.NewClient(t, server.Client(t)).NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(testkit.Never)))
	child := testkit.StartChild(t, server.Addr, "fair", holder.Name())
	child.Next()
	awaitQueued(t, rdb, holder, 1)
	got := make(chan *rlock.Hold, 2)
	for i := range 2 {
		lock := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewFairLock(holder.Name())
		go func() { testkit.SendTo(got)(lock.Acquire(t.Context())) }()
		awaitQueued(t, rdb, holder, i+2)
	}
	require.NoError(t, child.Cmd.Process.Signal(syscall.SIGSTOP))
	passed := redistest.Stopwatch(t)
	require.NoError(t, holder.Unlock(t.Context()))
	for range 2 {
		require.NoError(t, testkit.Within(t, "a waiter has the lock", got).Unlock(t.Context()))
	}
	return passed()
}

func TestAForceUnlockGivesAFairLockToTheFirstWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	client := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never))
	holder := client.NewFairLock(testkit.NewName())
	hold := testkit.Must(holder.Acquire(t.Context(), rlock.Lease(testkit.Never)))
	got := make(chan turn, 2)
	for i := range 2 {
		go func() {
			hold, err := client.NewFairLock(holder.Name()).Acquire(t.Context())
			got <- turn{i, hold, err, time.Now()}
		}()
		awaitQueued(t, rdb, holder, i+1)
	}
	require.True(t, testkit.Must(client.NewFairLock(holder.Name()).ForceUnlock(t.Context())))
	for i := range 2 {
		next := testkit.Within(t, "the next waiter has the lock", got)
		require.NoError(t, next.err)
		require.Equal(t, i, next.i)
		require.NoError(t, next.hold.Err(), "the unlock by force was before")
		require.NoError(t, next.hold.Unlock(t.Context()))
	}
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

func TestCutSubscriptionsOfFairWaitersCostLittle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	for range 5 {
		requireCost(t, 300*time.Millisecond, func() time.Duration {
			holder := testkit.NewClient(t, server.Client(t)).NewFairLock(testkit.NewName())
			require.NoError(t, holder.Lock(t.Context(), rlock.Lease(testkit.Never)))
			got := make(chan *rlock.Hold, 3)
			for i := range 3 {
				lock := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewFairLock(holder.Name())
				go func() { testkit.SendTo(got)(lock.Acquire(t.Context())) }()
				awaitQueued(t, rdb, holder, i+1)
			}
			require.NoError(t, rdb.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
			passed := redistest.Stopwatch(t)
			require.NoError(t, holder.Unlock(t.Context()))
			for range 3 {
				require.NoError(t, testkit.Within(t, "a waiter has the lock", got).Unlock(t.Context()))
			}
			return passed()
		})
	}
}

// behindTwoProcesses has two processes and then a client of this one wait for a fair lock.
func behindTwoProcesses(t *testing.T) (
	rdb *redis.Client, holder *rlock.Lock, children []*testkit.Child, next *rlock.Lock, waiting <-chan error,
) {
	t.Helper()
	server := redistest.Start(t)
	rdb = server.Client(t)
	holder = testkit.NewClient(t, server.Client(t)).NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(testkit.Never)))
	for i := range 2 {
		child := testkit.StartChild(t, server.Addr, "fair", holder.Name())
		child.Next()
		awaitQueued(t, rdb, holder, i+1)
		children = append(children, child)
	}
	next = testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewFairLock(holder.Name())
	waiting = testkit.Async(func() error { return next.Lock(t.Context()) })
	awaitQueued(t, rdb, holder, 3)
	return rdb, holder, children, next, waiting
}

// A process that is stopped is granted the lock for its first term. The waiter behind it was killed, so it watches nothing. The first
// waiter that lives does.
func TestAKilledFairProcessBehindAStoppedOneCostsNoMore(t *testing.T) {
	t.Parallel()
	rdb, holder, children, next, waiting := behindTwoProcesses(t)
	require.NoError(t, children[0].Cmd.Process.Signal(syscall.SIGSTOP))
	children[1].Kill()
	testkit.Eventually(t, "Redis has noticed", func() bool {
		return len(rdb.PubSubChannels(t.Context(), testkit.Channel(holder)+":*").Val()) == 2
	})
	passed := redistest.Stopwatch(t)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter that lives has the lock", waiting))
	require.Less(t, passed(), 3200*time.Millisecond+slack)
	require.NoError(t, next.Unlock(t.Context()))
}

// A waiter is killed that is the first one in the queue, and while it still stands there, the holder is killed, too. The waiter
// behind them watches the lease in place of the first one.
func TestAKilledFairProcessAndThenTheHolderCostALease(t *testing.T) {
	t.Parallel()
	rdb, first, children, next, waiting := behindTwoProcesses(t)
	children[1].Kill()
	testkit.Eventually(t, "Redis has noticed", func() bool {
		return len(rdb.PubSubChannels(t.Context(), testkit.Channel(first)+":*").Val()) == 2
	})
	asked := testkit.Stats(t, rdb)["llen"]
	require.NoError(t, first.Unlock(t.Context()))
	children[0].Answer()
	testkit.Eventually(t, "the last one has asked once more", func() bool { return testkit.Stats(t, rdb)["llen"] > asked })
	children[0].Kill()
	passed, lease := redistest.Stopwatch(t), testkit.Must(rdb.PTTL(t.Context(), testkit.Keys(first)[0]).Result())
	require.NoError(t, testkit.Within(t, "the waiter that lives has the lock", waiting))
	t.Logf("%v after the lease", passed()-lease)
	require.Less(t, passed()-lease, 100*time.Millisecond+slack)
	require.NoError(t, next.Unlock(t.Context()))
}
