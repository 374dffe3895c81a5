package trouble

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// This file has failures that users of other lock libraries report. docs/reliability.md links their reports.

// eachKind calls a test for each kind that is one lock, side by side, and returns when all are over.
func eachKind(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	t.Run("each", func(t *testing.T) {
		for kind, k := range testkit.Kinds {
			if !k.Groups {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					test(t, kind)
				})
			}
		}
	})
}

// rival returns what makes a lock that excludes one of that kind.
func rival(kind string) func(*rlock.Client, string) testkit.Locker {
	if k := testkit.Kinds[kind]; k.Rival == nil {
		return k.Make
	}
	return testkit.Kinds[kind].Rival
}

// TestAPasswordThatChangesLosesNoHold closes all connections after a password was changed. The first time the client has the old one
// for a while. The second time both are valid, as in a rotation that is done well, so that nobody who asks then is refused.
func TestAPasswordThatChangesLosesNoHold(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t) // its CredentialsProvider
	redistest.NeedsRealServer(t, "file descriptors, by which go-redis notices closed connections")
	server := redistest.Start(t)
	admin, ctx := server.Client(t), t.Context()
	set := func(rules ...any) {
		require.NoError(t, admin.Do(ctx, append([]any{"acl", "setuser", "rotated"}, rules...)...).Err())
	}
	set("on", ">old", "~*", "&*", "+@all")
	var known atomic.Value
	known.Store("old")
	rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, CredentialsProvider: func() (string, string) {
		return "rotated", known.Load().(string)
	}})
	logger, log := testkit.Recording()
	client, name := testkit.NewClient(t, rdb, logger, rlock.WithWatchdogTimeout(6*time.Second)), testkit.NewName()
	hold := testkit.Must(client.NewLock(name).Acquire(ctx))
	reconnects := func(meanwhile func()) {
		before := hold.Deadline()
		require.NoError(t, admin.Do(ctx, "client", "kill", "user", "rotated").Err())
		meanwhile()
		testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before.Add(time.Second)) })
	}
	set("resetpass", ">new")
	reconnects(func() {
		testkit.Eventually(t, "a renewal fails", func() bool { return log.Contains("WRONGPASS") })
		known.Store("new")
	})
	waiter := testkit.NewClient(t, rdb).NewLock(name)
	waiting := testkit.Async(func() error { return waiter.Lock(ctx) })
	testkit.Eventually(t, "it waits", func() bool { return testkit.Rests(waiter) })
	set(">newer")
	known.Store("newer")
	reconnects(func() {})
	require.NoError(t, hold.Unlock(ctx))
	require.NoError(t, testkit.Within(t, "the waiter has the lock", waiting))
	require.NoError(t, waiter.Unlock(ctx))
}

// TestQuestionsTakeNothing asks about a free lock all the time. Nobody who tries it meanwhile is refused, and no key is written.
func TestQuestionsTakeNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	eachKind(t, func(t *testing.T, kind string) {
		t.Helper()
		rdb := server.Client(t)
		ctx, cancel := context.WithCancel(t.Context())
		name := testkit.NewName()
		var asked atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb), name)
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = lock.IsLocked(ctx)
					_, _ = lock.TTL(ctx)
					_, _ = lock.HoldCount(ctx)
					_, _ = lock.HoldCount(ctx)
					_, _ = lock.Inspect(ctx)
					asked.Add(1)
				}
			})
		}
		defer wg.Wait()
		defer cancel()
		testkit.Eventually(t, "all questions were asked", func() bool { return asked.Load() > 4 })
		lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb), name)
		require.False(t, testkit.LeftIn(t, rdb, testkit.Keys(lock)))
		for range 50 {
			require.True(t, testkit.Must(lock.TryLock(ctx)), "asking is not locking")
			require.NoError(t, lock.Unlock(ctx))
		}
	})
}

