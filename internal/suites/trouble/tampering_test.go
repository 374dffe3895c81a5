package trouble

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file tests other programs that touch the keys of locks: data in the place of a lock, deletions and evictions.

// singleKinds returns the kinds of lock that are not groups.
func singleKinds() []string {
	return slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
		for kind, k := range testkit.Kinds {
			if !k.Groups && !yield(kind, true) {
				return
			}
		}
	})))
}

func TestAKeyOfAnotherTypeIsLeftUntouched(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for _, kind := range singleKinds() {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				anotherType(t, rdb, kind)
			})
		}
	})
}

func anotherType(t *testing.T, rdb redis.UniversalClient, kind string) {
	t.Helper()
	ctx := t.Context()
	lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(1500*time.Millisecond)), testkit.NewName())
	require.NoError(t, rdb.Set(ctx, lock.Name(), "precious", 0).Err())
	for op, err := range map[string]error{
		"lock":         lock.Lock(ctx),
		"force unlock": testkit.Second(lock.ForceUnlock(ctx)),
		"hold count":   testkit.Second(lock.HoldCount(ctx)),
		"is locked":    testkit.Second(lock.IsLocked(ctx)),
	} {
		require.ErrorContains(t, err, "WRONGTYPE", op)
		require.ErrorContains(t, err, "has a value that is not a lock", op)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	}
	require.Equal(t, "precious", rdb.Get(ctx, lock.Name()).Val())
	require.EqualValues(t, -1, rdb.TTL(ctx, lock.Name()).Val(), "the key has no lease")

	// A lock whose key is overwritten with data is lost, and the data stays untouched.
	require.NoError(t, rdb.Del(ctx, lock.Name()).Err())
	hold, err := lock.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, rdb.Set(ctx, lock.Name(), "precious", 0).Err())
	testkit.Within(t, "the renewal detects the loss", hold.Done())
	require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrLost)
	hold, err = lock.TryAcquire(ctx)
	require.Error(t, err)
	require.Nil(t, hold)
	require.NoError(t, rdb.Del(ctx, lock.Name()).Err())
	require.NoError(t, lock.Lock(ctx, rlock.Lease(time.Minute)))
	require.NoError(t, rdb.Set(ctx, lock.Name(), "precious", 0).Err())
	require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrLost)
	require.Equal(t, "precious", rdb.Get(ctx, lock.Name()).Val())
}

// A lock may not have the key of another lock's queue as its name (T.2). Its own queue key may hold foreign data. In both cases, the
// lock reports an error and nothing is damaged.
func TestAQueueOfAnotherTypeIsLeftUntouched(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		fair := client.NewFairLock(testkit.NewName())
		require.NoError(t, fair.Lock(t.Context()))
		waiting := testkit.Async(func() error { return fair.Lock(t.Context()) })
		testkit.Eventually(t, "the waiter queues", func() bool { return len(testkit.Queued(t, rdb, fair)) == 1 })
		for _, key := range testkit.Keys(fair)[1:3] {
			require.ErrorIs(t, client.NewLock(key).Lock(t.Context()), rlock.ErrInvalidName, key)
			require.ErrorIs(t, testkit.Second(client.NewLock(key).ForceUnlock(t.Context())), rlock.ErrInvalidName, key)
		}
		require.Len(t, testkit.Queued(t, rdb, fair), 1)
		require.NoError(t, fair.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the queued waiter gets the lock", waiting))
		require.NoError(t, fair.Unlock(t.Context()))

		for i := range 2 {
			taken := client.NewFairLock(testkit.NewName())
			key := testkit.Keys(taken)[i+1]
			require.NoError(t, rdb.Set(t.Context(), key, "precious", 0).Err())
			holder := testkit.NewClient(t, rdb).NewFairLock(taken.Name())
			got, err := holder.TryLock(t.Context())
			if got {
				err = testkit.Second(taken.TryLock(t.Context(), rlock.Wait(testkit.ALongTime)))
				require.NoError(t, holder.Unlock(t.Context()), "nobody can queue, so nobody is to be notified")
			}
			require.ErrorContains(t, err, "WRONGTYPE", key)
			require.Equal(t, "precious", rdb.Get(t.Context(), key).Val())
			require.Empty(t, testkit.Holders(t, rdb, taken.Name()))
		}
	})
}

