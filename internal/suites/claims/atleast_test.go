package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// kept are the kinds whose locks AtLeast keeps.
var kept = []string{"lock", "fenced", "spin", "fair", "fenced fair"}

// TestAtLeastKeepsTheLockTaken from everybody, until the time is over and no longer, whatever became of the function.
func TestAtLeastKeepsTheLockTaken(t *testing.T) {
	t.Parallel()
	const d = time.Second
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		oops := errors.New("oops")
		for what, fn := range map[string]func(cancel func()) error{
			"done": func(func()) error { return nil }, "failed": func(func()) error { return oops },
			"panicked": func(func()) error { panic(oops) }, "canceled": func(cancel func()) error { cancel(); return oops },
		} {
			for _, kind := range kept {
				t.Run(what+" "+kind, func(t *testing.T) {
					t.Parallel()
					patience := rlock.WithCommandTimeout(testkit.ALongTime) // for single attempts on a busy machine
					client, other := testkit.NewClient(t, rdb, patience), testkit.NewClient(t, rdb, patience)
					lock := testkit.MakeLock(kind, client, testkit.NewName())
					began := time.Now()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					ran := false
					func() {
						defer func() { _ = recover() }()
						_, err := lock.TryDo(ctx, func(context.Context) error { ran = true; return fn(cancel) }, rlock.AtLeast(d))
						require.True(t, err == nil || errors.Is(err, oops), err)
					}()
					require.True(t, ran)
					again := func(by *rlock.Client) bool {
						ran, err := testkit.MakeLock(kind, by, lock.Name()).TryDo(t.Context(), func(context.Context) error { return nil })
						require.NoError(t, err)
						return ran
					}
					taken := again(client) || again(other)
					require.False(t, taken && time.Since(began) < d)
					require.LessOrEqual(t, testkit.Must(lock.TTL(t.Context())), d)
					redistest.Eventually(t, "it is free", func() bool { return again(other) })
					require.GreaterOrEqual(t, time.Since(began), d-50*time.Millisecond) // the embedded server's clock steps
				})
			}
		}
	})
}

// TestAtLeastKeepsNothing if the time is over before the unlock, or if the lock is lost: another one has to do the job then.
func TestAtLeastKeepsNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, kind := range kept {
		lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb), testkit.NewName())
		hold := testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(20*time.Millisecond)))
		over := time.Now().Add(30 * time.Millisecond)
		redistest.Eventually(t, "the time is over", func() bool { return time.Now().After(over) })
		require.NoError(t, hold.Unlock(t.Context()))
		require.False(t, testkit.Must(lock.IsLocked(t.Context())), kind)

		hold = testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(time.Minute)))
		require.NoError(t, rdb.Del(t.Context(), lock.Name()).Err())
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost, kind)
		require.False(t, testkit.Must(lock.IsLocked(t.Context())), kind)

		hold = testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(time.Hour), rlock.RenewedLease(time.Minute)))
		require.LessOrEqual(t, testkit.Must(lock.TTL(t.Context())), time.Minute, "it does not lengthen the lease")
		token := hold.Token()
		require.NoError(t, hold.Unlock(t.Context()))
		info := testkit.Must(lock.Inspect(t.Context()))
		require.Equal(t, token, info.Token, "keeping the lock draws no token")
		require.InDelta(t, time.Hour, info.Lease, float64(time.Minute))
		require.True(t, testkit.Must(lock.ForceUnlock(t.Context())))
		require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }), kind)
	}
}

