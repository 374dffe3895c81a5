package claims

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
	"github.com/go-rlock/rlock/internal/testkit"
)

func TestRenewalsAreBatched(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(12*time.Second))
	holds := make([]*rlock.Hold, 125)
	for i := range holds {
		var err error
		holds[i], err = f.Client.NewLock(testkit.NewName()).Acquire(t.Context())
		require.NoError(t, err)
	}
	before := make([]time.Time, len(holds))
	for i, hold := range holds {
		before[i] = hold.Deadline()
	}
	for i, hold := range holds {
		testkit.Eventually(t, "each is renewed", func() bool { return hold.Deadline().After(before[i]) })
	}
	require.Equal(t, 2, f.Proxy.Count(testkit.Runs("renew")), "a batch has a hundred holds")
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(t.Context()))
	}
}

func TestOneBrokenLockInABatchAffectsNoOther(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
		var holds []*rlock.Hold
		var names []string
		for range 3 {
			names = append(names, testkit.NewName())
			hold, err := client.NewLock(names[len(names)-1]).Acquire(t.Context())
			require.NoError(t, err)
			_ = hold.Done() // a loss of a watched hold is not logged
			holds = append(holds, hold)
		}
		require.NoError(t, rdb.Del(t.Context(), names[0]).Err())
		require.NoError(t, rdb.Set(t.Context(), names[1], "precious", 0).Err())
		for _, hold := range holds[:2] {
			testkit.Within(t, "the holder is notified", hold.Done())
			require.ErrorIs(t, hold.Err(), rlock.ErrLost)
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		}
		before := holds[2].Deadline()
		testkit.Eventually(t, "the other hold is renewed", func() bool { return holds[2].Deadline().After(before) })
		require.NoError(t, holds[2].Unlock(t.Context()))
	})
}

func TestUnlockedAndLeasedHoldsAreNotRenewed(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(6*time.Second))
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, f.Lock.Lock(ctx))
	require.NoError(t, f.Lock.Lock(ctx))
	for range 2 {
		require.NoError(t, f.Lock.Unlock(ctx))
	}
	hold, err := f.Lock.Acquire(ctx, rlock.Lease(3*time.Second)) // longer than the interval of the renewals
	require.NoError(t, err)
	testkit.Within(t, "the lease ends", hold.Done())
	require.Zero(t, f.Proxy.Count(testkit.Runs("renew")))
	testkit.Eventually(t, "no renewal is planned", func() bool { return testkit.Remains(f.Client) == 0 })
}

func TestNoRenewalIsSentDuringARelease(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(300*time.Millisecond))
	require.NoError(t, f.Lock.Lock(t.Context()))
	held := f.Proxy.HoldRequest(1, testkit.Runs("release"))
	unlocking := testkit.Async(func() error { return f.Lock.Unlock(t.Context()) })
	testkit.Within(t, "the release is in flight", held.Met())
	renewals := f.Proxy.Count(testkit.Runs("renew"))
	testkit.Stays(t, "no renewal is sent during the release", func() bool { return f.Proxy.Count(testkit.Runs("renew")) == renewals })
	held.Release()
	if err := testkit.Within(t, "the unlock returns", unlocking); err != nil {
		require.ErrorIs(t, err, rlock.ErrLost, "the lease may have ended meanwhile")
	}
}

func TestAReleaseMayOvertakeARenewal(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(3*time.Second))
	held := f.Proxy.HoldRequest(-1, testkit.Runs("renew"))
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Within(t, "a renewal is in flight", held.Met())
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(time.Second)))
	held.Release()
	testkit.Eventually(t, "the renewal arrives", func() bool { return f.Proxy.Count(testkit.Runs("renew")) > 0 })
	testkit.Within(t, "the hold ends", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
	require.NotErrorIs(t, hold.Err(), rlock.ErrLost, "a late reply does not affect an ended hold")
	ttl, err := f.Other.TTL(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, time.Second, "the late renewal extends no other lease")
	require.NoError(t, f.Other.Unlock(t.Context()))
}

