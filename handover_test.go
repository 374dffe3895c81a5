package rlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// waiterQueue adds waiters for one lock one by one, so that their order is known.
type waiterQueue struct {
	testing.TB
	lock *rlock.Lock
	got  chan *rlock.Hold // in the order of acquisition
	errs chan error       // of waiters that fail
}

func newWaiterQueue(tb testing.TB, lock *rlock.Lock) *waiterQueue {
	tb.Helper()
	return &waiterQueue{tb, lock, make(chan *rlock.Hold, 1000), make(chan error, 1000)}
}

func (q *waiterQueue) join(ctx context.Context, opts ...rlock.AcquireOption) {
	q.Helper()
	n := q.lock.Waiting()
	go func() {
		if hold, err := q.lock.Acquire(ctx, opts...); err == nil {
			q.got <- hold
		} else {
			q.errs <- err
		}
	}()
	eventually(q, "it waits", func() bool { return q.lock.Waiting() == n+1 })
}

// awaitSleep waits until the first waiter sleeps. That waiter has asked once after it subscribed, although this process holds
// the lock.
func (q *waiterQueue) awaitSleep(admin *redis.Client) {
	q.Helper()
	awaitSleepers(q, admin, 2, q.lock)
	require.NoError(q, admin.ConfigResetStat(context.Background()).Err())
}

// awaitSleepers waits until at least ran scripts have run, and the first waiter of each lock sleeps.
func awaitSleepers(tb testing.TB, admin *redis.Client, ran int, locks ...*rlock.Lock) {
	tb.Helper()
	eventually(tb, "the first waiters sleep", func() bool {
		return stats(tb, admin)["evalsha"] >= ran && !slices.ContainsFunc(locks, func(l *rlock.Lock) bool { return !l.Rests() })
	})
}

func (q *waiterQueue) next() *rlock.Hold {
	q.Helper()
	return within(q, "the next waiter acquires the lock", q.got)
}

// everyKind runs a test for every kind of lock that supports hand-overs.
func everyKind(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{"lock", "fenced", "write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

func makeLock(kind string, client *rlock.Client, name string) *rlock.Lock {
	return kinds[kind].make(client, name).(*rlock.Lock)
}

func TestAHandOverIsOneCommandAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind string) {
		t.Helper()
		server := redistest.Start(t)
		rdb, admin := server.Client(t), server.Client(t)
		client := newClient(t, rdb, rlock.WithHandOver(100, time.Hour))
		queue := newWaiterQueue(t, makeLock(kind, client, newName()))
		hold := must(queue.lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
		token := hold.Token()
		for i := range 5 {
			queue.join(t.Context(), rlock.Lease(time.Duration(i+1)*10*time.Minute))
		}
		queue.awaitSleep(admin)
		for i := range 5 {
			require.NoError(t, hold.Unlock(t.Context()))
			require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
			hold = queue.next()
			require.NoError(t, hold.Err())
			lease := time.Duration(i+1) * 10 * time.Minute
			require.InDelta(t, lease, admin.PTTL(t.Context(), queue.lock.Name()).Val(), float64(time.Minute), "the next holder's own lease")
			require.WithinRange(t, hold.Deadline(), time.Now(), time.Now().Add(lease))
			fields := holders(t, admin, queue.lock.Name())
			delete(fields, "mode")
			require.Len(t, fields, 1, "only the holder")
			if kind == "fenced" {
				require.Greater(t, hold.Token(), token)
				token = hold.Token()
			}
		}
		calls := stats(t, admin)
		require.Equal(t, 5, calls["hsetnx"], "only a hand-over calls HSETNX")
		require.Equal(t, 5, calls["evalsha"])
		require.Zero(t, calls["publish"])
		require.NoError(t, hold.Unlock(t.Context()))
		require.False(t, must(queue.lock.IsLocked(t.Context())), "without a waiter, the unlock frees the lock")
	})
}

func TestHandOversAreBounded(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		bound rlock.Option
		hold  time.Duration
		turns int // of this process before another process has its turn
	}{
		"in number":    {rlock.WithHandOver(3, time.Hour), 0, 4},
		"in time":      {rlock.WithHandOver(1000, 50*time.Millisecond), 60 * time.Millisecond, 1},
		"off by count": {rlock.WithHandOver(0, time.Hour), 0, 1},
		"off by time":  {rlock.WithHandOver(1000, 0), 0, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			everyKind(t, func(t *testing.T, kind string) {
				t.Helper()
				server := redistest.Start(t)
				client := newClient(t, server.Client(t), c.bound, rlock.WithStandBack(aLongTime), rlock.WithPollInterval(time.Hour))
				ours := newWaiterQueue(t, makeLock(kind, client, newName()))
				theirs := newWaiterQueue(t, makeLock(kind, newClient(t, server.Client(t)), ours.lock.Name()))
				hold := must(ours.lock.Acquire(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 8 {
					ours.join(ctx)
				}
				theirs.join(t.Context())
				awaitSleepers(t, server.Client(t), 4, ours.lock, theirs.lock) // each asks again after it subscribed
				for range c.turns - 1 {
					<-time.After(c.hold)
					require.NoError(t, hold.Unlock(t.Context()))
					hold = ours.next()
				}
				<-time.After(c.hold)
				require.NoError(t, hold.Unlock(t.Context()))
				require.NoError(t, theirs.next().Unlock(t.Context()), "the other process has its turn")
				require.NoError(t, ours.next().Unlock(t.Context()), "this process waits no longer than that turn takes")
			})
		})
	}
}

