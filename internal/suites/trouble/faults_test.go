package trouble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

func TestAnAcquireWhoseReplyIsLostIsCountedOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		for _, times := range []int{1, 2} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				f := testkit.NewFaulty(t, testkit.Quick())
				fault := lose(f.Proxy, times, testkit.Runs("acquire"))
				require.NoError(t, f.Lock.Lock(t.Context()))
				require.Equal(t, "1", f.Count())
				require.Len(t, fault.Met(), times)
				require.Equal(t, times+1, f.Proxy.Count(testkit.Runs("acquire")), "go-redis must not send a command again")
				require.NoError(t, f.Lock.Unlock(t.Context()))
				f.Free("one unlock releases it")
				testkit.Eventually(t, "none of the lost commands can come any more", func() bool { return testkit.Remains(f.Client) == 0 })
				f.Free("and none has made a holder")
				require.Less(t, f.Proxy.Count(testkit.Runs("release")), 20)
			})
		}
	}
}

func TestATryLockWhoseReplyIsLostFailsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, testkit.Quick())
			lose(f.Proxy, 1, testkit.Runs("acquire"))
			ok, err := f.Lock.TryLock(t.Context())
			require.False(t, ok)
			require.Error(t, err, "the outcome is in doubt")
			require.NotErrorIs(t, err, rlock.ErrNotAcquired, "it is not contention")
			require.ErrorIs(t, f.Lock.Unlock(t.Context()), rlock.ErrNotHeld)
			require.NoError(t, f.Other.Lock(t.Context(), rlock.Wait(testkit.ALongTime)), "no leftover holder blocks the lock for a lease")
			require.NoError(t, f.Other.Unlock(t.Context()))
		})
	}
}

func TestAReleaseWhoseReplyIsLostReportsNoLoss(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			if how == "silent" {
				connect.NeedsGoRedis(t) // two replies that do not come take longer than the command timeout
			}
			f := testkit.NewFaulty(t, testkit.Quick())
			for range 5 {
				require.NoError(t, f.Lock.Lock(t.Context()))
				lose(f.Proxy, 2, testkit.Runs("release"))
				require.NoError(t, f.Lock.Unlock(t.Context()))
				f.Free("released")
			}
		})
	}
}

func TestAReentryWhoseReplyIsLostIsCountedOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, testkit.Quick())
			ctx, lock := rlock.WithOwner(t.Context()), testkit.MakeLock("write", f.Client, f.Lock.Name())
			require.NoError(t, lock.Lock(ctx))
			lose(f.Proxy, 2, testkit.Runs("count"))
			require.NoError(t, lock.Lock(ctx))
			require.Equal(t, 2, testkit.Must(lock.HoldCount(ctx)))

			lose(f.Proxy, 1, testkit.Runs("count"))
			_, err := lock.TryLock(ctx)
			require.Error(t, err, "a single attempt")
			require.Equal(t, 2, testkit.Must(lock.HoldCount(ctx)))

			lose(f.Proxy, 1, testkit.Runs("count"))
			require.NoError(t, lock.Unlock(ctx), "the client counts, so the partial release succeeds")
			require.NoError(t, lock.Unlock(ctx))
			f.Free("two locks, two unlocks")
		})
	}
}

func TestARenewalWhoseReplyIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithWatchdogTimeout(2*time.Second))
			hold, err := f.Lock.Acquire(t.Context())
			require.NoError(t, err)
			fault := lose(f.Proxy, 3, testkit.Runs("renew"))
			for range 3 {
				testkit.Within(t, "a renewal's reply is lost", fault.Met())
			}
			before := hold.Deadline()
			testkit.Eventually(t, "a later renewal succeeds", func() bool { return hold.Deadline().After(before) })
			require.NoError(t, hold.Err())
			require.Equal(t, "1", f.Count())
			require.NoError(t, hold.Unlock(t.Context()))
			f.Free("released")
		})
	}
}

func TestAnAcquireThatArrivesAfterItsReleaseCreatesNoHolder(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithCommandTimeout(time.Second))
	held := f.Proxy.HoldRequest(1, testkit.Runs("acquire"))
	require.NoError(t, f.Lock.Lock(t.Context()), "the retry gets the lock")
	require.NoError(t, f.Lock.Unlock(t.Context()))
	f.Free("released")
	n := f.Proxy.Count(testkit.Runs("acquire"))
	held.Release()
	testkit.Eventually(t, "the delayed acquire arrives", func() bool { return f.Proxy.Count(testkit.Runs("acquire")) == n+1 })
	require.NoError(t, f.Direct.Ping(t.Context()).Err())
	testkit.Stays(t, "no holder comes back", func() bool { return f.Count() == "0" })
}

