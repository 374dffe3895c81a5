package rlock_test

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
)

// faulty is a lock whose commands pass through a proxy, with the server behind that proxy.
type faulty struct {
	*testing.T
	server *redistest.Server
	proxy  *redistest.Proxy
	direct *redis.Client // bypasses the proxy
	client *rlock.Client
	lock   *rlock.Lock
	other  *rlock.Lock // of another client, which bypasses the proxy
	log    *recorder
}

// newFaulty loads the scripts into Redis, so that each fault hits the intended command.
func newFaulty(t *testing.T, opt *redis.Options, opts ...rlock.Option) *faulty {
	t.Helper()
	f := &faulty{T: t, server: redistest.Start(t)}
	f.proxy = redistest.NewProxy(t, f.server.Addr)
	f.direct = f.server.Client(t)
	for _, source := range rlock.Sources() {
		require.NoError(t, f.direct.ScriptLoad(t.Context(), source).Err())
	}
	own := redis.Options{} // a copy, because parallel tests may share opt
	if opt != nil {
		own = *opt
	}
	own.Addr = f.proxy.Addr
	logger, log := recording()
	f.log = log
	f.client = newClient(t, redistest.Open(t, &own), append([]rlock.Option{logger}, opts...)...)
	name := newName()
	f.lock = f.client.NewLock(name)
	f.other = newClient(t, f.direct).NewLock(name)
	return f
}

// free checks that the lock has no holder. If a command was lost, a tombstone may be left.
func (f *faulty) free(msg string) {
	f.Helper()
	require.Empty(f, holders(f, f.direct, f.lock.Name()), msg)
}

func (f *faulty) count() string {
	f.Helper()
	fields := holders(f, f.direct, f.lock.Name())
	require.LessOrEqual(f, len(fields), 1)
	for _, count := range fields {
		return count
	}
	return "0"
}

// lossy lists the ways to lose a reply: the connection breaks, or it stays open and silent.
var lossy = map[string]func(*redistest.Proxy, int, func(redistest.Command) bool) *redistest.Fault{
	"broken": (*redistest.Proxy).DropReply,
	"silent": (*redistest.Proxy).SwallowReply,
}

// quick makes go-redis give up on a silent connection soon. MaxRetries keeps its default of 3, so that go-redis would send a
// command again if rlock let it.
func quick() *redis.Options { return &redis.Options{ReadTimeout: 150 * time.Millisecond} }

func TestAnAcquireWhoseReplyIsLostIsCountedOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range lossy {
		for _, times := range []int{1, 2} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				f := newFaulty(t, quick())
				fault := lose(f.proxy, times, rlock.Runs("acquire"))
				require.NoError(t, f.lock.Lock(t.Context()))
				require.Equal(t, "1", f.count())
				require.Len(t, fault.Met(), times)
				require.Equal(t, times+1, f.proxy.Count(rlock.Runs("acquire")), "go-redis must not send a command again")
				require.NoError(t, f.lock.Unlock(t.Context()))
				f.free("one unlock releases it")
				require.Equal(t, 1, f.proxy.Count(rlock.Runs("release")))
			})
		}
	}
}

func TestATryLockWhoseReplyIsLostFailsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for how, lose := range lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, quick())
			lose(f.proxy, 1, rlock.Runs("acquire"))
			ok, err := f.lock.TryLock(t.Context())
			require.False(t, ok)
			require.Error(t, err, "the outcome is in doubt")
			require.NotErrorIs(t, err, rlock.ErrNotAcquired, "it is not contention")
			require.ErrorIs(t, f.lock.Unlock(t.Context()), rlock.ErrNotHeld)
			require.NoError(t, f.other.Lock(t.Context(), rlock.Wait(aLongTime)), "no leftover holder blocks the lock for a lease")
			require.NoError(t, f.other.Unlock(t.Context()))
		})
	}
}

func TestAReleaseWhoseReplyIsLostReportsNoLoss(t *testing.T) {
	t.Parallel()
	for how, lose := range lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, quick())
			for range 5 {
				require.NoError(t, f.lock.Lock(t.Context()))
				lose(f.proxy, 2, rlock.Runs("release"))
				require.NoError(t, f.lock.Unlock(t.Context()))
				f.free("released")
			}
		})
	}
}

