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

// line has waiters of one lock come one after the other, so that their order is known.
type line struct {
	testing.TB
	lock *rlock.Lock
	got  chan *rlock.Hold // as they are served
	errs chan error       // of those who are not
}

func newLine(tb testing.TB, lock *rlock.Lock) *line {
	tb.Helper()
	return &line{tb, lock, make(chan *rlock.Hold, 1000), make(chan error, 1000)}
}

func (l *line) join(ctx context.Context, opts ...rlock.AcquireOption) {
	l.Helper()
	n := l.lock.Waiting()
	go func() {
		if hold, err := l.lock.Acquire(ctx, opts...); err == nil {
			l.got <- hold
		} else {
			l.errs <- err
		}
	}()
	eventually(l, "it waits", func() bool { return l.lock.Waiting() == n+1 })
}

// settle waits until the first waiter sleeps. It asks once, when it is subscribed, though the lock is held here.
func (l *line) settle(admin *redis.Client) {
	l.Helper()
	rest(l, admin, 2, l.lock)
	require.NoError(l, admin.ConfigResetStat(context.Background()).Err())
}

// rest waits until so many scripts have run, and the first waiters of these locks sleep.
func rest(tb testing.TB, admin *redis.Client, ran int, locks ...*rlock.Lock) {
	tb.Helper()
	eventually(tb, "the first waiters sleep", func() bool {
		return stats(tb, admin)["evalsha"] >= ran && !slices.ContainsFunc(locks, func(l *rlock.Lock) bool { return !l.Rests() })
	})
}

func (l *line) next() *rlock.Hold {
	l.Helper()
	return within(l, "the next one is served", l.got)
}

// everyKind runs a test for every kind of lock that is handed over.
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
		queue := newLine(t, makeLock(kind, client, newName()))
		hold := must(queue.lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
		token := hold.Token()
		for i := range 5 {
			queue.join(t.Context(), rlock.Lease(time.Duration(i+1)*10*time.Minute))
		}
		queue.settle(admin)
		for i := range 5 {
			require.NoError(t, hold.Unlock(t.Context()))
			require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
			hold = queue.next()
			require.NoError(t, hold.Err())
			lease := time.Duration(i+1) * 10 * time.Minute
			require.InDelta(t, lease, admin.PTTL(t.Context(), queue.lock.Name()).Val(), float64(time.Minute), "its own lease")
			require.WithinRange(t, hold.Deadline(), time.Now(), time.Now().Add(lease))
			fields := holders(t, admin, queue.lock.Name())
			delete(fields, "mode")
			require.Len(t, fields, 1, "and only the holder")
			if kind == "fenced" {
				require.Greater(t, hold.Token(), token)
				token = hold.Token()
			}
		}
		calls := stats(t, admin)
		require.Equal(t, 5, calls["hsetnx"], "which only a hand-over calls")
		require.Equal(t, 5, calls["evalsha"])
		require.Zero(t, calls["publish"])
		require.NoError(t, hold.Unlock(t.Context()))
		require.False(t, must(queue.lock.IsLocked(t.Context())), "nobody waits: it is free")
	})
}

func TestHandOversAreBounded(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		bound rlock.Option
		hold  time.Duration
		turns int // of ours before another process has its turn
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
				ours := newLine(t, makeLock(kind, client, newName()))
				theirs := newLine(t, makeLock(kind, newClient(t, server.Client(t)), ours.lock.Name()))
				hold := must(ours.lock.Acquire(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 8 {
					ours.join(ctx)
				}
				theirs.join(t.Context())
				rest(t, server.Client(t), 4, ours.lock, theirs.lock) // each asks again when it is subscribed
				for range c.turns - 1 {
					<-time.After(c.hold)
					require.NoError(t, hold.Unlock(t.Context()))
					hold = ours.next()
				}
				<-time.After(c.hold)
				require.NoError(t, hold.Unlock(t.Context()))
				require.NoError(t, theirs.next().Unlock(t.Context()), "the other process has its turn")
				require.NoError(t, ours.next().Unlock(t.Context()), "and is not waited for longer than it takes")
			})
		})
	}
}

