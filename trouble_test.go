package rlock_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// This file tests owners, waiters and closing clients while Redis does not reply.

func TestALostGrantGetsATombstone(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, quick())
	held := f.proxy.HoldRequest(1, rlock.Runs("acquire")) // go-redis times out, and the retry is granted
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	_ = hold.Done()
	require.NoError(t, second(f.lock.ForceUnlock(t.Context())))
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	eventually(t, "the tombstone of its number is written", func() bool { return f.client.Remains() == 0 })
	n := f.proxy.Count(rlock.Runs("acquire"))
	held.Release()
	eventually(t, "the delayed acquire arrives", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == n+1 })
	stays(t, "no holder comes back", func() bool { return f.count() == "0" })
}

// outage is a network that can be switched off. While it is down, every write and every connection fails.
type outage struct{ down atomic.Bool }

func (o *outage) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return outageConn{conn, o}, err
}

type outageConn struct {
	net.Conn
	*outage
}

func (c outageConn) Write(b []byte) (int, error) {
	if c.down.Load() {
		return 0, &net.OpError{Op: "write", Err: errors.New("no route to host")}
	}
	return c.Conn.Write(b)
}

func TestALateGrantIsReleasedHoweverLongTheOutage(t *testing.T) {
	t.Parallel()
	var network outage
	f := newFaulty(t, &redis.Options{Dialer: network.dial, DialerRetries: 1}, rlock.WithCommandTimeout(300*time.Millisecond))
	held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := async(func() error { return f.lock.Lock(ctx, rlock.Lease(time.Hour)) })
	within(t, "Redis has granted the lock", held.Met())
	cancel()
	require.ErrorIs(t, within(t, "the call returns", locking), context.Canceled)
	network.down.Store(true)
	held.Release()
	<-time.After(time.Second) // several command timeouts
	require.Equal(t, "1", f.count())
	network.down.Store(false)
	eventually(t, "the late grant is released", func() bool { return f.count() == "0" })
}

func TestAnUnlockDoesNotWaitForARetryingReentry(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	require.NoError(t, f.lock.Lock(ctx, rlock.Lease(time.Minute)))
	f.proxy.Freeze()
	reentering := async(func() error { return f.lock.Lock(ctx) })
	n := f.proxy.Opened()
	eventually(t, "the re-entry is retried", func() bool { return f.proxy.Opened() > n })
	unlocking := async(func() error { return f.lock.Unlock(ctx) })
	require.Error(t, within(t, "the unlock gives up after the command timeout", unlocking))
	cancel()
	require.Error(t, within(t, "the re-entry ends", reentering))
	f.proxy.Thaw()
	require.NoError(t, f.other.Lock(t.Context(), rlock.Wait(aLongTime)))
	require.NoError(t, f.other.Unlock(t.Context()))
}

func TestASingleAttemptDoesNotWaitForItsOwnersWaits(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	owner := rlock.WithOwner(ctx)
	try := func() <-chan error {
		return async(func() error { return second(f.lock.TryAcquire(owner)) })
	}
	require.NoError(t, f.other.Lock(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.lock.Lock(ctx) })
	eventually(t, "a stranger waits", func() bool { return f.lock.Waiting() == 1 })
	wg.Go(func() { _ = f.lock.Lock(owner) })
	eventually(t, "the owner waits behind the stranger", func() bool { return f.lock.Waiting() == 2 })
	require.ErrorIs(t, within(t, "TryAcquire returns", try()), rlock.ErrNotAcquired)
	cancel()
	wg.Wait()

	for _, behind := range []bool{false, true} {
		owner = rlock.WithOwner(t.Context()) //nolint:fatcontext // a new context, not nested in the previous one
		ctx, cancel = context.WithCancel(owner)
		f.proxy.Freeze()
		waiters := 1
		if behind {
			wg.Go(func() { _ = f.lock.Lock(rlock.WithOwner(ctx)) })
			eventually(t, "another owner waits", func() bool { return f.lock.Waiting() == waiters })
			waiters++
		}
		wg.Go(func() { _ = f.lock.Lock(ctx) })
		eventually(t, "the owner waits", func() bool { return f.lock.Waiting() == waiters })
		err := within(t, "TryAcquire returns", try())
		require.Error(t, err)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis replied to nobody")
		cancel()
		wg.Wait()
		f.proxy.Thaw()
	}
	require.NoError(t, f.other.Unlock(t.Context()))
}