// TestNothingScansTheKeys uses all kinds with many names, and has a lease end. No command looks through all keys, and the server
// has no more scripts than rlock.
func TestNothingScansTheKeys(t *testing.T) {
	t.Parallel()
	server, ctx := redistest.Start(t), t.Context()
	rdb := server.Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithIdentity(rlock.AutoIdentity()))
	for range 20 {
		for kind, k := range testkit.Kinds {
			lock := k.Make(client, testkit.NewName())
			require.NoError(t, lock.Lock(ctx), kind)
			require.NoError(t, lock.Unlock(ctx), kind)
		}
		semaphore, latch := client.NewSemaphore(testkit.NewName(), rlock.Total(1)), client.NewCountDownLatch(testkit.NewName())
		require.NoError(t, testkit.Must(semaphore.Acquire(ctx)).Unlock(ctx))
		require.True(t, testkit.Must(latch.TrySetCount(ctx, 1)))
		testkit.Must(latch.CountDown(ctx))
	}
	name := testkit.NewName()
	testkit.Must(client.NewFairLock(name).Acquire(ctx, rlock.Lease(100*time.Millisecond)))
	require.NoError(t, client.NewFairLock(name).Lock(ctx), "when the lease is over")
	calls := testkit.Stats(t, rdb)
	for _, command := range []string{"keys", "scan", "randomkey", "dbsize", "flushdb", "script|flush"} {
		require.Zero(t, calls[command], command)
	}
	info := rdb.Info(ctx, "memory").Val()
	_, after, found := strings.Cut(info, "number_of_cached_scripts:")
	require.True(t, found, info)
	cached, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
	require.NoError(t, err)
	require.LessOrEqual(t, cached, len(testkit.Sources()), "no script contains a name")
}

// TestThoseWhoPollDoNotOvertakeThoseWhoWait has many clients try a lock again and again, while one waits for it.
func TestThoseWhoPollDoNotOvertakeThoseWhoWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, kind := range []string{"lock", "fenced", "fair", "write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rdb, name := server.Client(t), testkit.NewName()
			ctx, cancel := context.WithCancel(t.Context())
			another := func() *rlock.Lock { return testkit.MakeLock(kind, testkit.NewClient(t, rdb), name) }
			holder, waiter := another(), another()
			require.NoError(t, holder.Lock(ctx))
			waiting := testkit.Async(func() error { return waiter.Lock(ctx) })
			testkit.Eventually(t, "it sleeps", func() bool {
				return testkit.Rests(waiter) || kind == "fair" && len(testkit.Queued(t, rdb, waiter)) == 1
			})
			var wg sync.WaitGroup
			var overtook, polls atomic.Int64
			for range 8 {
				poller := another()
				wg.Go(func() {
					for ctx.Err() == nil {
						if ok, _ := poller.TryLock(ctx); ok {
							overtook.Add(1)
							_ = poller.Unlock(ctx)
						}
						polls.Add(1)
					}
				})
			}
			testkit.Eventually(t, "all poll", func() bool { return polls.Load() > 100 })
			require.NoError(t, holder.Unlock(ctx))
			require.NoError(t, testkit.Within(t, "the waiter has the lock", waiting))
			cancel()
			wg.Wait()
			require.Zero(t, overtook.Load(), "the release gave the lock to the waiter")
			require.NoError(t, waiter.Unlock(ctx))
		})
	}
}

// TestKindsOfOneNameExcludeEachOther, also those that should not share a name.
func TestKindsOfOneNameExcludeEachOther(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	eachKind(t, func(t *testing.T, kind string) {
		t.Helper()
		ctx := t.Context()
		for other, k := range testkit.Kinds {
			if k.Groups || kind == "read" && other == "read" {
				continue
			}
			name := testkit.NewName()
			lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb), name)
			require.NoError(t, lock.Lock(ctx))
			require.False(t, testkit.Must(testkit.MakeLock(other, testkit.NewClient(t, rdb), name).TryLock(ctx)), other)
			require.NoError(t, lock.Unlock(ctx), "the attempt of another kind has changed nothing")
		}
	})
}

