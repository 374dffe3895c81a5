package claims

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file tests the particular features of fenced locks, spin locks and non-reentrant handles.

func TestTokensGrow(t *testing.T) {
	t.Parallel()
	eachSort(t, func(t *testing.T, rdb redis.UniversalClient, kind string) {
		t.Helper()
		name := testkit.NewName()
		locks := []*rlock.Lock{
			testkit.MakeLock(kind, testkit.NewClient(t, rdb), name), testkit.MakeLock(kind, testkit.NewClient(t, rdb), name),
		}
		key := tokenKey(t, locks[0])
		last := rlock.Token(time.Now().Add(-time.Minute).UnixMicro())
		for i := range 20 {
			ctx := rlock.WithOwner(t.Context())
			lock := locks[i%2]
			hold, err := lock.Acquire(ctx, rlock.Lease(time.Minute))
			require.NoError(t, err)
			require.Greater(t, hold.Token(), last)
			last = hold.Token()
			for range 2 {
				again, err := lock.Acquire(ctx)
				require.NoError(t, err)
				require.Equal(t, last, again.Token(), "a re-entry has the token of the outer acquisition")
				require.NoError(t, again.Unlock(ctx))
			}
			require.Equal(t, fmt.Sprint(last), rdb.Get(t.Context(), key).Val(), "the token has all of its digits")
			require.NoError(t, hold.Unlock(ctx))
			require.Equal(t, last, hold.Token())
		}
		require.Less(t, last, rlock.Token(time.Now().Add(time.Minute).UnixMicro()))

		// A Java process continues our count. A counter that is ahead of the clock keeps counting.
		require.EqualValues(t, last+1, rdb.Incr(t.Context(), key).Val())
		ahead := rlock.Token(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, rdb.Set(t.Context(), key, uint64(ahead), 0).Err())
		hold, err := locks[0].TryAcquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, ahead+1, hold.Token())
		require.EqualValues(t, -1, rdb.TTL(t.Context(), key).Val())
		require.NoError(t, hold.Unlock(t.Context()))

		// A failover may lose the counter. It takes long enough for the clock to pass the latest token.
		testkit.Eventually(t, "time passes", func() bool {
			return rdb.Time(t.Context()).Val().UnixMicro() > int64(last)
		})
		require.NoError(t, rdb.Del(t.Context(), key).Err())
		hold, err = locks[0].TryAcquire(t.Context(), rlock.Wait(time.Second))
		require.NoError(t, err)
		require.Greater(t, hold.Token(), last)
		require.NoError(t, hold.Unlock(t.Context()))

		for _, other := range sorts[kind] {
			bare, err := testkit.MakeLock(other, testkit.NewClient(t, rdb), name).Acquire(t.Context())
			require.NoError(t, err)
			require.Zero(t, bare.Token())
			require.ErrorIs(t, testkit.Second(locks[0].TryAcquire(t.Context())), rlock.ErrNotAcquired, "a lock without tokens excludes a fenced one")
			require.NoError(t, bare.Unlock(t.Context()))
		}
	})
}

func TestALostReplyDoesNotRaiseTheToken(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		for kind := range sorts {
			t.Run(how+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f := testkit.NewFaulty(t, testkit.Quick())
				lock := testkit.MakeLock(kind, f.Client, testkit.NewName())
				lose(f.Proxy, 1, testkit.Runs("acquire"))
				hold, err := lock.Acquire(t.Context())
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(hold.Token()), f.Direct.Get(t.Context(), tokenKey(t, lock)).Val())
				require.NoError(t, hold.Unlock(t.Context()))
			})
		}
	}
}

func TestATokenThatIsNotANumberIsReported(t *testing.T) {
	t.Parallel()
	eachSort(t, func(t *testing.T, rdb redis.UniversalClient, kind string) {
		t.Helper()
		lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb), testkit.NewName())
		require.NoError(t, rdb.Set(t.Context(), tokenKey(t, lock), "many", 0).Err())
		require.ErrorContains(t, lock.Lock(t.Context()), "not an integer")
		require.False(t, testkit.Must(lock.IsLocked(t.Context())))
		require.Equal(t, "many", rdb.Get(t.Context(), tokenKey(t, lock)).Val())
	})
}