func TestSilenceIsNotContention(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(300*time.Millisecond))
	f.proxy.Freeze()
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			ok, err := f.lock.TryLock(t.Context(), rlock.Wait(time.Duration(i+1)*50*time.Millisecond))
			if ok || err == nil {
				t.Errorf("waiter %d: %v, %v, although no reply said that the lock is held", i, ok, err)
			}
		})
	}
	wg.Wait()
	f.proxy.Thaw()
}

func TestAReentryIsNeverRefused(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	require.NoError(t, f.lock.Lock(ctx))
	held := f.proxy.HoldReply(1, rlock.Runs("count"))
	trying := make(chan bool, 1)
	go func() {
		ok, err := f.lock.TryLock(ctx, rlock.Wait(10*time.Millisecond))
		if err != nil {
			t.Error(err)
		}
		trying <- ok
	}()
	within(t, "Redis has replied", held.Met())
	<-time.After(100 * time.Millisecond) // the wait has ended
	held.Release()
	require.True(t, within(t, "TryLock returns", trying), "the first attempt runs to completion")
	require.NoError(t, f.lock.Unlock(ctx))
	require.NoError(t, f.lock.Unlock(ctx))
}

func TestAWaitEndsWhileAllConnectionsAreBusy(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, &redis.Options{PoolSize: 2}, rlock.WithCommandTimeout(time.Minute))
	held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := async(func() error { return f.lock.Lock(ctx) })
	within(t, "an acquire hangs", held.Met())
	trying := async(func() error {
		return second(f.client.NewLock(newName()).TryLock(t.Context(), rlock.Wait(100*time.Millisecond)))
	})
	err := within(t, "the wait ends", trying)
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	cancel()
	require.Error(t, within(t, "the call returns", locking))
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
				f := newFaulty(t, opt, rlock.WithWatchdogTimeout(900*time.Millisecond))
				hold, err := f.lock.Acquire(t.Context())
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				owners := make([]context.Context, 6)
				locks := make([]*rlock.Lock, 6)
				for i := range owners {
					owners[i] = rlock.WithOwner(ctx) //nolint:fatcontext // siblings, not nested
					locks[i] = f.client.NewLock(newName())
					if script == "count" {
						require.NoError(t, locks[i].Lock(owners[i], rlock.Lease(time.Minute)))
					}
				}
				held := f.proxy.HoldReply(-1, rlock.Runs(script))
				for i, owner := range owners {
					wg.Go(func() {
						if script == "inspect" {
							_, _ = locks[i].IsLocked(owner)
						} else {
							_, _ = locks[i].TryLock(owner)
						}
					})
				}
				within(t, "one call hangs", held.Met())
				for range 4 {
					before := hold.Deadline()
					eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
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
	f := newFaulty(t, &redis.Options{ReadTimeout: -1, PoolSize: 3}, rlock.WithCommandTimeout(200*time.Millisecond))
	f.proxy.SwallowReply(2, rlock.Runs("acquire"))
	for range 2 {
		require.Error(t, second(f.lock.TryLock(t.Context())))
	}
	require.NoError(t, f.other.Lock(t.Context(), rlock.Wait(aLongTime)), "no abandoned call leaves the lock held")
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, f.lock.Lock(t.Context()), "no connection is missing from the pool")
	f.proxy.SwallowReply(-1, rlock.Runs("release"))
	require.NoError(t, f.client.Close())
	unlocking := async(func() error { return f.lock.Unlock(t.Context()) })
	require.Error(t, within(t, "an unlock after Close returns", unlocking))

	cluster := redis.NewClusterClient(&redis.ClusterOptions{ReadTimeout: -1})
	defer cluster.Close()
	require.ErrorIs(t, second(rlock.New(cluster)), rlock.ErrInvalidOption)
}

