package trouble

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// Most of these tests come from a review that tried to break hand-overs, or to change their code without failing a test.

// everyKind runs a test for every kind of lock that an unlock hands over within a process.
func everyKind(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{"lock", "fenced", "write", "fenced write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

func TestAnAskingHeadIsNotHandedTheLock(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	queue := testkit.NewWaiterQueue(t, f.Lock)
	require.NoError(t, f.Other.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	queue.Join(ctx)
	queue.Join(t.Context())
	testkit.AwaitSleepers(t, f.Direct, 3, f.Lock)
	mine := f.Proxy.HoldReply(1, testkit.Runs("acquire"))
	trying := make(chan *rlock.Hold, 1)
	require.NoError(t, f.Direct.FlushDB(t.Context()).Err()) // silently, and the line, whose first waiter would get the lock
	go func() { testkit.SendTo(trying)(f.Lock.TryAcquire(rlock.WithOwner(t.Context()))) }()
	testkit.Within(t, "Redis has granted it", mine.Met())
	asked := f.Proxy.HoldRequest(1, testkit.Runs("acquire"))
	cancel()
	testkit.Within(t, "the next head sends its acquire", asked.Met())
	mine.Release()
	hold := testkit.Within(t, "TryAcquire has the lock", trying)
	require.NoError(t, hold.Unlock(t.Context()))
	asked.Release()
	require.NoError(t, queue.Next().Unlock(t.Context()))
	testkit.Eventually(t, "nothing is left", func() bool {
		return testkit.Remains(f.Client) == 0 && len(testkit.Holders(t, f.Direct, f.Lock.Name())) == 0
	})
	_ = f.Other.Unlock(t.Context())
}

func TestASpinReleaseWakesAPlainWaiterOfItsProcess(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, tune.PollInterval(time.Hour))
	spin := client.NewSpinLock(testkit.NewName())
	queue := testkit.NewWaiterQueue(t, client.NewLock(spin.Name()))
	hold := testkit.Must(spin.Acquire(t.Context()))
	queue.Join(t.Context())
	testkit.AwaitSleepers(t, rdb, 2, queue.Lock)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, queue.Next().Unlock(t.Context()))
}

func TestAMessageWakesAWaiterSoon(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mk := func() *rlock.Client {
		return testkit.NewClient(t, server.Client(t), tune.PollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour), rlock.WithLogger(testkit.Discard))
	}
	queue := testkit.NewWaiterQueue(t, mk().NewLock(testkit.NewName()))
	hold := testkit.Must(mk().NewLock(queue.Lock.Name()).Acquire(t.Context()))
	queue.Join(t.Context())
	testkit.AwaitSleepers(t, server.Client(t), 3, queue.Lock)
	passed := redistest.Stopwatch(t)
	require.True(t, testkit.Must(mk().NewLock(queue.Lock.Name()).ForceUnlock(t.Context())))
	next := queue.Next()
	require.Less(t, passed(), 2*time.Second, "before it looks")
	require.NoError(t, next.Unlock(t.Context()))
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

func TestAnOwnersOtherGoroutineUnlocksFirst(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Start(t).Client(t))
	lock := client.NewLock(testkit.NewName())
	for range 1000 {
		require.NoError(t, lock.Lock(t.Context()))
		owner := rlock.WithOwner(t.Context())
		locking := testkit.Async(func() error { return lock.Lock(owner) })
		stop := make(chan struct{})
		unlocking := testkit.Async(func() error {
			for {
				if err := lock.Unlock(owner); err == nil {
					return nil
				}
				select {
				case <-stop:
					return nil
				case <-time.After(time.Microsecond): // not at once: in virtual time, nothing goes on while somebody spins
				}
			}
		})
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "locked", locking))
		require.NoError(t, testkit.Within(t, "unlocked", unlocking))
		close(stop)
	}
	testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client) == 0 })
	require.False(t, testkit.Must(lock.IsLocked(t.Context())))
}

// TestAShortWaitIsRefusedWithoutAnError has Redis pause now and then for many times the wait. Meanwhile waiters leave their
// questions behind, and these take all connections. The next waiter waits for a connection as it would for a reply.
func TestAShortWaitIsRefusedWithoutAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr, PoolSize: 4}))
	name := testkit.NewName()
	var failed, no, yes atomic.Int64
	var first atomic.Value
	var wg sync.WaitGroup
	stop := time.Now().Add(time.Second)
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
	for time.Now().Before(stop) {
		server.Pause()
		<-time.After(10 * time.Millisecond)
		server.Resume()
		<-time.After(10 * time.Millisecond)
	}
	wg.Wait()
	t.Logf("acquired %d, refused %d, errors %d %v", yes.Load(), no.Load(), failed.Load(), first.Load())
	require.Zero(t, failed.Load())
}

func TestAHandOverInDoubtOfAShortLeaseIsNoLoss(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, &redis.Options{ReadTimeout: 2500 * time.Millisecond})
	queue := testkit.NewWaiterQueue(t, f.Lock)
	hold := testkit.Must(f.Lock.Acquire(t.Context(), rlock.Lease(2*time.Second)))
	queue.Join(t.Context())
	met := f.Proxy.SwallowReply(1, testkit.Runs("release")).Met()
	err := hold.Unlock(t.Context())
	testkit.Within(t, "the reply is lost", met)
	require.NoError(t, queue.Next().Unlock(t.Context()))
	require.NoError(t, err, "Redis ran it within the lease")
}

func TestALeavingWaiterPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	for round := range 10 {
		server := redistest.Start(t)
		client := testkit.NewClient(t, server.Client(t), tune.PollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour), rlock.WithLogger(testkit.Discard))
		queue := testkit.NewWaiterQueue(t, client.NewLock(testkit.NewName()))
		theirs := testkit.NewClient(t, server.Client(t), rlock.WithLogger(testkit.Discard)).NewLock(queue.Lock.Name())
		hold := testkit.Must(theirs.Acquire(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		queue.Join(ctx)
		queue.Join(t.Context())
		testkit.AwaitSleepers(t, server.Client(t), 3, queue.Lock)
		require.True(t, testkit.Must(theirs.ForceUnlock(t.Context())))
		<-time.After(time.Duration(round) * 500 * time.Microsecond)
		cancel()
		select {
		case <-queue.Errs: // it left
		case first := <-queue.Got: // on a slow machine it asks before it leaves
			require.NoError(t, first.Unlock(t.Context()))
		}
		require.NoError(t, queue.Next().Unlock(t.Context()), "the lock was freed and announced")
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	}
}

func TestATryLockOfALeasedLockThatWasForcedElsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t), rlock.WithWatchdogTimeout(500*time.Millisecond))
	lock := testkit.MakeLock("write", client, testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
	require.True(t, testkit.Must(testkit.MakeLock("write", testkit.NewClient(t, server.Client(t)), lock.Name()).ForceUnlock(t.Context())))
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
		f := testkit.NewFaulty(t, nil, tune.HandOver(100, time.Hour), tune.PollInterval(100*time.Millisecond))
		queue := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, f.Client, testkit.NewName()))
		first := testkit.Must(queue.Lock.Acquire(t.Context()))
		queue.Join(t.Context())
		if !testkit.ByTurns(kind) {
			testkit.AwaitSleepers(t, f.Direct, 2, queue.Lock)
		}
		held := f.Proxy.HoldReply(1, testkit.Runs("handOver"))
		unlocking := testkit.Async(func() error { return first.Unlock(t.Context()) })
		testkit.Within(t, "the lock is handed over", held.Met())
		require.True(t, testkit.Must(queue.Lock.ForceUnlock(t.Context())))
		other := testkit.MakeLock(kind, testkit.NewClient(t, f.Direct), queue.Lock.Name())
		require.True(t, testkit.Must(other.TryLock(t.Context())))
		held.Release()
		require.NoError(t, testkit.Within(t, "unlock", unlocking))
		// In line mode, the waiter may learn by a message that the lock is its own, before the unlock by force takes it away.
		lost := 0
		testkit.Stays(t, "only one owner holds it", func() bool {
			for len(queue.Got) > 0 {
				hold := <-queue.Got
				lost++
				testkit.Within(t, "the waiter's hold ends", hold.Done())
				if !errors.Is(hold.Unlock(t.Context()), rlock.ErrLost) {
					return false
				}
			}
			return lost <= 1
		})
		require.NoError(t, other.Unlock(t.Context()))
		if lost == 0 {
			require.NoError(t, queue.Next().Unlock(t.Context()))
		}
		testkit.Eventually(t, "the lock is free", func() bool { return !testkit.Must(queue.Lock.IsLocked(t.Context())) })
	})
}

func TestATryLockDuringAReleaseAsksRedis(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	require.NoError(t, f.Lock.Lock(t.Context()))
	held := f.Proxy.HoldReply(1, testkit.Runs("release"))
	unlocking := testkit.Async(func() error { return f.Lock.Unlock(t.Context()) })
	testkit.Within(t, "Redis has freed it", held.Met())
	require.True(t, testkit.Must(f.Lock.TryLock(t.Context())))
	held.Release()
	require.NoError(t, testkit.Within(t, "unlock", unlocking))
	require.NoError(t, f.Lock.Unlock(t.Context()))
	f.Free("nothing is left")
}

func TestAWaiterThatLeavesDuringAHandOverAcquiresOrReleases(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Start(t).Client(t))
	lock := client.NewLock(testkit.NewName())
	for i := range 2000 {
		hold := testkit.Must(lock.Acquire(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan *rlock.Hold, 1)
		go func() {
			h, _ := lock.Acquire(ctx)
			got <- h
		}()
		for testkit.Waiting(lock) == 0 {
			<-time.After(10 * time.Microsecond)
		}
		time.AfterFunc(time.Duration(i%40)*10*time.Microsecond, cancel)
		require.NoError(t, hold.Unlock(t.Context()))
		if h := <-got; h != nil {
			require.NoError(t, h.Unlock(t.Context()))
		}
		cancel()
	}
	testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client) == 0 })
	require.False(t, testkit.Must(lock.IsLocked(t.Context())))
}

func TestAnAcquireInDoubtCannotComeBackAfterItsRelease(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind string) {
		t.Helper()
		f := testkit.NewFaulty(t, testkit.Quick(), tune.HandOver(100, time.Hour))
		queue := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, f.Client, testkit.NewName()))
		held := f.Proxy.HoldRequest(1, testkit.Runs("acquire"))
		hold := testkit.Must(queue.Lock.Acquire(t.Context()))
		queue.Join(t.Context())
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, queue.Next().Unlock(t.Context()))
		n := f.Proxy.Count(testkit.Runs("acquire"))
		held.Release()
		testkit.Eventually(t, "the delayed acquire arrives", func() bool { return f.Proxy.Count(testkit.Runs("acquire")) == n+1 })
		free := func() bool { return len(testkit.Holders(t, f.Direct, queue.Lock.Name())) == 0 }
		if testkit.ByTurns(kind) {
			testkit.Eventually(t, "a holder that comes back is released", func() bool { return free() && testkit.Remains(f.Client) == 0 })
		}
		testkit.Stays(t, "no holder comes back", free)
	})
}
