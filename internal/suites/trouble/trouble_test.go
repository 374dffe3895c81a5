package trouble

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file tests owners, waiters and closing clients while Redis does not reply.

func TestALostGrantDoesNotComeBack(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick())
	held := f.Proxy.HoldRequest(1, testkit.Runs("acquire")) // go-redis times out, and the retry is granted
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	_ = hold.Done()
	require.NoError(t, testkit.Second(f.Lock.ForceUnlock(t.Context())))
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	testkit.Eventually(t, "nothing of it can come any more", func() bool { return testkit.Remains(f.Client) == 0 })
	n := f.Proxy.Count(testkit.Runs("acquire"))
	held.Release()
	testkit.Eventually(t, "the delayed acquire arrives", func() bool { return f.Proxy.Count(testkit.Runs("acquire")) == n+1 })
	testkit.Stays(t, "no holder comes back", func() bool { return f.Count() == "0" })
}

func TestALateGrantIsReleasedHoweverLongTheOutage(t *testing.T) {
	t.Parallel()
	var network testkit.Outage
	f := testkit.NewFaulty(t, &redis.Options{Dialer: network.Dial, DialerRetries: 1}, rlock.WithCommandTimeout(300*time.Millisecond))
	held := f.Proxy.HoldReply(1, testkit.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := testkit.Async(func() error { return f.Lock.Lock(ctx, rlock.Lease(time.Hour)) })
	testkit.Within(t, "Redis has granted the lock", held.Met())
	cancel()
	require.ErrorIs(t, testkit.Within(t, "the call returns", locking), context.Canceled)
	network.Down.Store(true)
	held.Release()
	<-time.After(time.Second) // several command timeouts
	require.Equal(t, "1", f.Count())
	network.Down.Store(false)
	testkit.Eventually(t, "the late grant is released", func() bool { return f.Count() == "0" })
}

// TestAnUnlockDuringAReentryThatFails has one goroutine of an owner ask for a longer lease, and another one unlock meanwhile. Then the first
// one gets an error, so that nothing is left to unlock.
func TestAnUnlockDuringAReentryThatFails(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	require.NoError(t, f.Lock.Lock(ctx, rlock.Lease(time.Minute)))
	held := f.Proxy.HoldRequest(1, testkit.Runs("renew"))
	reentering := testkit.Async(func() error { return f.Lock.Lock(ctx, rlock.Lease(time.Hour)) })
	testkit.Within(t, "the re-entry is under way", held.Met())
	require.NoError(t, f.Lock.Unlock(ctx), "it does not wait for that")
	cancel()
	require.Error(t, testkit.Within(t, "the re-entry ends", reentering))
	held.Release()
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
	require.NoError(t, f.Other.Unlock(t.Context()))
}

func TestASingleAttemptDoesNotWaitForItsOwnersWaits(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	owner := rlock.WithOwner(ctx)
	try := func() <-chan error {
		return testkit.Async(func() error { return testkit.Second(f.Lock.TryAcquire(owner)) })
	}
	require.NoError(t, f.Other.Lock(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Lock.Lock(ctx) })
	testkit.Eventually(t, "a stranger waits", func() bool { return testkit.Waiting(f.Lock) == 1 })
	wg.Go(func() { _ = f.Lock.Lock(owner) })
	testkit.Eventually(t, "the owner waits behind the stranger", func() bool { return testkit.Waiting(f.Lock) == 2 })
	require.ErrorIs(t, testkit.Within(t, "TryAcquire returns", try()), rlock.ErrNotAcquired)
	cancel()
	wg.Wait()

	for _, behind := range []bool{false, true} {
		owner = rlock.WithOwner(t.Context()) // a new context, not nested in the previous one
		ctx, cancel = context.WithCancel(owner)
		f.Proxy.Freeze()
		waiters := 1
		if behind {
			wg.Go(func() { _ = f.Lock.Lock(rlock.WithOwner(ctx)) })
			testkit.Eventually(t, "another owner waits", func() bool { return testkit.Waiting(f.Lock) == waiters })
			waiters++
		}
		wg.Go(func() { _ = f.Lock.Lock(ctx) })
		testkit.Eventually(t, "the owner waits", func() bool { return testkit.Waiting(f.Lock) == waiters })
		err := testkit.Within(t, "TryAcquire returns", try())
		require.ErrorIs(t, err, rlock.ErrUnavailable)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis replied to nobody")
		cancel()
		wg.Wait()
		f.Proxy.Thaw()
	}
	require.NoError(t, f.Other.Unlock(t.Context()))
}

func TestSilenceIsNotContention(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithCommandTimeout(300*time.Millisecond))
	f.Proxy.Freeze()
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			ok, err := f.Lock.TryLock(t.Context(), rlock.Wait(time.Duration(i+1)*50*time.Millisecond))
			if ok || err == nil {
				t.Errorf("waiter %d: %v, %v, although no reply said that the lock is held", i, ok, err)
			}
		})
	}
	wg.Wait()
	f.Proxy.Thaw()
}