func TestAPartialUnlockAfterTheDeadlineIsALoss(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx := rlock.WithOwner(t.Context())
	var holds [3]*rlock.Hold
	for i := range holds {
		var err error
		holds[i], err = f.lock.Acquire(ctx, rlock.Lease(time.Second))
		require.NoError(t, err)
	}
	f.proxy.Freeze()
	within(t, "the lease ends", holds[0].Done())
	require.ErrorIs(t, holds[0].Unlock(ctx), rlock.ErrLost)
	f.proxy.Thaw()
}

func TestCloseIsBoundedAndEndsEveryWait(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, &redis.Options{ReadTimeout: 3 * time.Second}, rlock.WithCommandTimeout(400*time.Millisecond))
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	f.proxy.Freeze()
	locking := make(chan error, 4)
	for range 4 {
		go func() { locking <- f.lock.Lock(ctx) }()
	}
	n := f.proxy.Opened()
	eventually(t, "the waiters call Redis, and the subscription connects", func() bool { return f.proxy.Opened() > n+1 })
	start := time.Now()
	require.NoError(t, f.client.Close())
	require.Less(t, time.Since(start), 2*time.Second)
	for range 4 {
		require.ErrorIs(t, within(t, "the wait ends", locking), rlock.ErrClosed)
	}
	require.Less(t, time.Since(start), 2500*time.Millisecond, "no waiter waits for the redis client")
	f.proxy.Thaw()
}

func TestForceUnlockEndsAGrantWhoseReplyIsInFlight(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	acquiring := make(chan *rlock.Hold, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		hold, err := f.lock.Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		acquiring <- hold
	}()
	within(t, "Redis has granted the lock", held.Met())
	require.NoError(t, second(f.lock.ForceUnlock(t.Context())))
	held.Release()
	hold := within(t, "the lock is acquired", acquiring)
	require.NoError(t, hold.Err())
	require.Equal(t, "1", f.count(), "the returned hold was granted after the force unlock")
	require.NoError(t, hold.Unlock(t.Context()))
}

// slowHandler is a log handler that blocks until unblock is closed.
type slowHandler struct {
	slog.Handler
	unblock chan struct{}
}

func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-h.unblock
	return nil
}

func TestASlowLogHandlerDelaysNothing(t *testing.T) {
	t.Parallel()
	unblock := make(chan struct{})
	logger := slog.New(slowHandler{slog.DiscardHandler, unblock})
	rdb := redistest.Embedded(t)
	client := newClient(t, rdb, rlock.WithLogger(logger), rlock.WithWatchdogTimeout(300*time.Millisecond))
	lost := client.NewLock(newName())
	require.NoError(t, lost.Lock(t.Context()))
	hold, err := client.NewLock(newName()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), lost.Name()).Err())
	for range 6 {
		before := hold.Deadline()
		eventually(t, "the other hold is renewed", func() bool { return hold.Deadline().After(before) })
	}
	close(unblock)
	require.ErrorIs(t, lost.Unlock(t.Context()), rlock.ErrLost)
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestADroppedHoldDoesNotBlockItsOwner(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	lock := client.NewLock(newName())
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, second(lock.TryAcquire(owner, rlock.Lease(2*time.Second))))
	eventually(t, "the owner can lock again", func() bool {
		runtime.GC()
		ok, err := lock.TryLock(owner)
		require.True(t, err == nil || errors.Is(err, rlock.ErrLost))
		return ok
	})
	require.NoError(t, lock.Unlock(owner))
}

func TestALateReplyToACancelledQueryIsDiscarded(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	held := f.proxy.HoldReply(1, rlock.Runs("inspect"))
	ctx, cancel := context.WithCancel(t.Context())
	querying := async(func() error { return second(f.lock.IsLocked(ctx)) })
	within(t, "Redis has replied", held.Met())
	cancel()
	require.ErrorIs(t, within(t, "the query returns", querying), context.Canceled)
	held.Release()
	require.NoError(t, f.client.Close()) // waits for the reply
}