// TestAtLeastWhereItCannotBe is refused before anything is sent.
func TestAtLeastWhereItCannotBe(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1"}))
	ctx, opt := t.Context(), rlock.AtLeast(time.Second)
	lock := client.NewLock("a")
	require.ErrorIs(t, lock.Lock(ctx, opt), rlock.ErrInvalidOption)
	_, err := lock.TryLock(ctx, opt)
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
	for what, of := range map[string]handles.Any{
		"read": client.NewRWLock("a").Reader(), "write": client.NewRWLock("a").Writer(), "semaphore": client.NewSemaphore("a"),
		"multi": rlock.NewMultiLock(lock), "red": rlock.NewRedLock(lock),
	} {
		_, err := of.TryAcquire(ctx, opt)
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
	}
	_, err = rlock.NewMultiLock(lock).TryAcquire(ctx, rlock.Permits(2))
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
	for _, d := range []time.Duration{0, -1, time.Microsecond, 1<<63 - 1} {
		_, err := lock.TryAcquire(ctx, rlock.AtLeast(d))
		require.ErrorIs(t, err, rlock.ErrInvalidOption, d)
	}
}

// TestAtLeastDoesNotReenter and leaves what the owner has as it is.
func TestAtLeastDoesNotReenter(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
		require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
			_, err := lock.TryDo(ctx, func(context.Context) error { return nil }, rlock.AtLeast(time.Minute))
			require.ErrorIs(t, err, rlock.ErrReentered)
			return nil
		}))
		require.False(t, testkit.Must(lock.IsLocked(t.Context())))
	})
}

// TestAtLeastWithoutAReply parks the lock once, however often the command is sent, and in the background if need be.
func TestAtLeastWithoutAReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}), rlock.WithCommandTimeout(500*time.Millisecond))
	other := testkit.NewClient(t, server.Client(t))
	for what, c := range map[string]struct {
		fault func() *redistest.Fault
		want  error
	}{
		"the reply is lost once":   {func() *redistest.Fault { return proxy.DropReply(1, testkit.Runs("park")) }, nil},
		"no reply comes":           {func() *redistest.Fault { return proxy.HoldReply(-1, testkit.Runs("park")) }, rlock.ErrUnavailable},
		"Redis gets it much later": {func() *redistest.Fault { return proxy.HoldRequest(-1, testkit.Runs("park")) }, rlock.ErrUnavailable},
	} {
		const d = 2 * time.Second
		lock := client.NewLock(testkit.NewName())
		began := time.Now()
		hold := testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(d), rlock.RenewedLease(10*time.Second)))
		fault := c.fault()
		err := hold.Unlock(t.Context())
		require.ErrorIs(t, err, c.want, what)
		fault.Release()
		same := other.NewLock(lock.Name())
		redistest.Eventually(t, "it is parked", func() bool { return testkit.Must(same.TTL(t.Context())) <= d || time.Since(began) > d })
		redistest.Eventually(t, "it is free", func() bool { return testkit.Must(same.TryLock(t.Context())) })
		require.GreaterOrEqual(t, time.Since(began), d-time.Millisecond, what)
		require.NoError(t, same.Unlock(t.Context()))
	}
}

// TestAtLeastLetsWaitersIn when the time is over.
func TestAtLeastLetsWaitersIn(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		const d = 4 * time.Second
		for _, kind := range kept {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
				lock := testkit.MakeLock(kind, client, testkit.NewName())
				began := time.Now()
				hold := testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(d), rlock.RenewedLease(3*time.Second)))
				var waiting []<-chan error
				for _, by := range []*rlock.Client{client, client, other} {
					waiting = append(waiting, testkit.Async(func() error {
						return testkit.MakeLock(kind, by, lock.Name()).Do(t.Context(), func(context.Context) error {
							require.GreaterOrEqual(t, time.Since(began), d-50*time.Millisecond)
							return nil
						})
					}))
				}
				testkit.Eventually(t, "they wait", func() bool { return client.Stats().Waiting == 2 && other.Stats().Waiting == 1 })
				require.NoError(t, hold.Unlock(t.Context()))
				for _, w := range waiting {
					require.NoError(t, testkit.Within(t, "a waiter has its turn", w))
				}
			})
		}
	})
}