func TestAReleasingProcessDoesNotTakeTheLockStraightBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := newName()
	one := newClient(t, server.Client(t), rlock.WithStandBack(aLongTime), rlock.WithPollInterval(time.Hour)).NewLock(name)
	theirs := newWaiterQueue(t, newClient(t, server.Client(t)).NewLock(name))
	require.NoError(t, one.Lock(t.Context()))
	for range 20 {
		theirs.join(t.Context())
		eventually(t, "the other process listens", theirs.lock.Listens)
		require.NoError(t, one.Unlock(t.Context()))
		again := async(func() error { return one.Lock(t.Context()) })
		hold := theirs.next()
		eventually(t, "the first process listens", one.Listens)
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, within(t, "the first process has its turn again", again))
	}
}

func TestALockIsHandedOverOnlyToANewGrantOfTheSameKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := newClient(t, rdb)
	plain := client.NewLock(newName())
	fenced := client.NewFencedLock(plain.Name())
	hold := must(plain.Acquire(t.Context()))
	queue := newWaiterQueue(t, fenced)
	queue.join(t.Context())
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	require.NoError(t, hold.Unlock(t.Context()))
	hold = queue.next()
	require.Positive(t, hold.Token())
	require.Equal(t, 1, stats(t, admin)["publish"], "the release is public, because the waiter is of another kind")
	require.NoError(t, hold.Unlock(t.Context()))

	rw := client.NewRWLock(newName())
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, rw.WriteLock().Lock(owner))
	require.NoError(t, rw.ReadLock().Lock(owner))
	writers := newWaiterQueue(t, rw.WriteLock())
	writers.join(t.Context())
	require.NoError(t, rw.WriteLock().Unlock(owner))
	require.False(t, must(client.NewRWLock(rw.ReadLock().Name()).WriteLock().TryLock(t.Context())), "the owner still reads")
	readers := newWaiterQueue(t, rw.ReadLock())
	go func() {
		readers.got <- must(newClient(t, admin).NewRWLock(rw.ReadLock().Name()).ReadLock().Acquire(t.Context()))
	}()
	require.NoError(t, readers.next().Unlock(t.Context()), "readers of other processes may read too")
	require.NoError(t, rw.ReadLock().Unlock(owner))
	require.NoError(t, writers.next().Unlock(t.Context()))
}

