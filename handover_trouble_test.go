package rlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// Most of these tests come from a review that tried to break hand-overs, or to change their code without failing a test.

func TestAnAskingHeadIsNotHandedTheLock(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithHandOver(100, time.Hour))
	queue := newWaiterQueue(t, f.lock)
	require.NoError(t, f.other.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	queue.join(ctx)
	queue.join(t.Context())
	awaitSleepers(t, f.direct, 3, f.lock)
	mine := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	trying := make(chan *rlock.Hold, 1)
	require.NoError(t, f.direct.Del(t.Context(), f.lock.Name()).Err()) // silently
	go func() { trying <- must(f.lock.TryAcquire(rlock.WithOwner(t.Context()))) }()
	within(t, "Redis has granted it", mine.Met())
	asked := f.proxy.HoldRequest(1, rlock.Runs("acquire"))
	cancel()
	within(t, "the next head sends its acquire", asked.Met())
	mine.Release()
	hold := within(t, "TryAcquire has the lock", trying)
	require.NoError(t, hold.Unlock(t.Context()))
	asked.Release()
	require.NoError(t, queue.next().Unlock(t.Context()))
	eventually(t, "nothing is left", func() bool { return f.client.Remains() == 0 && len(holders(t, f.direct, f.lock.Name())) == 0 })
	_ = f.other.Unlock(t.Context())
}

func TestAReleaserStandsBackOnlyForListeners(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := newClient(t, rdb, rlock.WithHandOver(0, 0), rlock.WithStandBack(time.Hour), rlock.WithPollInterval(time.Hour))
	queue := newWaiterQueue(t, client.NewLock(newName()))
	hold := must(queue.lock.Acquire(t.Context()))
	queue.join(t.Context())
	awaitSleepers(t, rdb, 2, queue.lock)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, queue.next().Unlock(t.Context()))
}

func TestTheTimeLimitCoversSuccessiveHandOvers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server.Client(t), rlock.WithHandOver(1000, 100*time.Millisecond), rlock.WithStandBack(aLongTime), rlock.WithPollInterval(time.Hour))
	ours := newWaiterQueue(t, client.NewLock(newName()))
	theirs := newWaiterQueue(t, newClient(t, server.Client(t)).NewLock(ours.lock.Name()))
	hold := must(ours.lock.Acquire(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 8 {
		ours.join(ctx)
	}
	theirs.join(t.Context())
	awaitSleepers(t, server.Client(t), 4, ours.lock, theirs.lock) // each asks again after it subscribed
	for range 4 {
		<-time.After(40 * time.Millisecond)
		require.NoError(t, hold.Unlock(t.Context()))
		select {
		case hold = <-ours.got:
		case hold := <-theirs.got:
			require.NoError(t, hold.Unlock(t.Context()))
			return
		}
	}
	_ = hold.Unlock(t.Context())
	t.Error("the other process got no turn")
}

func TestAShortWaitDoesNotStandBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lock := newClient(t, server.Client(t), rlock.WithHandOver(0, 0), rlock.WithStandBack(aLongTime)).NewLock(newName())
	sub := server.Client(t).Subscribe(t.Context(), lock.Channel())
	defer sub.Close()
	must(sub.Receive(t.Context()))
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	require.True(t, must(lock.TryLock(t.Context(), rlock.Wait(500*time.Millisecond))))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestASpinReleaseWakesAPlainWaiterOfItsProcess(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := newClient(t, rdb, rlock.WithPollInterval(time.Hour))
	spin := client.NewSpinLock(newName())
	queue := newWaiterQueue(t, client.NewLock(spin.Name()))
	hold := must(spin.Acquire(t.Context()))
	queue.join(t.Context())
	awaitSleepers(t, rdb, 2, queue.lock)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, queue.next().Unlock(t.Context()))
}