func TestAReentryIsNeverRefused(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	require.NoError(t, f.Lock.Lock(ctx))
	held := f.Proxy.HoldReply(1, testkit.Runs("renew"))
	trying := make(chan bool, 1)
	go func() {
		ok, err := f.Lock.TryLock(ctx, rlock.Wait(10*time.Millisecond), rlock.Lease(time.Hour))
		if err != nil {
			t.Error(err)
		}
		trying <- ok
	}()
	testkit.Within(t, "Redis has replied", held.Met())
	<-time.After(100 * time.Millisecond) // the wait has ended
	held.Release()
	require.True(t, testkit.Within(t, "TryLock returns", trying), "the first attempt runs to completion")
	require.NoError(t, f.Lock.Unlock(ctx))
	require.NoError(t, f.Lock.Unlock(ctx))
}

func TestAWaitEndsWhileAllConnectionsAreBusy(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, &redis.Options{PoolSize: 2})
	held := f.Proxy.HoldReply(1, testkit.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := testkit.Async(func() error { return f.Lock.Lock(ctx) })
	testkit.Within(t, "an acquire hangs", held.Met())
	trying := testkit.Async(func() error {
		return testkit.Second(f.Client.NewLock(testkit.NewName()).TryLock(t.Context(), rlock.Wait(100*time.Millisecond)))
	})
	err := testkit.Within(t, "the wait ends", trying)
	require.ErrorIs(t, err, rlock.ErrUnavailable, "nothing was sent")
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	cancel()
	require.Error(t, testkit.Within(t, "the call returns", locking))
	held.Release()
}

func TestRenewalsDoNotStarve(t *testing.T) {
	t.Parallel()
	for what, opt := range map[string]*redis.Options{
		"PoolSize":       {PoolSize: 3},
		"MaxActiveConns": {PoolSize: 10, MaxActiveConns: 3},
	} {
		for _, script := range []string{"acquire", "count", "inspect"} {
			t.Run(what+", "+script, func(t *testing.T) {
				t.Parallel()
				f := testkit.NewFaulty(t, opt, rlock.WithWatchdogTimeout(3*time.Second))
				hold, err := f.Lock.Acquire(t.Context())
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				owners := make([]context.Context, 6)
				locks := make([]*rlock.Lock, 6)
				for i := range owners {
					owners[i] = rlock.WithOwner(ctx) // siblings, not nested
					locks[i] = testkit.MakeLock("write", f.Client, testkit.NewName())
					if script == "count" {
						require.NoError(t, locks[i].Lock(owners[i], rlock.Lease(time.Minute)))
					}
				}
				held := f.Proxy.HoldReply(-1, testkit.Runs(script))
				for i, owner := range owners {
					wg.Go(func() {
						if script == "inspect" {
							_, _ = locks[i].IsLocked(owner)
						} else {
							_, _ = locks[i].TryLock(owner)
						}
					})
				}
				testkit.Within(t, "one call hangs", held.Met())
				for range 4 {
					before := hold.Deadline()
					testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
				}
				require.NoError(t, hold.Err())
				cancel()
				wg.Wait()
				held.Release()
				require.NoError(t, hold.Unlock(t.Context()))
			})
		}
	}
}

func TestTheCommandTimeoutBoundsARedisClientWithoutReadTimeout(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, &redis.Options{ReadTimeout: -1, PoolSize: 3}, rlock.WithCommandTimeout(200*time.Millisecond))
	f.Proxy.SwallowReply(2, testkit.Runs("acquire"))
	for range 2 {
		require.Error(t, testkit.Second(f.Lock.TryLock(t.Context())))
	}
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Wait(testkit.ALongTime)), "no abandoned call leaves the lock held")
	require.NoError(t, f.Other.Unlock(t.Context()))
	require.NoError(t, f.Lock.Lock(t.Context()), "no connection is missing from the pool")
	f.Proxy.SwallowReply(-1, testkit.Runs("release"))
	require.NoError(t, f.Client.Close())
	unlocking := testkit.Async(func() error { return f.Lock.Unlock(t.Context()) })
	require.Error(t, testkit.Within(t, "an unlock after Close returns", unlocking))

	cluster := redis.NewClusterClient(&redis.ClusterOptions{ReadTimeout: -1})
	defer cluster.Close()
	require.ErrorIs(t, testkit.Second(rlock.New(cluster)), rlock.ErrInvalidOption)
}

func TestAPartialUnlockAfterTheDeadlineIsALoss(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx := rlock.WithOwner(t.Context())
	var holds [3]*rlock.Hold
	for i := range holds {
		var err error
		holds[i], err = f.Lock.Acquire(ctx, rlock.Lease(time.Second))
		require.NoError(t, err)
	}
	f.Proxy.Freeze()
	testkit.Within(t, "the lease ends", holds[0].Done())
	require.ErrorIs(t, holds[0].Unlock(ctx), rlock.ErrLost)
	f.Proxy.Thaw()
}