func TestWhoLetsGoDoesNotTakeTheLockStraightBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := newName()
	one := newClient(t, server.Client(t), rlock.WithStandBack(aLongTime), rlock.WithPollInterval(time.Hour)).NewLock(name)
	theirs := newLine(t, newClient(t, server.Client(t)).NewLock(name))
	require.NoError(t, one.Lock(t.Context()))
	for range 20 {
		theirs.join(t.Context())
		eventually(t, "the other process listens", theirs.lock.Listens)
		require.NoError(t, one.Unlock(t.Context()))
		again := async(func() error { return one.Lock(t.Context()) })
		hold := theirs.next()
		eventually(t, "the first one listens", one.Listens)
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, within(t, "and has its turn again", again))
	}
}

func TestOnlyAFreshPossessionOfTheSameKindIsHandedTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := newClient(t, rdb)
	plain := client.NewLock(newName())
	fenced := client.NewFencedLock(plain.Name())
	hold := must(plain.Acquire(t.Context()))
	queue := newLine(t, fenced)
	queue.join(t.Context())
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	require.NoError(t, hold.Unlock(t.Context()))
	hold = queue.next()
	require.Positive(t, hold.Token())
	require.Equal(t, 1, stats(t, admin)["publish"], "another kind: it is freed")
	require.NoError(t, hold.Unlock(t.Context()))

	rw := client.NewRWLock(newName())
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, rw.WriteLock().Lock(owner))
	require.NoError(t, rw.ReadLock().Lock(owner))
	writers := newLine(t, rw.WriteLock())
	writers.join(t.Context())
	require.NoError(t, rw.WriteLock().Unlock(owner))
	require.False(t, must(client.NewRWLock(rw.ReadLock().Name()).WriteLock().TryLock(t.Context())), "its owner goes on reading")
	readers := newLine(t, rw.ReadLock())
	go func() {
		readers.got <- must(newClient(t, admin).NewRWLock(rw.ReadLock().Name()).ReadLock().Acquire(t.Context()))
	}()
	require.NoError(t, readers.next().Unlock(t.Context()), "readers of other processes may join")
	require.NoError(t, rw.ReadLock().Unlock(owner))
	require.NoError(t, writers.next().Unlock(t.Context()))
}

func TestAHandOverThatGoesWrong(t *testing.T) {
	t.Parallel()
	for what, fault := range lossy {
		t.Run("its answer is lost, the connection "+what, func(t *testing.T) {
			t.Parallel()
			everyKind(t, func(t *testing.T, kind string) {
				t.Helper()
				f := newFaulty(t, quick(), rlock.WithHandOver(100, time.Hour))
				queue := newLine(t, makeLock(kind, f.client, newName()))
				hold := must(queue.lock.Acquire(t.Context()))
				queue.join(t.Context())
				queue.join(t.Context())
				queue.settle(f.direct)
				met := fault(f.proxy, 1, rlock.Runs("handOver")).Met()
				require.NoError(t, hold.Unlock(t.Context()), "it was carried out")
				within(t, "the answer is lost", met)
				hold = queue.next()
				require.NoError(t, hold.Err())
				require.NoError(t, hold.Unlock(t.Context()))
				require.NoError(t, queue.next().Unlock(t.Context()))
				eventually(t, "it is free", func() bool { return !must(queue.lock.IsLocked(t.Context())) })
			})
		})
	}
	t.Run("it comes late", func(t *testing.T) {
		t.Parallel()
		everyKind(t, func(t *testing.T, kind string) {
			t.Helper()
			f := newFaulty(t, quick(), rlock.WithHandOver(100, time.Hour))
			queue := newLine(t, makeLock(kind, f.client, newName()))
			hold := must(queue.lock.Acquire(t.Context()))
			queue.join(t.Context())
			queue.settle(f.direct)
			held := f.proxy.HoldRequest(1, rlock.Runs("handOver"))
			require.NoError(t, hold.Unlock(t.Context()), "it is released instead")
			hold = queue.next()
			require.NoError(t, hold.Unlock(t.Context()))
			lock := makeLock(kind, newClient(t, f.direct), queue.lock.Name())
			require.NoError(t, lock.Lock(t.Context(), rlock.Wait(aLongTime)))
			n := f.proxy.Count(rlock.Runs("handOver"))
			held.Release()
			eventually(t, "it arrives", func() bool { return f.proxy.Count(rlock.Runs("handOver")) == n+1 })
			stays(t, "the present holder is not replaced", func() bool { return must(lock.IsHeld(t.Context())) })
			require.NoError(t, lock.Unlock(t.Context()))
			eventually(t, "it is free", func() bool { return !must(lock.IsLocked(t.Context())) })
		})
	})
	t.Run("the lock was lost", func(t *testing.T) {
		t.Parallel()
		everyKind(t, func(t *testing.T, kind string) {
			t.Helper()
			rdb := redistest.Start(t).Client(t)
			queue := newLine(t, makeLock(kind, newClient(t, rdb, rlock.WithHandOver(100, time.Hour)), newName()))
			hold := must(queue.lock.Acquire(t.Context()))
			queue.join(t.Context())
			queue.settle(rdb)
			require.NoError(t, rdb.Del(t.Context(), queue.lock.Name()).Err())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
			require.NoError(t, queue.next().Unlock(t.Context()), "the next one takes it himself")
		})
	})
}

