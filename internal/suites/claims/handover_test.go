package claims

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// newHandOvers returns a queue of waiters for a lock of a kind that is always handed over if it can be, and another client of
// its server.
func newHandOvers(t *testing.T, kind string) (queue *testkit.WaiterQueue, admin *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t), tune.HandOver(100, time.Hour))
	return testkit.NewWaiterQueue(t, testkit.MakeLock(kind, client, testkit.NewName())), server.Client(t)
}

// TestAReleaseNamesTheNextGoroutine of its process, in order, each with its own lease and token: one command a turn.
func TestAReleaseNamesTheNextGoroutine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin, client := server.Client(t), testkit.NewClient(t, server.Client(t), rlock.WithLogger(testkit.Discard))
	name := testkit.NewName()
	plain, fenced := client.NewLock(name), client.NewLock(name, rlock.Fenced())
	hold := testkit.Must(fenced.Acquire(t.Context()))
	token := hold.Token()
	got := make(chan *rlock.Hold)
	const turns = 6
	for i := range turns {
		lock := plain
		if i%2 == 0 {
			lock = fenced
		}
		go func() { got <- testkit.Must(lock.Acquire(t.Context(), rlock.Lease(time.Duration(i+1)*time.Minute))) }()
		testkit.Eventually(t, "it waits", func() bool { return testkit.Waiting(plain) == i+1 })
	}
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	for i := range turns {
		require.NoError(t, hold.Unlock(t.Context()))
		hold = testkit.Within(t, "the next one has it", got)
		require.InDelta(t, time.Duration(i+1)*time.Minute, admin.PTTL(t.Context(), name).Val(), float64(10*time.Second), "its own lease")
		require.Len(t, testkit.Holders(t, admin, name), 1)
		if i%2 == 0 {
			require.Greater(t, hold.Token(), token)
			token = hold.Token()
		}
	}
	calls := testkit.Stats(t, admin)
	require.Equal(t, turns, calls["evalsha"])
	require.Zero(t, calls["publish"])
	require.NoError(t, hold.Unlock(t.Context()))
	require.False(t, testkit.Must(plain.IsLocked(t.Context())))
}

func TestAHandOverIsOneCommandAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	testkit.EveryKind(t, func(t *testing.T, kind string) {
		t.Helper()
		queue, admin := newHandOvers(t, kind)
		hold := testkit.Must(queue.Lock.Acquire(t.Context(), rlock.Lease(time.Minute)))
		token := hold.Token()
		for i := range 5 {
			queue.Join(t.Context(), rlock.Lease(time.Duration(i+1)*10*time.Minute))
		}
		queue.AwaitSleep(admin)
		for i := range 5 {
			require.NoError(t, hold.Unlock(t.Context()))
			require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
			hold = queue.Next()
			require.NoError(t, hold.Err())
			lease := time.Duration(i+1) * 10 * time.Minute
			require.InDelta(t, lease, admin.PTTL(t.Context(), queue.Lock.Name()).Val(), float64(time.Minute), "the next holder's own lease")
			require.WithinRange(t, hold.Deadline(), time.Now(), time.Now().Add(lease))
			fields := testkit.Holders(t, admin, queue.Lock.Name())
			delete(fields, "mode")
			require.Len(t, fields, 1, "only the holder")
			if testkit.Kinds[kind].Tokens {
				require.Greater(t, hold.Token(), token)
				token = hold.Token()
			}
		}
		calls := testkit.Stats(t, admin)
		if testkit.Lined(kind) { // there, the release gives the lock, and tells a waiter that has asked
			asked := 1 + calls["evalsha"] - 5
			require.LessOrEqual(t, calls["publish"], asked, "nobody else is notified")
		} else {
			require.Equal(t, 5, calls["hsetnx"], "only a hand-over calls HSETNX")
			require.Equal(t, 5, calls["evalsha"])
			require.Zero(t, calls["publish"])
		}
		require.NoError(t, hold.Unlock(t.Context()))
		require.False(t, testkit.Must(queue.Lock.IsLocked(t.Context())), "without a waiter, the unlock frees the lock")
	})
}

