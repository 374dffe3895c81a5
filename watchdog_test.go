package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestRenewalsAreBatched(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(6*time.Second), rlock.WithRenewalBatchSize(10))
	holds := make([]*rlock.Hold, 25)
	for i := range holds {
		var err error
		holds[i], err = f.client.NewLock(newName()).Acquire(t.Context())
		require.NoError(t, err)
	}
	before := make([]time.Time, len(holds))
	for i, hold := range holds {
		before[i] = hold.Deadline()
	}
	for i, hold := range holds {
		eventually(t, "each is renewed", func() bool { return hold.Deadline().After(before[i]) })
	}
	require.Equal(t, 3, f.proxy.Count(rlock.Runs("renew")), "a batch has ten holds")
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(t.Context()))
	}
}

func TestOneBrokenLockInABatchAffectsNoOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := newClient(t, rdb, rlock.WithWatchdogTimeout(500*time.Millisecond))
		var holds []*rlock.Hold
		var names []string
		for range 3 {
			names = append(names, newName())
			hold, err := client.NewLock(names[len(names)-1]).Acquire(t.Context())
			require.NoError(t, err)
			_ = hold.Done() // a loss of a watched hold is not logged
			holds = append(holds, hold)
		}
		require.NoError(t, rdb.Del(t.Context(), names[0]).Err())
		require.NoError(t, rdb.Set(t.Context(), names[1], "precious", 0).Err())
		for _, hold := range holds[:2] {
			within(t, "the holder is notified", hold.Done())
			require.ErrorIs(t, hold.Err(), rlock.ErrLost)
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		}
		before := holds[2].Deadline()
		eventually(t, "the other hold is renewed", func() bool { return holds[2].Deadline().After(before) })
		require.NoError(t, holds[2].Unlock(t.Context()))
	})
}

func TestUnlockedAndLeasedHoldsAreNotRenewed(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(300*time.Millisecond))
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, f.lock.Lock(ctx))
	require.NoError(t, f.lock.Lock(ctx))
	for range 2 {
		require.NoError(t, f.lock.Unlock(ctx))
	}
	hold, err := f.lock.Acquire(ctx, rlock.Lease(time.Second))
	require.NoError(t, err)
	within(t, "the lease ends", hold.Done())
	require.Zero(t, f.proxy.Count(rlock.Runs("renew")))
	eventually(t, "no renewal is planned", func() bool { return f.client.Remains() == 0 })
}

func TestNoRenewalIsSentDuringARelease(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(300*time.Millisecond))
	require.NoError(t, f.lock.Lock(t.Context()))
	held := f.proxy.HoldRequest(1, rlock.Runs("release"))
	unlocking := async(func() error { return f.lock.Unlock(t.Context()) })
	within(t, "the release is in flight", held.Met())
	renewals := f.proxy.Count(rlock.Runs("renew"))
	stays(t, "no renewal is sent during the release", func() bool { return f.proxy.Count(rlock.Runs("renew")) == renewals })
	held.Release()
	if err := within(t, "the unlock returns", unlocking); err != nil {
		require.ErrorIs(t, err, rlock.ErrLost, "the lease may have ended meanwhile")
	}
}

func TestAReleaseMayOvertakeARenewal(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(600*time.Millisecond))
	held := f.proxy.HoldRequest(-1, rlock.Runs("renew"))
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	within(t, "a renewal is in flight", held.Met())
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(time.Second)))
	held.Release()
	eventually(t, "the renewal arrives", func() bool { return f.proxy.Count(rlock.Runs("renew")) > 0 })
	within(t, "the hold ends", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
	require.NotErrorIs(t, hold.Err(), rlock.ErrLost, "a late reply does not affect an ended hold")
	ttl, err := f.other.TTL(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, time.Second, "the late renewal extends no other lease")
	require.NoError(t, f.other.Unlock(t.Context()))
}

func TestAPendingGrantIsNotRenewed(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(900*time.Millisecond))
	held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	acquiring := make(chan *rlock.Hold, 1)
	go func() {
		hold, err := f.lock.Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		acquiring <- hold
	}()
	within(t, "Redis has granted the lock", held.Met())
	stays(t, "a pending grant is not renewed", func() bool { return f.proxy.Count(rlock.Runs("renew")) == 0 })
	held.Release()
	hold := within(t, "the lock is acquired", acquiring)
	require.NoError(t, hold.Err())
	require.Less(t, time.Until(hold.Deadline()), 600*time.Millisecond, "the lease counts from before the call")
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAGrantThatArrivesAfterItsLeaseIsRetried(t *testing.T) { //nolint:tparallel // the subtests share a server
	t.Parallel()
	f := newFaulty(t, nil)
	for what, lock := range map[string]func(...rlock.AcquireOption) error{
		"Lock":    func(opts ...rlock.AcquireOption) error { return f.lock.Lock(t.Context(), opts...) },
		"TryLock": func(opts ...rlock.AcquireOption) error { return second(f.lock.TryLock(t.Context(), opts...)) },
	} {
		t.Run(what, func(t *testing.T) {
			held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
			locking := async(func() error { return lock(rlock.Lease(200 * time.Millisecond)) })
			within(t, "Redis has granted the lock", held.Met())
			eventually(t, "the lease ends", func() bool { return f.count() == "0" })
			held.Release()
			err := within(t, "the call returns", locking)
			if what == "TryLock" {
				require.ErrorContains(t, err, "too late", "there is no second attempt")
				require.NotErrorIs(t, err, rlock.ErrNotAcquired, "a late reply is not contention")
				require.NotErrorIs(t, err, rlock.ErrNotHeld, "there is nothing to unlock")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "1", f.count(), "the acquired lock is valid")
			require.NoError(t, f.lock.Unlock(t.Context()))
		})
	}
}