func TestCloseIsBoundedAndEndsEveryWait(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, &redis.Options{ReadTimeout: 3 * time.Second}, rlock.WithCommandTimeout(400*time.Millisecond))
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	f.Proxy.Freeze()
	locking := make(chan error, 4)
	for range 4 {
		go func() { locking <- f.Lock.Lock(ctx) }()
	}
	n := f.Proxy.Opened()
	testkit.Eventually(t, "the waiters call Redis, and the subscription connects", func() bool { return f.Proxy.Opened() > n+1 })
	passed := redistest.Stopwatch(t)
	require.NoError(t, f.Client.Close())
	require.Less(t, passed(), 2*time.Second)
	for range 4 {
		require.ErrorIs(t, testkit.Within(t, "the wait ends", locking), rlock.ErrClosed)
	}
	require.Less(t, passed(), 2500*time.Millisecond, "no waiter waits for the redis client")
	f.Proxy.Thaw()
}

func TestForceUnlockEndsAGrantWhoseReplyIsInFlight(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	held := f.Proxy.HoldReply(1, testkit.Runs("acquire"))
	acquiring := make(chan *rlock.Hold, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		hold, err := f.Lock.Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		acquiring <- hold
	}()
	testkit.Within(t, "Redis has granted the lock", held.Met())
	require.NoError(t, testkit.Second(f.Lock.ForceUnlock(t.Context())))
	held.Release()
	hold := testkit.Within(t, "the lock is acquired", acquiring)
	require.NoError(t, hold.Err())
	require.Equal(t, "1", f.Count(), "the returned hold was granted after the force unlock")
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestALateReplyToACancelledQueryIsDiscarded(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	held := f.Proxy.HoldReply(1, testkit.Runs("inspect"))
	ctx, cancel := context.WithCancel(t.Context())
	querying := testkit.Async(func() error { return testkit.Second(f.Lock.IsLocked(ctx)) })
	testkit.Within(t, "Redis has replied", held.Met())
	cancel()
	require.ErrorIs(t, testkit.Within(t, "the query returns", querying), context.Canceled)
	held.Release()
	require.NoError(t, f.Client.Close()) // waits for the reply
}

func TestForceUnlockAffectsNoOtherName(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithCommandTimeout(testkit.ALongTime))
	for _, forces := range []int{1, 63} {
		held := f.Proxy.HoldReply(1, testkit.Runs("acquire"))
		trying := testkit.Async(func() error {
			return testkit.Second(f.Lock.TryAcquire(rlock.WithOwner(t.Context()), rlock.Lease(time.Minute)))
		})
		testkit.Within(t, "Redis has granted the lock", held.Met())
		for range forces {
			require.NoError(t, testkit.Second(f.Client.NewLock("another").ForceUnlock(t.Context())))
		}
		held.Release()
		require.NoError(t, testkit.Within(t, "the lock is acquired", trying))
		require.NoError(t, testkit.Second(f.Lock.ForceUnlock(t.Context())))
	}
}

func TestAReentryReturnsTheCallersErrors(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithCommandTimeout(2*time.Second))
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, f.Lock.Lock(owner, rlock.Lease(time.Minute)))
	held := f.Proxy.HoldReply(1, testkit.Runs("renew"))
	because := errors.New("because")
	ctx, cancel := context.WithCancelCause(owner)
	locking := testkit.Async(func() error { return f.Lock.Lock(ctx, rlock.Lease(time.Hour)) })
	testkit.Within(t, "Redis has replied", held.Met())
	cancel(because)
	err := testkit.Within(t, "the call returns", locking)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, because)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired, "its owner holds the lock")
	held.Release()

	f.Proxy.Freeze()
	for what, err := range map[string]error{
		"a wait":             testkit.Second(f.Lock.TryLock(owner, rlock.Lease(time.Hour), rlock.Wait(500*time.Millisecond))),
		"a single attempt":   testkit.Second(f.Lock.TryLock(owner, rlock.Lease(time.Hour))),
		"without owner":      testkit.Second(f.Client.NewLock(testkit.NewName()).TryLock(t.Context())),
		"background context": testkit.Second(f.Client.NewLock(testkit.NewName()).TryLock(context.Background())),
	} {
		require.ErrorIs(t, err, rlock.ErrUnavailable, what)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: no context of the caller has ended", what)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired, what)
	}
	f.Proxy.Thaw()
	require.NoError(t, f.Lock.Unlock(owner))
}

func TestALeaseShorterThanTheRoundTripDoesNotSpin(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	f.Proxy.Delay(3 * time.Millisecond)
	require.Error(t, f.Lock.Lock(t.Context(), rlock.Lease(time.Millisecond), rlock.Wait(2*time.Second)))
	require.Less(t, f.Proxy.Count(testkit.Runs("acquire")), 100)
}