// TestAPrefixIsAppliedOnce to each key of each kind, of semaphores, of latches and of the identity.
func TestAPrefixIsAppliedOnce(t *testing.T) {
	t.Parallel()
	rdb, ctx := redistest.Start(t).Client(t), t.Context()
	client := testkit.NewClient(t, rdb, rlock.WithKeyPrefix("app:"), rlock.WithIdentity(rlock.AutoIdentity()))
	eachKind(t, func(t *testing.T, kind string) {
		t.Helper()
		lock := testkit.MakeLock(kind, client, testkit.NewName())
		require.NoError(t, lock.Lock(t.Context()))
	})
	testkit.Must(client.NewSemaphore(testkit.NewName(), rlock.Total(1)).Acquire(ctx))
	require.True(t, testkit.Must(client.NewPlainSemaphore(testkit.NewName()).TrySetPermits(ctx, 1)))
	require.True(t, testkit.Must(client.NewCountDownLatch(testkit.NewName()).TrySetCount(ctx, 1)))
	testkit.Eventually(t, "it has an identity", func() bool { return len(rdb.Keys(ctx, "*rlock_client*").Val()) == 1 })
	keys := rdb.Keys(ctx, "*").Val()
	require.Greater(t, len(keys), len(testkit.Kinds))
	for _, key := range keys {
		require.Equal(t, 1, strings.Count(key, "app:"), key)
	}
}

// TestAPoolOfOneConnection serves waiters, holders and renewals one after the other.
func TestAPoolOfOneConnection(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t) // its pool
	server, ctx := redistest.Start(t), t.Context()
	rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, PoolSize: 1})
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
	held := testkit.Must(client.NewLock(testkit.NewName()).Acquire(ctx))
	eachKind(t, func(t *testing.T, kind string) {
		t.Helper()
		ctx, name := t.Context(), testkit.NewName()
		var all []<-chan error
		for range 8 {
			lock := testkit.MakeLock(kind, client, name)
			all = append(all, testkit.Async(func() error {
				return lock.Do(ctx, func(context.Context) error { return rdb.Incr(ctx, name+":turns").Err() })
			}))
		}
		for _, done := range all {
			require.NoError(t, testkit.Within(t, "its turn", done))
		}
	})
	before := held.Deadline()
	testkit.Eventually(t, "it is renewed", func() bool { return held.Deadline().After(before) })
	require.NoError(t, held.Unlock(ctx))
}

// TestAFailedUnlockBlocksNobody has one unlock fail, and the next acquisitions of that process and of another one succeed once Redis
// is back. The late release frees none of them.
func TestAFailedUnlockBlocksNobody(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	server := redistest.Start(t)
	eachKind(t, func(t *testing.T, kind string) {
		t.Helper()
		ctx, name := t.Context(), testkit.NewName()
		proxy := redistest.NewProxy(t, server.Addr)
		rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: patience, DialTimeout: patience})
		log, _ := testkit.Recording()
		client := testkit.NewClient(t, rdb, log, rlock.WithCommandTimeout(patience))
		lock := testkit.MakeLock(kind, client, name)
		owner := rlock.WithOwner(ctx)
		require.NoError(t, lock.Lock(owner))
		proxy.Freeze()
		require.ErrorIs(t, lock.Unlock(owner), rlock.ErrUnavailable)
		proxy.Thaw()
		for range 3 {
			require.NoError(t, lock.Lock(owner, rlock.Wait(testkit.ALongTime)))
			stranger := rival(kind)(testkit.NewClient(t, server.Client(t)), name)
			require.False(t, testkit.Must(stranger.TryLock(ctx)))
			require.NoError(t, lock.Unlock(owner))
			require.NoError(t, stranger.Lock(ctx, rlock.Wait(testkit.ALongTime)))
			require.NoError(t, stranger.Unlock(ctx))
		}
	})
}