func TestAnAcquireThatArrivesAfterItsCallerLeftCreatesNoHolder(t *testing.T) {
	t.Parallel()
	for what, timeout := range map[string]time.Duration{
		"while go-redis waits for the reply": 5 * time.Second,
		"after go-redis has given up":        500 * time.Millisecond,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, &redis.Options{ReadTimeout: timeout})
			held := f.Proxy.HoldRequest(1, testkit.Runs("acquire"))
			ctx, cancel := context.WithCancel(t.Context())
			locking := testkit.Async(func() error { return f.Lock.Lock(ctx) })
			testkit.Within(t, "the acquire is in flight", held.Met())
			cancel()
			require.ErrorIs(t, testkit.Within(t, "the call returns", locking), context.Canceled)
			if timeout < time.Second {
				testkit.Eventually(t, "the release is sent", func() bool { return f.Proxy.Count(testkit.Runs("release")) > 0 })
			}
			held.Release()
			testkit.Eventually(t, "the delayed acquire arrives", func() bool { return f.Proxy.Count(testkit.Runs("acquire")) == 1 })
			testkit.Eventually(t, "nothing is left of it", func() bool {
				return f.Proxy.Count(testkit.Runs("release")) > 0 && f.Count() == "0"
			})
			require.Equal(t, 1, f.Proxy.Count(testkit.Runs("acquire")))
		})
	}
}

func TestALateReleaseDoesNotFreeTheNextHold(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithCommandTimeout(time.Second))
	ctx := rlock.WithOwner(t.Context())
	held := f.Proxy.HoldRequest(1, testkit.Runs("release"))
	require.NoError(t, f.Lock.Lock(ctx))
	if err := f.Lock.Unlock(ctx); connect.Driver == "go-redis" { // others give a reply up in time to send the release again
		require.Error(t, err, "the release is in doubt")
	}
	require.ErrorIs(t, f.Lock.Unlock(ctx), rlock.ErrNotHeld, "the hold is over nevertheless")
	require.NoError(t, f.Lock.Lock(ctx), "the retry in the background frees the lock")
	n := f.Proxy.Count(testkit.Runs("release"))
	held.Release()
	testkit.Eventually(t, "the delayed release arrives", func() bool { return f.Proxy.Count(testkit.Runs("release")) == n+1 })
	testkit.Stays(t, "the next hold stays", func() bool { return f.Count() == "1" })
	require.NoError(t, f.Lock.Unlock(ctx))
}

func TestACallReturnsWhenItsContextEndsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	f.Server.Pause()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			passed := redistest.Stopwatch(t)
			_, err := f.Lock.TryLock(ctx)
			if took := passed(); took > 2*time.Second {
				t.Errorf("returned after %v", took)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, rlock.ErrUnavailable) || errors.Is(err, rlock.ErrNotAcquired) {
				t.Errorf("unexpected error: %v", err)
			}
		})
	}
	wg.Wait()
	f.Server.Resume()
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Wait(testkit.ALongTime)), "no leftover holder blocks the lock for a lease")
	require.NoError(t, f.Other.Unlock(t.Context()))
}

func TestAHoldSurvivesAnOutageShorterThanItsLease(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithWatchdogTimeout(3*time.Second))
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	f.Proxy.Freeze()
	renewed := hold.Deadline()
	testkit.Eventually(t, "half of the lease is over", func() bool { return time.Until(renewed) < 1500*time.Millisecond })
	f.Proxy.Thaw()
	testkit.Eventually(t, "it is renewed", func() bool { return hold.Deadline().After(renewed) })
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAHoldEndsAtItsDeadlineInALongOutage(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithWatchdogTimeout(time.Second), rlock.WithCommandTimeout(300*time.Millisecond))
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	f.Proxy.Freeze()
	deadline := hold.Deadline()
	testkit.Within(t, "the hold is over", hold.Done())
	require.False(t, time.Now().Before(deadline))
	require.WithinDuration(t, deadline, time.Now(), time.Second)
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.Error(t, hold.Unlock(t.Context()))
	f.Proxy.Thaw()
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
	require.NoError(t, f.Other.Unlock(t.Context()))
}

func TestALossIsLogged(t *testing.T) {
	t.Parallel()
	logger, log := testkit.Recording()
	rdb := redistest.Embedded(t)
	lock := testkit.NewClient(t, rdb, logger, rlock.WithWatchdogTimeout(300*time.Millisecond)).NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, rdb.Del(t.Context(), lock.Name()).Err())
	testkit.Eventually(t, "the loss is logged", func() bool { return log.Contains("lock lost while held") })
	require.Contains(t, log.String(), lock.Name())
	require.ErrorIs(t, lock.Unlock(t.Context()), rlock.ErrLost)
}