// TestAtLeastLetsTheFirstWaiterInAtOnce when the time is over, although the lease that the waiters knew of was longer: the first one is told.
func TestAtLeastLetsTheFirstWaiterInAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, kind := range kept {
		for name, own := range map[string][]bool{"its own process": {true, false}, "another one": {false, true}} {
			t.Run(kind+" of "+name, func(t *testing.T) {
				t.Parallel()
				const d = time.Second
				rdb := server.Client(t)
				client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
				lock := testkit.MakeLock(kind, client, testkit.NewName())
				hold, passed := testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(d))), redistest.Stopwatch(t)
				var waiting []<-chan error
				in := make([]time.Duration, len(own))
				for i, its := range own {
					by := other
					if its {
						by = client
					}
					waiting = append(waiting, testkit.Async(func() error {
						return testkit.MakeLock(kind, by, lock.Name()).Do(t.Context(), func(context.Context) error { in[i] = passed(); return nil })
					}))
					testkit.Eventually(t, "it waits", func() bool { return by.Stats().Waiting == 1 })
				}
				redistest.Eventually(t, "they know of a lease", func() bool { return passed() > d/2 })
				require.NoError(t, hold.Unlock(t.Context()))
				for i, w := range waiting {
					require.NoError(t, testkit.Within(t, "a waiter has its turn", w))
					require.Less(t, in[i], d+700*time.Millisecond)
				}
			})
		}
	}
}

// TestAtLeastOfAWaiter counts from when it got the lock, however long it has waited.
func TestAtLeastOfAWaiter(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, kind := range kept {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const d = 300 * time.Millisecond
			// A lease counts from a little before the turn, by 1 % of the time since the waiter last asked.
			client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never))
			lock := testkit.MakeLock(kind, client, testkit.NewName())
			hold := testkit.Must(lock.Acquire(t.Context()))
			waiting := testkit.Async(func() error {
				hold, err := testkit.MakeLock(kind, other, lock.Name()).Acquire(t.Context(), rlock.AtLeast(d))
				if err != nil {
					return err
				}
				return hold.Unlock(t.Context())
			})
			testkit.Eventually(t, "it waits", func() bool { return other.Stats().Waiting == 1 })
			over := time.Now().Add(4 * time.Second)
			redistest.Eventually(t, "it has waited for long", func() bool { return time.Now().After(over) })
			before := time.Now()
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "it had its turn", waiting))
			redistest.Eventually(t, "it is free", func() bool { return testkit.Must(lock.TryLock(t.Context())) })
			if kind != "spin" { // which counts from when its question was sent
				require.GreaterOrEqual(t, time.Since(before), d-time.Millisecond)
			}
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

// TestAtLeastWhileRedisIsFull keeps the lock, as an unlock frees it then.
func TestAtLeastWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb)
	for _, kind := range kept {
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		lock := testkit.MakeLock(kind, client, testkit.NewName())
		hold := testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(5*time.Second)))
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
		require.NoError(t, hold.Unlock(t.Context()), kind)
		ttl := testkit.Must(lock.TTL(t.Context()))
		require.True(t, ttl > 0 && ttl <= 5*time.Second, "%s: %v", kind, ttl)
	}
}

// TestAKeptLockSaysSo shows that nobody holds it, who has had it, and until when it is kept: while its client lives, and when that is closed.
func TestAKeptLockSaysSo(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	const lease = time.Second
	id := rlock.Identity{Service: "cron", Host: "a"}
	for _, kind := range kept {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			client := testkit.NewClient(t, rdb, rlock.WithIdentity(id), rlock.WithWatchdogTimeout(lease))
			lock := testkit.MakeLock(kind, client, testkit.NewName())
			hold := testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(time.Hour)))
			seen := func() rlock.HolderInfo {
				info := testkit.Must(testkit.MakeLock(kind, testkit.NewClient(t, rdb), lock.Name()).Inspect(t.Context()))
				require.Equal(t, 1, info.HolderCount)
				return info.Holders[0]
			}
			require.False(t, seen().Kept)
			require.NoError(t, hold.Unlock(t.Context()))
			h := seen()
			require.True(t, h.Kept)
			require.Zero(t, h.Acquisitions)
			require.Equal(t, client.ID(), h.Client)
			require.InDelta(t, time.Hour, h.Lease, float64(time.Minute))
			require.Equal(t, &id, h.Identity)
		})
	}
}