// A flushed server grants its locks to the next owners at once. A renewal notifies the previous holders of the loss before their
// leases would have ended. They do not take the locks back.
func TestFlushedLocksAreLostAndNotReacquired(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client, others := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(6*time.Second)), testkit.NewClient(t, rdb)
	type turn struct {
		kind        string
		hold, next  *rlock.Hold
		rival       *rlock.Lock
		deadline    time.Time
		ofTheRivals map[string]string
	}
	var turns []*turn
	for _, kind := range singleKinds() {
		name := testkit.NewName()
		hold, err := testkit.MakeLock(kind, client, name).Acquire(t.Context())
		require.NoError(t, err)
		_ = hold.Done()
		rivalKind := kind
		if kind == "read" {
			rivalKind = "write"
		}
		turns = append(turns, &turn{kind: kind, hold: hold, rival: testkit.MakeLock(rivalKind, others, name)})
	}
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	for _, turn := range turns {
		turn.deadline = turn.hold.Deadline()
		var err error
		turn.next, err = turn.rival.TryAcquire(t.Context(), rlock.Lease(time.Minute))
		require.NoError(t, err, turn.kind)
		turn.ofTheRivals = testkit.Holders(t, rdb, turn.rival.Name())
	}
	for _, turn := range turns {
		testkit.Within(t, "the holder is notified: "+turn.kind, turn.hold.Done())
		require.True(t, time.Now().Before(turn.deadline), turn.kind)
		require.ErrorIs(t, turn.hold.Err(), rlock.ErrLost)
		require.ErrorIs(t, turn.hold.Unlock(t.Context()), rlock.ErrLost)
		require.Equal(t, turn.ofTheRivals, testkit.Holders(t, rdb, turn.rival.Name()), turn.kind)
		require.LessOrEqual(t, testkit.Must(turn.rival.TTL(t.Context())), time.Minute)
		require.NoError(t, turn.next.Unlock(t.Context()), turn.kind)
	}
}

// Under an eviction policy for keys with an expiry, other keys displace locks.
func TestAnEvictedLockIsLost(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl").Err())
	lock := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(6*time.Second)).NewLock(testkit.NewName())
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	_ = hold.Done()
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "4mb").Err())
	deadline := hold.Deadline()
	for n := 0; len(testkit.Holders(t, rdb, lock.Name())) == 1; n++ {
		require.Less(t, n, 1000, "the lock is evicted before 50 MB are written")
		deadline = hold.Deadline()
		_ = rdb.Set(t.Context(), fmt.Sprint("filler:", n), strings.Repeat("x", 50_000), 0).Err()
	}
	testkit.Within(t, "the holder is notified", hold.Done())
	require.True(t, time.Now().Before(deadline), "a renewal detects the loss before the deadline")
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

// A Redis that is out of memory refuses commands that need more. A renewal needs none.
func TestHoldsAreRenewedWhenRedisIsOutOfMemory(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
	var holds []*rlock.Hold
	for _, kind := range singleKinds() {
		hold, err := testkit.MakeLock(kind, client, testkit.NewName()).Acquire(t.Context())
		require.NoError(t, err, kind)
		holds = append(holds, hold)
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 2 {
		var before []time.Time
		for _, hold := range holds {
			before = append(before, hold.Deadline())
		}
		for i, kind := range singleKinds() {
			testkit.Eventually(t, kind+" is renewed", func() bool { return holds[i].Deadline().After(before[i]) })
			require.NoError(t, holds[i].Err(), kind)
		}
	}
	tokens := 0
	for i, kind := range singleKinds() {
		require.NoError(t, holds[i].Unlock(t.Context()), kind)
		if testkit.Kinds[kind].Tokens {
			tokens++
		}
	}
	require.EqualValues(t, tokens, testkit.Must(rdb.DBSize(t.Context()).Result()), "only the tokens of the fenced locks are left")
}