func TestALockWithoutALeaseGetsOne(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		for what, fields := range map[string][]any{
			"a lock":            {"71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:87", 1},
			"a read-write lock": {"mode", "read", "71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:-87", 1},
			"one that a client with an id of its own holds": {"mode", "write", "pod-7:1:87:write", 1, "pod-7:1:87", 2},
		} {
			lock := client.NewRWLock(testkit.NewName()).Writer()
			require.NoError(t, rdb.HSet(ctx, lock.Name(), fields...).Err())
			ok, err := lock.TryLock(ctx)
			require.NoError(t, err)
			require.False(t, ok)
			require.Greater(t, rdb.PTTL(ctx, lock.Name()).Val(), time.Second, what)
		}
		for what, fields := range map[string][]any{
			"a user":                       {"name", "Ada"},
			"settings":                     {"name", "Ada", "mode", "dark"},
			"settings of one field":        {"mode", "dark"},
			"settings with a mode of ours": {"name", "Ada", "mode", "write"},
			"sessions":                     {"71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:87", "online", "owner", "Ada"},
		} {
			for _, lock := range []*rlock.Lock{client.NewLock(testkit.NewName()), client.NewFairLock(testkit.NewName()), client.NewRWLock(testkit.NewName()).Writer()} {
				require.NoError(t, rdb.HSet(ctx, lock.Name(), fields...).Err())
				ok, err := lock.TryLock(ctx)
				require.NoError(t, err)
				require.False(t, ok)
				require.EqualValues(t, -1, rdb.PTTL(ctx, lock.Name()).Val(), "%s is not a lock, and gets no lease: %s", what, lock)
				left, err := lock.TTL(ctx)
				require.NoError(t, err)
				require.Negative(t, left)
				freed, err := lock.ForceUnlock(ctx)
				require.NoError(t, err)
				require.False(t, freed)
				require.Len(t, rdb.HGetAll(ctx, lock.Name()).Val(), len(fields)/2, "%s is not a lock, and stays: %s", what, lock)
			}
		}
	})
}

// TestAnUnlockByForceKnowsALock of every holder: of rlock, whatever the id of its client, and of Redisson, also in a transaction.
func TestAnUnlockByForceKnowsALock(t *testing.T) {
	t.Parallel()
	const id, transaction = "71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c", ":3f0c1f0e2a3b4c71b96ce827464f0e9d"
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx, client := t.Context(), testkit.NewClient(t, rdb)
		for what, fields := range map[string][]any{
			"a thread":                     {id + ":87", 1},
			"a task of Redisson":           {id + ":-87", 2},
			"an id with a colon":           {"pod-7:1:87", 1},
			"readers":                      {"mode", "read", id + ":87", 1, "pod-7:88", 2},
			"a writer that reads":          {"mode", "write", id + ":87:write", 1, id + ":87", 1},
			"a transaction":                {id + ":87" + transaction, 1},
			"a transaction with a letter":  {id + ":87:f" + transaction[2:], 1},
			"a transaction that writes":    {"mode", "write", id + ":87:write" + transaction, 1},
			"transactions that read":       {"mode", "read", id + ":87" + transaction, 1, id + ":88:a" + transaction[2:], 1},
			"a transaction without a mode": {id + ":87:write" + transaction, 1},
		} {
			locks := []*rlock.Lock{client.NewFairLock(testkit.NewName())}
			if fields[0] != "mode" { // which no plain lock has
				locks = append(locks, client.NewLock(testkit.NewName()))
			}
			for _, lock := range locks {
				require.NoError(t, rdb.HSet(ctx, lock.Name(), fields...).Err())
				require.NoError(t, rdb.PExpire(ctx, lock.Name(), time.Minute).Err())
				freed, err := lock.ForceUnlock(ctx)
				require.NoError(t, err)
				require.True(t, freed, "%s: %s", what, lock)
				require.Zero(t, rdb.Exists(ctx, lock.Name()).Val(), what)
			}
		}
		for _, c := range []struct {
			first string
			freed bool
		}{{"mode", true}, {"other", false}} {
			lock := client.NewFairLock(testkit.NewName())
			fields := []any{c.first, "read"}
			for i := range lua.MostFields {
				fields = append(fields, fmt.Sprintf("%s:%d", id, i), 1)
			}
			require.NoError(t, rdb.HSet(ctx, lock.Name(), fields...).Err())
			freed, err := lock.ForceUnlock(ctx)
			require.NoError(t, err)
			require.Equal(t, c.freed, freed, "many fields, and one that is %s", c.first)
		}
	})
}

func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, DialerRetries: 1})
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, rdb, logger, rlock.WithCommandTimeout(500*time.Millisecond))
	lock := client.NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context(), rlock.Lease(time.Second)))
	server.Kill()
	free := client.NewLock(testkit.NewName())
	_, err := free.TryLock(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = free.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired, "an unreachable Redis is not contention")
	require.Error(t, lock.Unlock(t.Context()))
	require.ErrorIs(t, lock.Unlock(t.Context()), rlock.ErrNotHeld)

	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	server.Run()
	require.NoError(t, testkit.Within(t, "a waiting Lock gets it when Redis is back", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}