func TestAHoldDroppedDuringItsReleaseIsReleasedOnce(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(10*time.Second))
	gone := make(chan struct{})
	held := f.proxy.HoldReply(1, rlock.Runs("release"))
	func() {
		hold, err := f.lock.Acquire(t.Context())
		require.NoError(t, err)
		runtime.AddCleanup(hold, func(struct{}) { close(gone) }, struct{}{})
		require.NoError(t, second(f.lock.ForceUnlock(t.Context())))
		within(t, "the detached release is under way", held.Met())
		runtime.KeepAlive(hold)
	}()
	eventually(t, "the hold is collected", func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
	stays(t, "the hold is released once", func() bool { return f.proxy.Count(rlock.Runs("release")) == 1 })
	held.Release()
	start := time.Now()
	require.NoError(t, f.client.Close())
	require.Less(t, time.Since(start), 5*time.Second, "Close has nothing to wait for")
}

func TestTheDoneChannelOfADroppedHoldCloses(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*rlock.Client, *rlock.Lock, context.Context) error{
		"by Close":           func(c *rlock.Client, _ *rlock.Lock, _ context.Context) error { return c.Close() },
		"by the last unlock": func(_ *rlock.Client, l *rlock.Lock, ctx context.Context) error { return l.Unlock(ctx) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			logger, log := recording()
			client := newClient(t, redistest.Embedded(t), logger)
			lock := client.NewLock(newName())
			owner := rlock.WithOwner(t.Context())
			require.NoError(t, lock.Lock(owner))
			done := func() <-chan struct{} {
				hold, err := lock.Acquire(owner)
				require.NoError(t, err)
				return hold.Done()
			}()
			eventually(t, "the dropped hold is noticed", func() bool {
				runtime.GC()
				return log.Contains("dropped without Unlock")
			})
			require.NoError(t, end(client, lock, owner))
			within(t, "the Done channel closes", done)
		})
	}
}

func TestForceUnlockAffectsNoOtherName(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	for _, forces := range []int{1, 63} {
		held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
		trying := async(func() error { return second(f.lock.TryAcquire(rlock.WithOwner(t.Context()), rlock.Lease(time.Minute))) })
		within(t, "Redis has granted the lock", held.Met())
		for range forces {
			require.NoError(t, second(f.client.NewLock("another").ForceUnlock(t.Context())))
		}
		held.Release()
		require.NoError(t, within(t, "the lock is acquired", trying))
		require.NoError(t, second(f.lock.ForceUnlock(t.Context())))
	}
}

func TestAReentryReturnsTheCallersErrors(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(300*time.Millisecond))
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, f.lock.Lock(owner, rlock.Lease(time.Minute)))
	held := f.proxy.HoldReply(1, rlock.Runs("count"))
	because := errors.New("because")
	ctx, cancel := context.WithCancelCause(owner)
	locking := async(func() error { return f.lock.Lock(ctx) })
	within(t, "Redis has replied", held.Met())
	cancel(because)
	err := within(t, "the call returns", locking)
	for _, want := range []error{rlock.ErrNotAcquired, context.Canceled, because} {
		require.ErrorIs(t, err, want)
	}
	held.Release()

	f.proxy.Freeze()
	for what, err := range map[string]error{
		"a wait":             second(f.lock.TryLock(owner, rlock.Wait(500*time.Millisecond))),
		"a single attempt":   second(f.lock.TryLock(owner)),
		"without owner":      second(f.client.NewLock(newName()).TryLock(t.Context())),
		"background context": second(f.client.NewLock(newName()).TryLock(context.Background())),
	} {
		require.Error(t, err, what)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: no context of the caller has ended", what)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired, what)
	}
	f.proxy.Thaw()
	require.NoError(t, f.lock.Unlock(owner))
}

func TestALeaseShorterThanTheRoundTripDoesNotSpin(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	f.proxy.Delay(3 * time.Millisecond)
	require.Error(t, f.lock.Lock(t.Context(), rlock.Lease(time.Millisecond), rlock.Wait(2*time.Second)))
	require.Less(t, f.proxy.Count(rlock.Runs("acquire")), 100)
}