func TestMaxHoldEndsAHold(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		lock := newClient(t, rdb, rlock.WithMaxHold(300*time.Millisecond)).NewLock(newName())
		hold, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		other := newClient(t, rdb).NewLock(lock.Name())
		start := time.Now()
		within(t, "the hold ends", hold.Done())
		require.NoError(t, other.Lock(t.Context()))
		require.Less(t, time.Since(start), 5*time.Second, "the lock is released long before its lease ends")
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		require.ErrorContains(t, context.Cause(hold.Context()), "WithMaxHold")
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		require.NoError(t, other.Unlock(t.Context()))
	})
}

func TestADroppedHoldIsNoLongerRenewed(t *testing.T) {
	t.Parallel()
	logger, log := recording()
	rdb := redistest.Embedded(t)
	client := newClient(t, rdb, logger, rlock.WithWatchdogTimeout(500*time.Millisecond))
	lock := client.NewLock(newName())
	func() {
		outer, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		inner, err := lock.Acquire(outer.Context())
		require.NoError(t, err)
		require.NoError(t, inner.Context().Err())
	}()
	kept, err := client.NewLock(newName()).Acquire(t.Context())
	require.NoError(t, err)
	ctx := kept.Context() // keeps the hold reachable
	eventually(t, "the lock becomes free", func() bool {
		runtime.GC()
		return len(holders(t, rdb, lock.Name())) == 0
	})
	require.True(t, log.Contains("dropped without Unlock"))
	require.NoError(t, ctx.Err())
	require.NoError(t, kept.Unlock(ctx))
}

func TestALockWhoseHandleIsCollectedIsStillRenewed(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := newClient(t, rdb, rlock.WithWatchdogTimeout(1500*time.Millisecond))
	name := newName()
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, client.NewLock(name).Lock(ctx))
	left := rdb.PTTL(t.Context(), name).Val()
	for range 3 {
		runtime.GC()
		eventually(t, "the lock is renewed", func() bool {
			before := left
			left = rdb.PTTL(t.Context(), name).Val()
			return left > before
		})
	}
	require.NoError(t, client.NewLock(name).Unlock(ctx))
}

func TestASuspectedSelfDeadlockIsLogged(t *testing.T) {
	t.Parallel()
	logger, log := recording()
	lock := newClient(t, redistest.Embedded(t), logger, rlock.WithWatchdogTimeout(2*time.Second)).NewLock(newName())
	require.NoError(t, lock.Lock(t.Context()))
	waiting := async(func() error { return lock.Lock(t.Context()) })
	eventually(t, "the self-deadlock is logged", func() bool { return log.Contains("WithOwner") })
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestAHandleRemembersItsLatestLosses(t *testing.T) {
	t.Parallel()
	logger, _ := recording()
	lock := newClient(t, redistest.Embedded(t), logger).NewLock(newName())
	const n = 100
	for range n {
		ok, err := lock.TryLock(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		_, err = lock.ForceUnlock(t.Context())
		require.NoError(t, err)
	}
	lost := 0
	for range n {
		err := lock.Unlock(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		if errors.Is(err, rlock.ErrLost) {
			lost++
		}
	}
	require.Equal(t, 64, lost)
}

func TestErrLooksAtTheClock(t *testing.T) {
	t.Parallel()
	lock := newClient(t, redistest.Embedded(t)).NewLock(newName())
	for range 30 {
		hold, err := lock.Acquire(t.Context(), rlock.Lease(20*time.Millisecond))
		require.NoError(t, err)
		for time.Now().Before(hold.Deadline()) {
			runtime.Gosched()
		}
		require.ErrorIs(t, hold.Err(), rlock.ErrLost, "the hold ends at its deadline, even before a timer fires")
		_ = hold.Unlock(t.Context())
	}
}

func TestAnUnlockJustAfterTheDeadlineAsksRedis(t *testing.T) {
	t.Parallel()
	lock := newClient(t, redistest.Embedded(t)).NewLock(newName())
	succeeded := 0
	for range 20 { // the deadline is only 4 ms before the end of the lease in Redis
		hold, err := lock.Acquire(t.Context(), rlock.Lease(200*time.Millisecond))
		require.NoError(t, err)
		within(t, "the lease ends", hold.Done())
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		if hold.Unlock(t.Context()) == nil {
			succeeded++ // no other owner can have had the lock
		}
	}
	require.Positive(t, succeeded)
}

func TestALateRenewalRevivesNothing(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(time.Second))
	held := f.proxy.HoldReply(-1, rlock.Runs("renew"))
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	within(t, "Redis has renewed the hold, but the client does not know", held.Met())
	within(t, "the hold ends", hold.Done())
	deadline := hold.Deadline()
	held.Release()
	stays(t, "the hold stays lost", func() bool {
		return hold.Deadline().Equal(deadline) && errors.Is(hold.Err(), rlock.ErrLost)
	})
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

func TestAHoldThatExpiredLocallyIsReleasedInRedis(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(time.Second))
	f.proxy.DropReply(-1, rlock.Runs("renew")) // Redis renews the hold, but the client does not know
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	within(t, "the hold ends", hold.Done())
	eventually(t, "the hold is released without an unlock", func() bool { return f.proxy.Count(rlock.Runs("release")) > 0 })
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	f.free("released")
}