func TestAReentryWhoseReplyIsLostIsCountedOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, quick())
			ctx := rlock.WithOwner(t.Context())
			require.NoError(t, f.lock.Lock(ctx))
			lose(f.proxy, 2, rlock.Runs("count"))
			require.NoError(t, f.lock.Lock(ctx))
			require.Equal(t, "2", f.count())

			lose(f.proxy, 1, rlock.Runs("count"))
			_, err := f.lock.TryLock(ctx)
			require.Error(t, err, "a single attempt")
			n, err := f.lock.HoldCount(ctx)
			require.NoError(t, err)
			require.Equal(t, 2, n)

			lose(f.proxy, 1, rlock.Runs("count"))
			require.NoError(t, f.lock.Unlock(ctx), "the client counts, so the partial release succeeds")
			require.NoError(t, f.lock.Unlock(ctx))
			f.free("two locks, two unlocks")
		})
	}
}

func TestARenewalWhoseReplyIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	for how, lose := range lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, quick(), rlock.WithWatchdogTimeout(2*time.Second))
			hold, err := f.lock.Acquire(t.Context())
			require.NoError(t, err)
			fault := lose(f.proxy, 3, rlock.Runs("renew"))
			for range 3 {
				within(t, "a renewal's reply is lost", fault.Met())
			}
			before := hold.Deadline()
			eventually(t, "a later renewal succeeds", func() bool { return hold.Deadline().After(before) })
			require.NoError(t, hold.Err())
			require.Equal(t, "1", f.count())
			require.NoError(t, hold.Unlock(t.Context()))
			f.free("released")
		})
	}
}

func TestAnAcquireThatArrivesAfterItsReleaseCreatesNoHolder(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	held := f.proxy.HoldRequest(1, rlock.Runs("acquire"))
	require.NoError(t, f.lock.Lock(t.Context()), "the retry gets the lock")
	require.NoError(t, f.lock.Unlock(t.Context()))
	f.free("released")
	n := f.proxy.Count(rlock.Runs("acquire"))
	held.Release()
	eventually(t, "the delayed acquire arrives", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == n+1 })
	require.NoError(t, f.direct.Ping(t.Context()).Err())
	stays(t, "no holder comes back", func() bool { return f.count() == "0" })
}

func TestAnAcquireThatArrivesAfterItsCallerLeftCreatesNoHolder(t *testing.T) {
	t.Parallel()
	for what, timeout := range map[string]time.Duration{
		"while go-redis waits for the reply": 5 * time.Second,
		"after go-redis has given up":        100 * time.Millisecond,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, &redis.Options{ReadTimeout: timeout})
			held := f.proxy.HoldRequest(1, rlock.Runs("acquire"))
			ctx, cancel := context.WithCancel(t.Context())
			locking := async(func() error { return f.lock.Lock(ctx) })
			within(t, "the acquire is in flight", held.Met())
			cancel()
			require.ErrorIs(t, within(t, "the call returns", locking), context.Canceled)
			if timeout < time.Second {
				eventually(t, "the release is sent", func() bool { return f.proxy.Count(rlock.Runs("release")) > 0 })
			}
			held.Release()
			eventually(t, "the delayed acquire arrives", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == 1 })
			eventually(t, "nothing is left of it", func() bool {
				return f.proxy.Count(rlock.Runs("release")) > 0 && f.count() == "0"
			})
			require.Equal(t, 1, f.proxy.Count(rlock.Runs("acquire")))
		})
	}
}

func TestALateReleaseDoesNotFreeTheNextHold(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx := rlock.WithOwner(t.Context())
	held := f.proxy.HoldRequest(1, rlock.Runs("release"))
	require.NoError(t, f.lock.Lock(ctx))
	require.Error(t, f.lock.Unlock(ctx), "the release is in doubt")
	require.ErrorIs(t, f.lock.Unlock(ctx), rlock.ErrNotHeld, "the hold is over nevertheless")
	require.NoError(t, f.lock.Lock(ctx), "the retry in the background frees the lock")
	n := f.proxy.Count(rlock.Runs("release"))
	held.Release()
	eventually(t, "the delayed release arrives", func() bool { return f.proxy.Count(rlock.Runs("release")) == n+1 })
	stays(t, "the next hold stays", func() bool { return f.count() == "1" })
	require.NoError(t, f.lock.Unlock(ctx))
}

func TestACallReturnsWhenItsContextEndsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	f.server.Pause()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := f.lock.TryLock(ctx)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("returned after %v", took)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, rlock.ErrNotAcquired) {
				t.Errorf("unexpected error: %v", err)
			}
		})
	}
	wg.Wait()
	f.server.Resume()
	require.NoError(t, f.other.Lock(t.Context(), rlock.Wait(aLongTime)), "no leftover holder blocks the lock for a lease")
	require.NoError(t, f.other.Unlock(t.Context()))
}

func TestAHoldSurvivesAnOutageShorterThanItsLease(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, quick(), rlock.WithWatchdogTimeout(3*time.Second))
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	f.proxy.Freeze()
	renewed := hold.Deadline()
	eventually(t, "half of the lease is over", func() bool { return time.Until(renewed) < 1500*time.Millisecond })
	f.proxy.Thaw()
	eventually(t, "it is renewed", func() bool { return hold.Deadline().After(renewed) })
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAHoldEndsAtItsDeadlineInALongOutage(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, quick(), rlock.WithWatchdogTimeout(time.Second), rlock.WithCommandTimeout(300*time.Millisecond))
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	f.proxy.Freeze()
	deadline := hold.Deadline()
	within(t, "the hold is over", hold.Done())
	require.False(t, time.Now().Before(deadline))
	require.WithinDuration(t, deadline, time.Now(), time.Second)
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.Error(t, hold.Unlock(t.Context()))
	f.proxy.Thaw()
	require.NoError(t, f.other.Lock(t.Context(), rlock.Wait(aLongTime)))
	require.NoError(t, f.other.Unlock(t.Context()))
}

func TestAnUnwatchedLossIsLogged(t *testing.T) {
	t.Parallel()
	logger, log := recording()
	rdb := redistest.Embedded(t)
	lock := newClient(t, rdb, logger, rlock.WithWatchdogTimeout(300*time.Millisecond)).NewLock(newName())
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, rdb.Del(t.Context(), lock.Name()).Err())
	eventually(t, "the loss is logged", func() bool { return log.Contains("lock lost while held") })
	require.Contains(t, log.String(), lock.Name())
	require.ErrorIs(t, lock.Unlock(t.Context()), rlock.ErrLost)
}

func second[T any](_ T, err error) error { return err }

func TestALockWithoutALeaseGetsOne(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := newClient(t, rdb)
		for what, fields := range map[string][]any{
			"a lock":            {"71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:87", 1},
			"a read-write lock": {"mode", "read", "71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:-87", 1},
		} {
			lock := client.NewLock(newName())
			require.NoError(t, rdb.HSet(ctx, lock.Name(), fields...).Err())
			ok, err := lock.TryLock(ctx)
			require.NoError(t, err)
			require.False(t, ok)
			require.Greater(t, rdb.PTTL(ctx, lock.Name()).Val(), time.Second, what)
		}
		lock := client.NewLock(newName())
		require.NoError(t, rdb.HSet(ctx, lock.Name(), "name", "Ada").Err())
		ok, err := lock.TryLock(ctx)
		require.NoError(t, err)
		require.False(t, ok)
		require.EqualValues(t, -1, rdb.PTTL(ctx, lock.Name()).Val(), "data that is not a lock gets no lease")
		left, err := lock.TTL(ctx)
		require.NoError(t, err)
		require.Negative(t, left)
	})
}

func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, DialerRetries: 1})
	logger, _ := recording()
	client := newClient(t, rdb, logger, rlock.WithCommandTimeout(500*time.Millisecond))
	lock := client.NewLock(newName())
	require.NoError(t, lock.Lock(t.Context(), rlock.Lease(time.Second)))
	server.Kill()
	free := client.NewLock(newName())
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

	waiting := async(func() error { return lock.Lock(t.Context()) })
	server.Run()
	require.NoError(t, within(t, "a waiting Lock gets it when Redis is back", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

// stays checks that a condition holds for 300 ms.
func stays(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		require.True(tb, condition(), what)
		<-time.After(10 * time.Millisecond)
	}
}