func TestAWaiterThatLeavesWhileItIsHandedTheLock(t *testing.T) {
	t.Parallel()
	for what, hold := range map[string]func(*redistest.Proxy, int, func(redistest.Command) bool) *redistest.Fault{
		"before it is carried out": (*redistest.Proxy).HoldRequest,
		"after":                    (*redistest.Proxy).HoldReply,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			everyKind(t, func(t *testing.T, kind string) {
				t.Helper()
				f := newFaulty(t, nil, rlock.WithHandOver(100, time.Hour))
				queue := newLine(t, makeLock(kind, f.client, newName()))
				first := must(queue.lock.Acquire(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				queue.join(ctx)
				queue.join(t.Context())
				queue.settle(f.direct)
				held := hold(f.proxy, 1, rlock.Runs("handOver"))
				unlocking := async(func() error { return first.Unlock(t.Context()) })
				within(t, "the hand-over is on its way", held.Met())
				cancel()
				require.ErrorIs(t, within(t, "the waiter leaves", queue.errs), rlock.ErrNotAcquired)
				held.Release()
				require.NoError(t, within(t, "the unlock returns", unlocking))
				require.NoError(t, queue.next().Unlock(t.Context()), "the one behind gets it")
				eventually(t, "nothing is left in the client", func() bool { return f.client.Remains() == 0 })
				require.False(t, must(queue.lock.IsLocked(t.Context())))
			})
		})
	}
}

func TestATryLockOfWhatThisProcessHoldsAsksNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	// What a hold with Lease was told is believed for a third of the timeout.
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
		require.True(t, must(lock.TryLock(t.Context())), "forced here, it is known at once: "+kind)
		require.NoError(t, lock.Unlock(t.Context()))
		eventually(t, "nothing more is sent for it", func() bool { return client.Remains() == 0 })
	}
	rw := client.NewRWLock(newName())
	require.NoError(t, rw.ReadLock().Lock(t.Context()))
	require.True(t, must(rw.ReadLock().TryLock(t.Context())), "readers share")
	require.NoError(t, rw.ReadLock().Unlock(t.Context()))
	require.NoError(t, rw.ReadLock().Unlock(t.Context()))
}

func TestATryLockOfWhatWasForcedElsewhereSucceedsAfterARenewal(t *testing.T) {
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
		within(t, "it is known at the next renewal", hold.Done())
		require.True(t, must(lock.TryLock(t.Context())), kind)
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

func TestWhoHadTheLockLastComesLater(t *testing.T) {
	t.Parallel()
	const turn = 4 * time.Millisecond
	last := rlock.Yield(turn, turn, 3)
	before := rlock.Yield(turn, 2*turn, 3)
	require.Greater(t, last, before)
	require.Greater(t, before, rlock.Yield(turn, 3*turn, 3))
	require.LessOrEqual(t, last, turn/10)
	require.LessOrEqual(t, rlock.Yield(time.Hour, time.Minute, 3), time.Millisecond, "however long a turn is")
	for what, d := range map[string]time.Duration{
		"who had it long ago":      rlock.Yield(turn, 4*turn, 3),
		"one of two":               rlock.Yield(turn, turn, 1),
		"who has it for a moment":  rlock.Yield(100*time.Microsecond, 100*time.Microsecond, 3),
		"who had it for no moment": rlock.Yield(0, 0, 3),
		"who had it long long ago": rlock.Yield(turn, time.Hour, 3),
	} {
		require.Zero(t, d, what)
	}
}