func TestAMessageWakesAWaiterSoon(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server.Client(t), rlock.WithPollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour), rlock.WithLogger(discard))
	queue := newWaiterQueue(t, client.NewLock(newName()))
	hold := must(queue.lock.Acquire(t.Context()))
	queue.join(t.Context())
	awaitSleepers(t, server.Client(t), 2, queue.lock)
	require.True(t, must(newClient(t, server.Client(t)).NewLock(queue.lock.Name()).ForceUnlock(t.Context())))
	require.NoError(t, queue.next().Unlock(t.Context()))
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

func TestAnOwnersOtherGoroutineUnlocksFirst(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).Client(t), rlock.WithHandOver(1000000, time.Hour))
	lock := client.NewLock(newName())
	for range 1000 {
		require.NoError(t, lock.Lock(t.Context()))
		owner := rlock.WithOwner(t.Context())
		locking := async(func() error { return lock.Lock(owner) })
		stop := make(chan struct{})
		unlocking := async(func() error {
			for {
				if err := lock.Unlock(owner); err == nil {
					return nil
				}
				select {
				case <-stop:
					return nil
				default:
				}
			}
		})
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, within(t, "locked", locking))
		require.NoError(t, within(t, "unlocked", unlocking))
		close(stop)
	}
	eventually(t, "nothing is left", func() bool { return client.Remains() == 0 })
	require.False(t, must(lock.IsLocked(t.Context())))
}