func TestALockIsReleasedForANextHolderWithAShorterLease(t *testing.T) {
	t.Parallel()
	testkit.EveryKind(t, func(t *testing.T, kind string) {
		t.Helper()
		queue, admin := newHandOvers(t, kind)
		owner := rlock.WithOwner(t.Context())
		hold := testkit.Must(queue.Lock.Acquire(owner, rlock.Lease(20*time.Minute)))
		nested := testkit.Must(queue.Lock.Acquire(owner, rlock.Lease(time.Hour)))
		require.NoError(t, nested.Unlock(owner))
		for _, next := range []struct {
			lease      time.Duration
			handedOver bool
		}{
			{30 * time.Minute, false}, // the nested acquisition lengthened the lease
			{30 * time.Minute, true},
			{10 * time.Minute, false},
			{20 * time.Minute, true},
		} {
			queue.Join(t.Context(), rlock.Lease(next.lease))
			queue.AwaitSleep(admin)
			require.NoError(t, hold.Unlock(t.Context()))
			hold = queue.Next()
			calls := testkit.Stats(t, admin)
			if testkit.Lined(kind) { // the waiter stands in the line, whose first one learns when the lease ends
				require.Equal(t, 1, calls["publish"], "the waiter alone is notified: %v, %v", next, calls)
			} else {
				require.Equal(t, next.handedOver, calls["evalsha"] == 1, "a hand-over is one command: %v, %v", next, calls)
				require.Equal(t, next.handedOver, calls["publish"] == 0, "the other processes learn the new lease: %v, %v", next, calls)
			}
			require.InDelta(t, next.lease, admin.PTTL(t.Context(), queue.Lock.Name()).Val(), float64(time.Minute))
		}
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

func TestALockIsHandedOverOnlyToANewGrantOfTheSameKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := testkit.NewClient(t, rdb)
	write := testkit.MakeLock("write", client, testkit.NewName())
	hold := testkit.Must(write.Acquire(t.Context()))
	writing := testkit.NewWaiterQueue(t, testkit.MakeLock("fenced write", client, write.Name()))
	writing.Join(t.Context())
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	require.NoError(t, hold.Unlock(t.Context()))
	hold = writing.Next()
	require.Positive(t, hold.Token())
	require.Equal(t, 2, testkit.Stats(t, admin)["publish"], "a write lock is released by two messages")
	require.NoError(t, hold.Unlock(t.Context()))

	rw := client.NewRWLock(testkit.NewName())
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, rw.Writer().Lock(owner))
	require.NoError(t, rw.Reader().Lock(owner))
	writers := testkit.NewWaiterQueue(t, rw.Writer())
	writers.Join(t.Context())
	require.NoError(t, rw.Writer().Unlock(owner))
	require.False(t, testkit.Must(client.NewRWLock(rw.Reader().Name()).Writer().TryLock(t.Context())), "the owner still reads")
	readers := testkit.NewWaiterQueue(t, rw.Reader())
	other := testkit.NewClient(t, admin).NewRWLock(rw.Reader().Name()).Reader()
	go func() { testkit.SendTo(readers.Got)(other.Acquire(t.Context())) }()
	require.NoError(t, readers.Next().Unlock(t.Context()), "readers of other processes may read too")
	require.NoError(t, rw.Reader().Unlock(owner))
	require.NoError(t, writers.Next().Unlock(t.Context()))
}

func TestAHandOverThatGoesWrong(t *testing.T) {
	t.Parallel()
	for what, fault := range testkit.Lossy {
		t.Run("its reply is lost, the connection "+what, func(t *testing.T) {
			t.Parallel()
			testkit.EveryKind(t, func(t *testing.T, kind string) {
				t.Helper()
				f := testkit.NewFaulty(t, testkit.Quick(), tune.HandOver(100, time.Hour))
				queue := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, f.Client, testkit.NewName()))
				hold := testkit.Must(queue.Lock.Acquire(t.Context()))
				queue.Join(t.Context())
				queue.Join(t.Context())
				queue.AwaitSleep(f.Direct)
				met := fault(f.Proxy, 1, testkit.Runs("handOver")).Met()
				require.NoError(t, hold.Unlock(t.Context()), "Redis ran the hand-over")
				testkit.Within(t, "the reply is lost", met)
				hold = queue.Next()
				require.NoError(t, hold.Err())
				require.NoError(t, hold.Unlock(t.Context()))
				require.NoError(t, queue.Next().Unlock(t.Context()))
				testkit.Eventually(t, "the lock is free", func() bool { return f.Direct.Exists(t.Context(), queue.Lock.Name()).Val() == 0 })
			})
		})
	}
	t.Run("it arrives late", func(t *testing.T) {
		t.Parallel()
		testkit.EveryKind(t, func(t *testing.T, kind string) {
			t.Helper()
			f := testkit.NewFaulty(t, testkit.Quick(), tune.HandOver(100, time.Hour))
			queue := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, f.Client, testkit.NewName()))
			hold := testkit.Must(queue.Lock.Acquire(t.Context()))
			queue.Join(t.Context())
			queue.AwaitSleep(f.Direct)
			held := f.Proxy.HoldRequest(1, testkit.Runs("handOver"))
			require.NoError(t, hold.Unlock(t.Context()), "the lock is released instead")
			hold = queue.Next()
			require.NoError(t, hold.Unlock(t.Context()))
			lock := testkit.MakeLock(kind, testkit.NewClient(t, f.Direct), queue.Lock.Name())
			require.NoError(t, lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
			n := f.Proxy.Count(testkit.Runs("handOver"))
			held.Release()
			testkit.Eventually(t, "the hand-over arrives", func() bool { return f.Proxy.Count(testkit.Runs("handOver")) == n+1 })
			testkit.Stays(t, "the current holder keeps the lock", func() bool { return testkit.Must(lock.HoldCount(t.Context())) > 0 })
			require.NoError(t, lock.Unlock(t.Context()))
			testkit.Eventually(t, "the lock is free", func() bool { return !testkit.Must(lock.IsLocked(t.Context())) })
		})
	})
	t.Run("the lock was lost", func(t *testing.T) {
		t.Parallel()
		testkit.EveryKind(t, func(t *testing.T, kind string) {
			t.Helper()
			queue, admin := newHandOvers(t, kind)
			hold := testkit.Must(queue.Lock.Acquire(t.Context()))
			queue.Join(t.Context())
			queue.AwaitSleep(admin)
			require.NoError(t, admin.Del(t.Context(), queue.Lock.Name()).Err())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
			require.NoError(t, queue.Next().Unlock(t.Context()), "the next waiter acquires the lock itself")
		})
	})
}

