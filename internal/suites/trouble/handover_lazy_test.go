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
)

// TestHandOverUnderFire has owners in two processes hammer one lock of each kind while replies are lost. It checks that at
// most one owner is inside at a time.
func TestHandOverUnderFire(t *testing.T) {
	t.Parallel()
	for what, opts := range map[string][]rlock.Option{
		"strict": nil,
		"lazy":   {rlock.WithLazyHandOver(), rlock.WithHandOver(1000, 5*time.Millisecond)},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			underFire(t, opts)
		})
	}
}

func underFire(t *testing.T, opts []rlock.Option) {
	t.Helper()
	testkit.EveryKind(t, func(t *testing.T, kind string) {
		t.Helper()
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr)
		var locks []*rlock.Lock
		name := testkit.NewName()
		for range 2 {
			rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 250 * time.Millisecond})
			client := testkit.NewClient(t, rdb, append(opts, rlock.WithLogger(testkit.Discard), rlock.WithPollInterval(200*time.Millisecond))...)
			locks = append(locks, testkit.MakeLock(kind, client, name))
		}
		stop, over := make(chan struct{}), time.Now().Add(2*time.Second)
		var faulting, working sync.WaitGroup
		faulting.Go(func() {
			for n := 0; ; n++ {
				fault := testkit.Lossy["broken"]
				if n%5 == 0 {
					fault = testkit.Lossy["silent"]
				}
				select {
				case <-stop:
					return
				case <-fault(proxy, 1, testkit.Runs([]string{"handOver", "release", "acquire"}[n%3])).Met():
				}
				<-time.After(20 * time.Millisecond)
			}
		})
		var inside, served atomic.Int32
		for i := range 16 {
			working.Go(func() {
				for time.Now().Before(over) {
					ctx, cancel := context.WithCancel(t.Context())
					if i%4 == 0 {
						ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
					}
					hold, err := locks[i%2].Acquire(ctx)
					if err == nil {
						if inside.Add(1) != 1 && hold.Err() == nil {
							t.Error("two are inside")
						}
						served.Add(1)
						<-time.After(time.Millisecond)
						inside.Add(-1)
						err = hold.Unlock(t.Context())
					}
					cancel()
					if errors.Is(err, rlock.ErrLost) {
						t.Error(err)
					}
				}
			})
		}
		working.Wait()
		close(stop)
		faulting.Wait()
		require.Greater(t, int(served.Load()), 10)
		t.Logf("%d acquisitions", served.Load())
		testkit.Eventually(t, "the lock is free", func() bool {
			locked, err := locks[0].IsLocked(t.Context()) // the network is still slow
			return err == nil && !locked
		})
	})
}

func TestALazyHandOverSendsNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb, admin := server.Client(t), server.Client(t)
			client := testkit.NewClient(t, rdb, rlock.WithHandOver(100, time.Hour), rlock.WithLazyHandOver(), rlock.WithWatchdogTimeout(3*time.Second))
			queue := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, client, testkit.NewName()))
			hold := testkit.Must(queue.Lock.Acquire(t.Context()))
			for range 4 {
				queue.Join(t.Context())
			}
			queue.AwaitSleep(admin)
			require.NoError(t, hold.Unlock(t.Context())) // the first waiter stands in the line, so that Redis has to be asked
			hold = queue.Next()
			queue.Join(t.Context())
			again := testkit.Must(queue.Lock.Acquire(hold.Context(), rlock.Lease(100*time.Millisecond)))
			require.NoError(t, again.Unlock(t.Context()))
			// A waiter that has asked Redis does not get the lock in silence, and the lease may be renewed meanwhile: several may be next.
			silent := 0
			for range 200 {
				require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
				deadline := hold.Deadline()
				require.NoError(t, hold.Unlock(t.Context()))
				hold = queue.Next()
				if testkit.Stats(t, admin)["evalsha"] > 0 || hold.Deadline().After(deadline) {
					queue.Join(t.Context())
					continue
				}
				if silent++; silent == 3 { // times in which nothing was sent, and the lease was that of the last holder
					break
				}
			}
			require.Equal(t, 3, silent)
			before := hold.Deadline()
			testkit.Eventually(t, "the current holder is renewed", func() bool { return hold.Deadline().After(before) })
			require.NoError(t, hold.Unlock(t.Context()))
			hold = queue.Next()
			ctx := hold.Context()
			require.NoError(t, queue.Lock.Lock(ctx), "the owner re-enters")
			require.Equal(t, 2, testkit.Must(queue.Lock.HoldCount(ctx)))
			require.NoError(t, queue.Lock.Unlock(ctx))
			require.True(t, testkit.Must(queue.Lock.IsHeld(ctx)))
			require.NoError(t, hold.Unlock(t.Context()))
			require.False(t, testkit.Must(queue.Lock.IsLocked(t.Context())), "the last holder frees the lock")

			require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
			hold = testkit.Must(queue.Lock.Acquire(t.Context()))
			queue.Join(t.Context())
			queue.Join(t.Context())
			queue.AwaitSleep(admin)
			require.NoError(t, rdb.Del(t.Context(), queue.Lock.Name()).Err())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost, "the first waiter stands in the line again")
			require.NoError(t, queue.Next().Unlock(t.Context()))
			require.NoError(t, queue.Next().Unlock(t.Context()))
		})
	}
}

func TestLazyHandOverExceptions(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		kind        string
		opts        []rlock.Option
		first, next []rlock.AcquireOption
	}{
		"a fenced lock":              {kind: "fenced"},
		"a fenced write lock":        {kind: "fenced write"},
		"to a waiter with a lease":   {kind: "lock", next: []rlock.AcquireOption{rlock.Lease(time.Minute)}},
		"from a holder with a lease": {kind: "lock", first: []rlock.AcquireOption{rlock.Lease(20 * time.Second)}},
		"to a longer renewed lease":  {kind: "lock", next: []rlock.AcquireOption{rlock.RenewedLease(40 * time.Second)}},
		"from a fixed lease to an equal renewed one": {
			kind: "lock", first: []rlock.AcquireOption{rlock.Lease(30 * time.Second)},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb, admin := server.Client(t), server.Client(t)
			client := testkit.NewClient(t, rdb, rlock.WithHandOver(100, time.Hour), rlock.WithLazyHandOver(), rlock.WithWatchdogTimeout(30*time.Second))
			queue := testkit.NewWaiterQueue(t, testkit.MakeLock(c.kind, client, testkit.NewName()))
			hold := testkit.Must(queue.Lock.Acquire(t.Context(), c.first...))
			queue.Join(t.Context(), c.next...)
			queue.AwaitSleep(admin)
			require.NoError(t, hold.Unlock(t.Context()))
			hold = queue.Next()
			calls := testkit.Stats(t, admin)
			require.Positive(t, calls["hsetnx"]+calls["hdel"], "Redis is asked") // in line mode, by a release
			require.NoError(t, hold.Unlock(t.Context()))
		})
	}
}