func TestAShortWaitIsRefusedWithoutAnError(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).Client(t))
	name := newName()
	var failed, no, yes atomic.Int64
	var first atomic.Value
	var wg sync.WaitGroup
	stop := time.Now().Add(3 * time.Second)
	for range 8 {
		wg.Go(func() {
			lock := client.NewLock(name)
			for time.Now().Before(stop) {
				ok, err := lock.TryLock(t.Context(), rlock.Wait(200*time.Microsecond))
				switch {
				case err != nil:
					failed.Add(1)
					first.Store(err.Error())
				case ok:
					yes.Add(1)
					require.NoError(t, lock.Unlock(t.Context()))
				default:
					no.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("acquired %d, refused %d, errors %d %v", yes.Load(), no.Load(), failed.Load(), first.Load())
	require.Zero(t, failed.Load())
}

func TestAHandOverInDoubtOfAShortLeaseIsNoLoss(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, &redis.Options{ReadTimeout: time.Second}, rlock.WithHandOver(100, time.Hour))
	queue := newWaiterQueue(t, f.lock)
	hold := must(f.lock.Acquire(t.Context(), rlock.Lease(800*time.Millisecond)))
	queue.join(t.Context())
	awaitSleepers(t, f.direct, 2, f.lock)
	met := f.proxy.SwallowReply(1, rlock.Runs("handOver")).Met()
	err := hold.Unlock(t.Context())
	within(t, "the reply is lost", met)
	require.NoError(t, queue.next().Unlock(t.Context()))
	require.NoError(t, err, "Redis ran it within the lease")
}

func TestALeavingWaiterPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	for round := range 10 {
		server := redistest.Start(t)
		client := newClient(t, server.Client(t), rlock.WithPollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour), rlock.WithLogger(discard))
		queue := newWaiterQueue(t, client.NewLock(newName()))
		theirs := newClient(t, server.Client(t)).NewLock(queue.lock.Name())
		hold := must(queue.lock.Acquire(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		queue.join(ctx)
		queue.join(t.Context())
		awaitSleepers(t, server.Client(t), 2, queue.lock)
		require.True(t, must(theirs.ForceUnlock(t.Context())))
		<-time.After(time.Duration(round) * 500 * time.Microsecond)
		cancel()
		<-queue.errs
		require.NoError(t, queue.next().Unlock(t.Context()), "the lock was freed and announced")
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	}
}

func TestATryLockOfALeasedLockThatWasForcedElsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server.Client(t), rlock.WithWatchdogTimeout(500*time.Millisecond))
	lock := client.NewLock(newName())
	hold := must(lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
	require.True(t, must(newClient(t, server.Client(t)).NewLock(lock.Name()).ForceUnlock(t.Context())))
	<-time.After(2 * time.Second)
	ok, err := lock.TryLock(t.Context())
	require.NoError(t, err)
	if !ok {
		t.Error("TryLock is still refused four renewals after the lock was freed in Redis")
	} else {
		require.NoError(t, lock.Unlock(t.Context()))
	}
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

func TestAForceUnlockDuringAHandOverWins(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind string) {
		t.Helper()
		f := newFaulty(t, nil, rlock.WithHandOver(100, time.Hour), rlock.WithPollInterval(100*time.Millisecond))
		queue := newWaiterQueue(t, makeLock(kind, f.client, newName()))
		first := must(queue.lock.Acquire(t.Context()))
		queue.join(t.Context())
		awaitSleepers(t, f.direct, 2, queue.lock)
		held := f.proxy.HoldReply(1, rlock.Runs("handOver"))
		unlocking := async(func() error { return first.Unlock(t.Context()) })
		within(t, "the lock is handed over", held.Met())
		require.True(t, must(queue.lock.ForceUnlock(t.Context())))
		other := makeLock(kind, newClient(t, f.direct), queue.lock.Name())
		require.True(t, must(other.TryLock(t.Context())))
		held.Release()
		require.NoError(t, within(t, "unlock", unlocking))
		stays(t, "only one owner holds it", func() bool { return len(queue.got) == 0 })
		require.NoError(t, other.Unlock(t.Context()))
		require.NoError(t, queue.next().Unlock(t.Context()))
	})
}

func TestATryLockDuringAReleaseAsksRedis(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	require.NoError(t, f.lock.Lock(t.Context()))
	held := f.proxy.HoldReply(1, rlock.Runs("release"))
	unlocking := async(func() error { return f.lock.Unlock(t.Context()) })
	within(t, "Redis has freed it", held.Met())
	require.True(t, must(f.lock.TryLock(t.Context())))
	held.Release()
	require.NoError(t, within(t, "unlock", unlocking))
	require.NoError(t, f.lock.Unlock(t.Context()))
	f.free("nothing is left")
}

func TestAWaiterThatLeavesDuringAHandOverAcquiresOrReleases(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).Client(t), rlock.WithHandOver(1000000, time.Hour))
	lock := client.NewLock(newName())
	for i := range 2000 {
		hold := must(lock.Acquire(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan *rlock.Hold, 1)
		go func() {
			h, _ := lock.Acquire(ctx)
			got <- h
		}()
		for lock.Waiting() == 0 {
			<-time.After(10 * time.Microsecond)
		}
		time.AfterFunc(time.Duration(i%40)*10*time.Microsecond, cancel)
		require.NoError(t, hold.Unlock(t.Context()))
		if h := <-got; h != nil {
			require.NoError(t, h.Unlock(t.Context()))
		}
		cancel()
	}
	eventually(t, "nothing is left", func() bool { return client.Remains() == 0 })
	require.False(t, must(lock.IsLocked(t.Context())))
}

func TestAnAcquireInDoubtCannotComeBackAfterItsRelease(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind string) {
		t.Helper()
		f := newFaulty(t, quick(), rlock.WithHandOver(100, time.Hour))
		queue := newWaiterQueue(t, makeLock(kind, f.client, newName()))
		held := f.proxy.HoldRequest(1, rlock.Runs("acquire"))
		hold := must(queue.lock.Acquire(t.Context()))
		queue.join(t.Context())
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, queue.next().Unlock(t.Context()))
		n := f.proxy.Count(rlock.Runs("acquire"))
		held.Release()
		eventually(t, "the delayed acquire arrives", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == n+1 })
		stays(t, "no holder comes back", func() bool { return !must(queue.lock.IsLocked(t.Context())) })
	})
}