func TestAHandOverThatGoesWrong(t *testing.T) {
	t.Parallel()
	for what, fault := range lossy {
		t.Run("its reply is lost, the connection "+what, func(t *testing.T) {
			t.Parallel()
			everyKind(t, func(t *testing.T, kind string) {
				t.Helper()
				f := newFaulty(t, quick(), rlock.WithHandOver(100, time.Hour))
				queue := newWaiterQueue(t, makeLock(kind, f.client, newName()))
				hold := must(queue.lock.Acquire(t.Context()))
				queue.join(t.Context())
				queue.join(t.Context())
				queue.awaitSleep(f.direct)
				met := fault(f.proxy, 1, rlock.Runs("handOver")).Met()
				require.NoError(t, hold.Unlock(t.Context()), "Redis ran the hand-over")
				within(t, "the reply is lost", met)
				hold = queue.next()
				require.NoError(t, hold.Err())
				require.NoError(t, hold.Unlock(t.Context()))
				require.NoError(t, queue.next().Unlock(t.Context()))
				eventually(t, "the lock is free", func() bool { return !must(queue.lock.IsLocked(t.Context())) })
			})
		})
	}
	t.Run("it arrives late", func(t *testing.T) {
		t.Parallel()
		everyKind(t, func(t *testing.T, kind string) {
			t.Helper()
			f := newFaulty(t, quick(), rlock.WithHandOver(100, time.Hour))
			queue := newWaiterQueue(t, makeLock(kind, f.client, newName()))
			hold := must(queue.lock.Acquire(t.Context()))
			queue.join(t.Context())
			queue.awaitSleep(f.direct)
			held := f.proxy.HoldRequest(1, rlock.Runs("handOver"))
			require.NoError(t, hold.Unlock(t.Context()), "the lock is released instead")
			hold = queue.next()
			require.NoError(t, hold.Unlock(t.Context()))
			lock := makeLock(kind, newClient(t, f.direct), queue.lock.Name())
			require.NoError(t, lock.Lock(t.Context(), rlock.Wait(aLongTime)))
			n := f.proxy.Count(rlock.Runs("handOver"))
			held.Release()
			eventually(t, "the hand-over arrives", func() bool { return f.proxy.Count(rlock.Runs("handOver")) == n+1 })
			stays(t, "the current holder keeps the lock", func() bool { return must(lock.IsHeld(t.Context())) })
			require.NoError(t, lock.Unlock(t.Context()))
			eventually(t, "the lock is free", func() bool { return !must(lock.IsLocked(t.Context())) })
		})
	})
	t.Run("the lock was lost", func(t *testing.T) {
		t.Parallel()
		everyKind(t, func(t *testing.T, kind string) {
			t.Helper()
			rdb := redistest.Start(t).Client(t)
			queue := newWaiterQueue(t, makeLock(kind, newClient(t, rdb, rlock.WithHandOver(100, time.Hour)), newName()))
			hold := must(queue.lock.Acquire(t.Context()))
			queue.join(t.Context())
			queue.awaitSleep(rdb)
			require.NoError(t, rdb.Del(t.Context(), queue.lock.Name()).Err())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
			require.NoError(t, queue.next().Unlock(t.Context()), "the next waiter acquires the lock itself")
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
			everyKind(t, func(t *testing.T, kind string) {
				t.Helper()
				f := newFaulty(t, nil, rlock.WithHandOver(100, time.Hour))
				queue := newWaiterQueue(t, makeLock(kind, f.client, newName()))
				first := must(queue.lock.Acquire(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				queue.join(ctx)
				queue.join(t.Context())
				queue.awaitSleep(f.direct)
				held := hold(f.proxy, 1, rlock.Runs("handOver"))
				unlocking := async(func() error { return first.Unlock(t.Context()) })
				within(t, "the hand-over is in flight", held.Met())
				cancel()
				require.ErrorIs(t, within(t, "the waiter leaves", queue.errs), rlock.ErrNotAcquired)
				held.Release()
				require.NoError(t, within(t, "the unlock returns", unlocking))
				require.NoError(t, queue.next().Unlock(t.Context()), "the waiter behind it acquires the lock")
				eventually(t, "nothing is left in the client", func() bool { return f.client.Remains() == 0 })
				require.False(t, must(queue.lock.IsLocked(t.Context())))
			})
		})
	}
}

func TestATryLockOfALockHeldInThisProcessSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	// For a hold with Lease, the client relies on the last reply for a third of the watchdog timeout.
	client := newClient(t, rdb, rlock.WithWatchdogTimeout(time.Hour), rlock.WithLogger(discard))
	for kind, k := range kinds {
		if k.groups || kind == "read" {
			continue
		}
		lock := makeLock(kind, client, newName())
		hold := must(lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
		require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
		for range 10 {
			require.False(t, must(lock.TryLock(t.Context())), kind)
			require.ErrorIs(t, second(lock.TryAcquire(rlock.WithOwner(t.Context()))), rlock.ErrNotAcquired, kind)
		}
		require.Zero(t, stats(t, admin)["evalsha"], kind)
		require.True(t, must(lock.ForceUnlock(t.Context())), kind)
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		require.True(t, must(lock.TryLock(t.Context())), "a force unlock by this client takes effect at once: "+kind)
		require.NoError(t, lock.Unlock(t.Context()))
		eventually(t, "nothing is left in the client", func() bool { return client.Remains() == 0 })
	}
	rw := client.NewRWLock(newName())
	require.NoError(t, rw.ReadLock().Lock(t.Context()))
	require.True(t, must(rw.ReadLock().TryLock(t.Context())), "readers share")
	require.NoError(t, rw.ReadLock().Unlock(t.Context()))
	require.NoError(t, rw.ReadLock().Unlock(t.Context()))
}

func TestATryLockOfALockForcedElsewhereSucceedsAfterARenewal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	client := newClient(t, rdb, rlock.WithWatchdogTimeout(time.Second), rlock.WithLogger(discard))
	stranger := newClient(t, rdb)
	for kind, k := range kinds {
		if k.groups || kind == "read" {
			continue
		}
		lock := makeLock(kind, client, newName())
		hold := must(lock.Acquire(t.Context()))
		require.True(t, must(makeLock(kind, stranger, lock.Name()).ForceUnlock(t.Context())), kind)
		within(t, "the next renewal reports the loss", hold.Done())
		require.True(t, must(lock.TryLock(t.Context())), kind)
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

func TestTheLatestHolderYieldsLongest(t *testing.T) {
	t.Parallel()
	const turn = 4 * time.Millisecond
	last := rlock.Yield(turn, turn, 3)
	before := rlock.Yield(turn, 2*turn, 3)
	require.Greater(t, last, before)
	require.Greater(t, before, rlock.Yield(turn, 3*turn, 3))
	require.LessOrEqual(t, last, turn/10)
	require.LessOrEqual(t, rlock.Yield(time.Hour, time.Minute, 3), time.Millisecond, "the yield is bounded, however long a turn is")
	for what, d := range map[string]time.Duration{
		"a release some turns ago": rlock.Yield(turn, 4*turn, 3),
		"only one other listener":  rlock.Yield(turn, turn, 1),
		"a very short turn":        rlock.Yield(100*time.Microsecond, 100*time.Microsecond, 3),
		"a turn of zero":           rlock.Yield(0, 0, 3),
		"a release very long ago":  rlock.Yield(turn, time.Hour, 3),
	} {
		require.Zero(t, d, what)
	}
}