// TestAWaitLongerThanTheLease returns a hold that has its whole lease, and not what the wait left of it.
func TestAWaitLongerThanTheLease(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	server, ctx := redistest.Start(t), t.Context()
	all := make(map[string]<-chan error)
	for kind, k := range testkit.Kinds {
		name := testkit.NewName()
		holder := rival(kind)(testkit.NewClient(t, server.Client(t)), name)
		hold := testkit.Must(holder.Acquire(ctx, rlock.Lease(lease+time.Second)))
		lock := k.Make(testkit.NewClient(t, server.Client(t)), name)
		all[kind] = testkit.Async(func() error {
			got, err := lock.Acquire(ctx, rlock.Lease(lease)) // when the other lease is over
			if left := time.Until(got.Deadline()); hold.Err() == nil || left < lease/2 {
				return fmt.Errorf("%v are left: %w", left, errors.Join(hold.Err(), err))
			}
			return errors.Join(err, got.Unlock(ctx))
		})
	}
	for kind, done := range all {
		require.NoError(t, testkit.Within(t, kind+" is acquired", done), kind)
	}
}

// TestALeaseIsOfOneAcquisition: neither the next one of the handle has it, nor does an inner unlock change it.
func TestALeaseIsOfOneAcquisition(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	eachKind(t, func(t *testing.T, kind string) {
		t.Helper()
		lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(time.Minute)), testkit.NewName())
		owner := rlock.WithOwner(t.Context())
		require.NoError(t, lock.Lock(owner, rlock.Lease(time.Hour)))
		require.NoError(t, lock.Unlock(owner))
		require.NoError(t, lock.Lock(owner))
		require.LessOrEqual(t, testkit.Must(lock.TTL(owner)), time.Minute, "an earlier lease is over")
		require.NoError(t, lock.Unlock(owner))

		require.NoError(t, lock.Lock(owner, rlock.Lease(30*time.Second)))
		require.NoError(t, lock.Lock(owner, rlock.Lease(30*time.Second)))
		require.NoError(t, lock.Unlock(owner))
		require.LessOrEqual(t, testkit.Must(lock.TTL(owner)), 30*time.Second, "an inner unlock lengthens nothing")
		require.NoError(t, lock.Unlock(owner))
	})
}

// TestAHoldAfterALossIsRenewed, although the renewals of an earlier hold of that name failed until it was lost.
func TestAHoldAfterALossIsRenewed(t *testing.T) {
	t.Parallel()
	server, ctx := redistest.Start(t), t.Context()
	proxy := redistest.NewProxy(t, server.Addr)
	rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 300 * time.Millisecond})
	log, _ := testkit.Recording()
	client := testkit.NewClient(t, rdb, log, rlock.WithWatchdogTimeout(3*time.Second))
	holds := make(map[*rlock.Lock]*rlock.Hold)
	for kind, k := range testkit.Kinds {
		if !k.Groups {
			lock := testkit.MakeLock(kind, client, testkit.NewName())
			holds[lock] = testkit.Must(lock.Acquire(ctx))
		}
	}
	proxy.Freeze()
	for _, lost := range holds {
		testkit.Within(t, "the hold is lost", lost.Done())
		require.ErrorIs(t, lost.Unlock(ctx), rlock.ErrLost)
	}
	proxy.Thaw()
	for lock := range holds {
		holds[lock] = testkit.Must(lock.Acquire(ctx))
	}
	for range 3 {
		before := make(map[*rlock.Hold]time.Time)
		for _, hold := range holds {
			before[hold] = hold.Deadline()
		}
		for _, hold := range holds {
			testkit.Eventually(t, "it is renewed", func() bool { return hold.Deadline().After(before[hold]) || hold.Err() != nil })
			require.NoError(t, hold.Err())
		}
	}
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(ctx))
	}
}