func TestAWaiterThatLeavesDuringAHandOver(t *testing.T) {
	t.Parallel()
	for what, hold := range map[string]func(*redistest.Proxy, int, func(redistest.Command) bool) *redistest.Fault{
		"before Redis runs it": (*redistest.Proxy).HoldRequest,
		"after Redis ran it":   (*redistest.Proxy).HoldReply,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			testkit.EveryKind(t, func(t *testing.T, kind string) {
				t.Helper()
				f := testkit.NewFaulty(t, nil, tune.HandOver(100, time.Hour))
				queue := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, f.Client, testkit.NewName()))
				first := testkit.Must(queue.Lock.Acquire(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				queue.Join(ctx)
				queue.Join(t.Context())
				queue.AwaitSleep(f.Direct)
				held := hold(f.Proxy, 1, testkit.Runs("handOver"))
				unlocking := testkit.Async(func() error { return first.Unlock(t.Context()) })
				testkit.Within(t, "the hand-over is in flight", held.Met())
				cancel()
				select {
				case err := <-queue.Errs:
					require.ErrorIs(t, err, rlock.ErrNotAcquired)
				case hold := <-queue.Got: // a message told it that the lock is its own, before it could leave
					require.NoError(t, hold.Unlock(t.Context()))
				case <-time.After(testkit.ALongTime):
					require.Fail(t, "the waiter does not leave")
				}
				held.Release()
				require.NoError(t, testkit.Within(t, "the unlock returns", unlocking))
				require.NoError(t, queue.Next().Unlock(t.Context()), "the waiter behind it acquires the lock")
				testkit.Eventually(t, "nothing is left in the client", func() bool { return testkit.Remains(f.Client) == 0 })
				require.False(t, testkit.Must(queue.Lock.IsLocked(t.Context())))
			})
		})
	}
}

func TestATryLockOfALockHeldInThisProcessSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	// For a hold with Lease, the client relies on the last reply for a third of the watchdog timeout.
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(time.Hour), rlock.WithLogger(testkit.Discard))
	for kind, k := range testkit.Kinds {
		if k.Groups || kind == "read" {
			continue
		}
		lock := testkit.MakeLock(kind, client, testkit.NewName())
		hold := testkit.Must(lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
		require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
		for range 10 {
			require.False(t, testkit.Must(lock.TryLock(t.Context())), kind)
			require.ErrorIs(t, testkit.Second(lock.TryAcquire(rlock.WithOwner(t.Context()))), rlock.ErrNotAcquired, kind)
		}
		require.Zero(t, testkit.Stats(t, admin)["evalsha"], kind)
		require.True(t, testkit.Must(lock.ForceUnlock(t.Context())), kind)
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		require.True(t, testkit.Must(lock.TryLock(t.Context())), "a force unlock by this client takes effect at once: "+kind)
		require.NoError(t, lock.Unlock(t.Context()))
		testkit.Eventually(t, "nothing is left in the client", func() bool { return testkit.Remains(client) == 0 })
	}
	rw := client.NewRWLock(testkit.NewName())
	require.NoError(t, rw.Reader().Lock(t.Context()))
	require.True(t, testkit.Must(rw.Reader().TryLock(t.Context())), "readers share")
	require.NoError(t, rw.Reader().Unlock(t.Context()))
	require.NoError(t, rw.Reader().Unlock(t.Context()))
}

func TestATryLockOfALockForcedElsewhereSucceedsAfterARenewal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(time.Second), rlock.WithLogger(testkit.Discard))
	stranger := testkit.NewClient(t, rdb)
	for kind, k := range testkit.Kinds {
		if k.Groups || kind == "read" {
			continue
		}
		lock := testkit.MakeLock(kind, client, testkit.NewName())
		hold := testkit.Must(lock.Acquire(t.Context()))
		require.True(t, testkit.Must(testkit.MakeLock(kind, stranger, lock.Name()).ForceUnlock(t.Context())), kind)
		testkit.Within(t, "the next renewal reports the loss", hold.Done())
		require.True(t, testkit.Must(lock.TryLock(t.Context())), kind)
		require.NoError(t, lock.Unlock(t.Context()))
	}
}