func TestAPendingGrantIsNotRenewed(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(lease))
	held := f.Proxy.HoldReply(1, testkit.Runs("acquire"))
	acquiring := make(chan *rlock.Hold, 1)
	go func() {
		hold, err := f.Lock.Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		acquiring <- hold
	}()
	testkit.Within(t, "Redis has granted the lock", held.Met())
	called := time.Now()
	<-time.After(lease/3 + 200*time.Millisecond) // a renewal would be due
	require.Zero(t, f.Proxy.Count(testkit.Runs("renew")), "a pending grant is not renewed")
	renewals := f.Proxy.HoldRequest(-1, testkit.Runs("renew"))
	held.Release()
	hold := testkit.Within(t, "the lock is acquired", acquiring)
	require.NoError(t, hold.Err())
	require.Less(t, hold.Deadline(), called.Add(lease), "the lease counts from before the call")
	renewals.Release()
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAGrantThatArrivesAfterItsLeaseIsRetried(t *testing.T) { // the subtests share a server
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	for what, lock := range map[string]func(...rlock.AcquireOption) error{
		"Lock":    func(opts ...rlock.AcquireOption) error { return f.Lock.Lock(t.Context(), opts...) },
		"TryLock": func(opts ...rlock.AcquireOption) error { return testkit.Second(f.Lock.TryLock(t.Context(), opts...)) },
	} {
		t.Run(what, func(t *testing.T) {
			held := f.Proxy.HoldReply(1, testkit.Runs("acquire"))
			locking := testkit.Async(func() error { return lock(rlock.Lease(500 * time.Millisecond)) })
			testkit.Within(t, "Redis has granted the lock", held.Met())
			testkit.Eventually(t, "the lease ends", func() bool { return f.Count() == "0" })
			held.Release()
			err := testkit.Within(t, "the call returns", locking)
			if what == "TryLock" {
				require.ErrorContains(t, err, "too late", "there is no second attempt")
				require.NotErrorIs(t, err, rlock.ErrNotAcquired, "a late reply is not contention")
				require.NotErrorIs(t, err, rlock.ErrNotHeld, "there is nothing to unlock")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "1", f.Count(), "the acquired lock is valid")
			require.NoError(t, f.Lock.Unlock(t.Context()))
		})
	}
}

func TestMaxHoldEndsAHold(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		lock := testkit.NewClient(t, rdb, rlock.WithMaxHold(300*time.Millisecond)).NewLock(testkit.NewName())
		hold, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		other := testkit.NewClient(t, rdb).NewLock(lock.Name())
		passed := redistest.Stopwatch(t)
		testkit.Within(t, "the hold ends", hold.Done())
		require.NoError(t, other.Lock(t.Context()))
		require.Less(t, passed(), 5*time.Second, "the lock is released long before its lease ends")
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		require.ErrorContains(t, context.Cause(hold.Context()), "WithMaxHold")
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		require.NoError(t, other.Unlock(t.Context()))
	})
}

func TestALockWhoseHandleIsCollectedIsStillRenewed(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
	name := testkit.NewName()
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, client.NewLock(name).Lock(ctx))
	left := rdb.PTTL(t.Context(), name).Val()
	for range 3 {
		runtime.GC()
		testkit.Eventually(t, "the lock is renewed", func() bool {
			before := left
			left = rdb.PTTL(t.Context(), name).Val()
			return left > before
		})
	}
	require.NoError(t, client.NewLock(name).Unlock(ctx))
}

func TestAHandleRemembersItsLosses(t *testing.T) {
	t.Parallel()
	logger, _ := testkit.Recording()
	lock := testkit.NewClient(t, redistest.Embedded(t), logger).NewLock(testkit.NewName())
	const n = 100
	for range n {
		ok, err := lock.TryLock(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		_, err = lock.ForceUnlock(t.Context())
		require.NoError(t, err)
	}
	for range n {
		require.ErrorIs(t, lock.Unlock(t.Context()), rlock.ErrLost)
	}
	require.NotErrorIs(t, lock.Unlock(t.Context()), rlock.ErrLost)
}

func TestErrLooksAtTheClock(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t)).NewLock(testkit.NewName())
	for range 30 {
		hold, err := lock.Acquire(t.Context(), rlock.Lease(20*time.Millisecond))
		require.NoError(t, err)
		time.Sleep(time.Until(hold.Deadline())) // in virtual time, the timer of the hold may fire before or after it
		require.ErrorIs(t, hold.Err(), rlock.ErrLost, "the hold ends at its deadline, even before a timer fires")
		_ = hold.Unlock(t.Context())
	}
}

func TestALateRenewalRevivesNothing(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(time.Second))
	held := f.Proxy.HoldReply(-1, testkit.Runs("renew"))
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Within(t, "Redis has renewed the hold, but the client does not know", held.Met())
	testkit.Within(t, "the hold ends", hold.Done())
	deadline := hold.Deadline()
	held.Release()
	testkit.Stays(t, "the hold stays lost", func() bool {
		return hold.Deadline().Equal(deadline) && errors.Is(hold.Err(), rlock.ErrLost)
	})
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

func TestAHoldThatExpiredLocallyIsReleasedInRedis(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(time.Second))
	f.Proxy.DropReply(-1, testkit.Runs("renew")) // Redis renews the hold, but the client does not know
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Within(t, "the hold ends", hold.Done())
	testkit.Eventually(t, "the hold is released without an unlock", func() bool {
		return f.Proxy.Count(testkit.Runs("release")) > 0 && f.Count() == "0"
	})
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	f.Free("released")
}
