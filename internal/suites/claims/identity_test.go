package claims

import (
	"context"
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

// clientKey is the key of a client's identity, by the digits of its id that the ids of its permits begin with.
func clientKey(client *rlock.Client) string {
	id := client.ID()
	return "rlock_client:{" + id[:8] + id[9:13] + id[len(id)-4:] + "}"
}

// TestInspectShowsIdentities of holders and waiters, and none of clients that have none.
func TestInspectShowsIdentities(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		id := rlock.Identity{Service: "shop", Host: "shop-1", Version: "v1.2.3", PID: 42, Started: time.UnixMilli(1_700_000_000_123)}
		known := testkit.NewClient(t, rdb, rlock.WithIdentity(id))
		waits := testkit.NewClient(t, rdb, rlock.WithIdentity(rlock.Identity{Service: "reports"}))
		silent := testkit.NewClient(t, rdb)
		require.Zero(t, rdb.Exists(ctx, clientKey(known)).Val(), "before it has anything")

		rw := known.NewRWLock(testkit.NewName())
		require.NoError(t, rw.Reader().Lock(ctx))
		other := silent.NewRWLock(rw.Reader().Name())
		require.NoError(t, other.Reader().Lock(ctx))
		waiting := testkit.Async(func() error {
			return waits.NewRWLock(rw.Reader().Name()).Writer().Do(ctx, func(context.Context) error { return nil })
		})
		var info rlock.LockInfo
		testkit.Eventually(t, "all are there", func() bool {
			info = testkit.Must(other.Writer().Inspect(ctx))
			return info.HolderCount == 2 && info.WaiterCount == 1 && info.Waiters[0].Identity != nil &&
				slices.ContainsFunc(info.Holders, func(h rlock.HolderInfo) bool { return h.Identity != nil })
		})
		for _, h := range info.Holders {
			if h.Client == known.ID() {
				require.Equal(t, &id, h.Identity)
			} else {
				require.Nil(t, h.Identity)
			}
		}
		require.Equal(t, &rlock.Identity{Service: "reports"}, info.Waiters[0].Identity)
		require.NoError(t, rw.Reader().Unlock(ctx))
		require.NoError(t, other.Reader().Unlock(ctx))
		require.NoError(t, testkit.Within(t, "the writer has its turn", waiting))
		require.Zero(t, rdb.Exists(ctx, clientKey(silent)).Val())
	})
}

// TestAnIdentityLastsAsLongAsTheHolds has it refreshed while a lock is held, gone some time after that, and back with the next lock.
func TestAnIdentityLastsAsLongAsTheHolds(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithIdentity(rlock.AutoIdentity()), rlock.WithWatchdogTimeout(lease))
	there := func() bool { return rdb.Exists(t.Context(), clientKey(client)).Val() == 1 }
	lock := client.NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context()))
	testkit.Eventually(t, "it is written", there)
	require.LessOrEqual(t, rdb.PTTL(t.Context(), clientKey(client)).Val(), 3*lease)
	since := time.Now()
	testkit.Eventually(t, "longer than it lasts by itself", func() bool {
		require.True(t, there(), "after %v", time.Since(since))
		return time.Since(since) > 4*lease
	})
	require.NoError(t, hold.Unlock(t.Context()))
	testkit.Eventually(t, "it is gone", func() bool { return !there() })
	require.NoError(t, lock.Lock(t.Context()))
	testkit.Eventually(t, "it is back", there)
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, client.Shutdown(t.Context()))
	testkit.Eventually(t, "it is gone with its client", func() bool { return !there() })
}

// TestAnIdentityStaysWithTheLocksThatItsClientLeaves has a client closed while it holds a lock: the name is what an operator needs then.
func TestAnIdentityStaysWithTheLocksThatItsClientLeaves(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithIdentity(rlock.Identity{Service: "shop"}))
	lock := client.NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context()))
	testkit.Eventually(t, "it is written", func() bool { return rdb.Exists(t.Context(), clientKey(client)).Val() == 1 })
	require.NoError(t, client.Close())
	info := testkit.Must(testkit.NewClient(t, rdb).NewLock(lock.Name()).Inspect(t.Context()))
	require.Equal(t, &rlock.Identity{Service: "shop"}, info.Holders[0].Identity)
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestAnIdentityHasThePrefixOfTheLocks, so that the rights on that prefix are enough.
func TestAnIdentityHasThePrefixOfTheLocks(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb, rlock.WithIdentity(rlock.Identity{PID: 1}), rlock.WithKeyPrefix("app:"))
	lock := client.NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context()))
	testkit.Eventually(t, "it is written", func() bool { return rdb.Exists(t.Context(), "app:"+clientKey(client)).Val() == 1 })
	require.Equal(t, &rlock.Identity{PID: 1}, testkit.Must(lock.Inspect(t.Context())).Holders[0].Identity)
	require.NoError(t, lock.Unlock(t.Context()))
}

// loaded is when this process began. A bubble of testing/synctest has another time.
var loaded = time.Now()

func TestIdentitiesThatCannotBe(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	for what, id := range map[string]rlock.Identity{
		"empty": {}, "long service": {Service: strings.Repeat("x", 257)}, "long host": {Host: strings.Repeat("x", 257)},
		"long version": {Version: strings.Repeat("x", 257)}, "negative PID": {PID: -1},
	} {
		_, err := rlock.New(rdb, rlock.WithIdentity(id))
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
	}
	auto := rlock.AutoIdentity()
	require.NotEmpty(t, auto.Service)
	require.NotEmpty(t, auto.Host)
	require.Positive(t, auto.PID)
	require.WithinDuration(t, loaded, auto.Started, time.Hour)
}