func TestASpinLockUsesNoPubSub(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := testkit.NewClient(t, rdb)
	holder, lock := testkit.NewClient(t, rdb).NewSpinLock(testkit.NewName()), (*rlock.Lock)(nil)
	lock = client.NewSpinLock(holder.Name(), rlock.Backoff(20*time.Millisecond, 20*time.Millisecond))
	require.NoError(t, holder.Lock(t.Context()))
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	queued := testkit.Async(func() error { return lock.Lock(t.Context(), rlock.Wait(300*time.Millisecond)) })
	require.ErrorIs(t, testkit.Within(t, "the queued wait ends", queued), rlock.ErrNotAcquired)
	tries := testkit.Stats(t, admin)["evalsha"]
	require.LessOrEqual(t, tries, 25, "only one waiter per process polls, at its own pace")
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
	calls := testkit.Stats(t, admin)
	require.Zero(t, calls["publish"]+calls["subscribe"]+calls["unsubscribe"]+calls["psubscribe"])
}

func TestASpinLockBacksOff(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	holder := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context()))
	tries := func(lock *rlock.Lock) int {
		before := testkit.Stats(t, rdb)["evalsha"]
		require.ErrorIs(t, lock.Lock(t.Context(), rlock.Wait(time.Second)), rlock.ErrNotAcquired, "a plain lock excludes a spin lock")
		return testkit.Stats(t, rdb)["evalsha"] - before
	}
	client := testkit.NewClient(t, rdb)
	// Seven pauses of 1, 2, 4 … 64 ms last 127 ms, and each further pause lasts 128 ms. An idle machine makes 14 or 15 attempts
	// in a second.
	require.LessOrEqual(t, tries(client.NewSpinLock(holder.Name())), 16)
	require.LessOrEqual(t, tries(client.NewSpinLock(holder.Name(), rlock.Backoff(400*time.Millisecond, 400*time.Millisecond))), 4)
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestANonReentrantHandleRefusesItsOwner(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := testkit.NewClient(t, rdb)
	for kind, newLock := range map[string]func(string, ...rlock.LockOption) *rlock.Lock{
		"lock": client.NewLock, "fair": client.NewFairLock, "spin": client.NewSpinLock,
		"fenced": func(name string, opts ...rlock.LockOption) *rlock.Lock {
			return client.NewLock(name, append(opts, rlock.Fenced())...)
		},
		"read": func(name string, opts ...rlock.LockOption) *rlock.Lock {
			return client.NewRWLock(name, opts...).Reader()
		},
		"write": func(name string, opts ...rlock.LockOption) *rlock.Lock {
			return client.NewRWLock(name, opts...).Writer()
		},
	} {
		lock := newLock(testkit.NewName(), rlock.NonReentrant())
		another := newLock(lock.Name(), rlock.NonReentrant())
		reentrant := newLock(lock.Name())
		ctx := rlock.WithOwner(t.Context())
		require.NoError(t, lock.Lock(ctx), kind)
		require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
		for _, again := range []*rlock.Lock{lock, another} {
			require.ErrorIs(t, again.Lock(ctx), rlock.ErrReentered, kind)
			require.ErrorIs(t, testkit.Second(again.TryLock(ctx)), rlock.ErrReentered, kind)
			require.ErrorIs(t, testkit.Second(again.TryLock(ctx, rlock.Wait(time.Second))), rlock.ErrReentered, kind)
			err := again.Do(ctx, func(context.Context) error { return nil })
			require.ErrorIs(t, err, rlock.ErrReentered, kind)
			require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		}
		require.Zero(t, testkit.Stats(t, admin)["evalsha"], "the decision is local")
		require.NoError(t, reentrant.Lock(ctx), "other handles re-enter")
		require.NoError(t, reentrant.Unlock(ctx))
		require.NoError(t, lock.Unlock(ctx), "one unlock frees it")
		require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld)
		require.NoError(t, another.Do(t.Context(), func(ctx context.Context) error {
			require.ErrorIs(t, another.Lock(ctx), rlock.ErrReentered, kind)
			return nil
		}))
		waiting := testkit.Async(func() error { return lock.Lock(ctx) })
		require.NoError(t, testkit.Within(t, "the waiting owner gets the lock", waiting))
		require.NoError(t, lock.Unlock(ctx))
	}
}
