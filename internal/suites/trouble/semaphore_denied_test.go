package trouble

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// evals matches the commands that run scripts.
func evals(c redistest.Command) bool { return strings.HasPrefix(c[0], "eval") }

// denied opens a semaphore of two permits as the admin, and as a user without one right.
func denied(t *testing.T, without string) (admin, user *rlock.Semaphore, rdb *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	admins := testkit.Admins(t, server)
	name := "app:" + testkit.NewName()
	admin = testkit.NewClient(t, admins[0]).NewSemaphore(name, rlock.Total(2))
	require.Equal(t, 2, testkit.Must(admin.Permits(t.Context())))
	as := testkit.NewUser(t, admins, append(testkit.Rights(t, "a semaphore, by itself"), without)...)
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, testkit.OpenAs(t, server)(as), logger, rlock.WithCommandTimeout(300*time.Millisecond))
	return admin, client.NewSemaphore(name), admins[0]
}

// TestPermitsAreKeptWithoutRights: a script that Redis stops halfway neither loses a permit nor makes one.
func TestPermitsAreKeptWithoutRights(t *testing.T) {
	t.Parallel()
	t.Run("decrby", func(t *testing.T) {
		t.Parallel()
		admin, user, _ := denied(t, "-decrby")
		for range 3 {
			_, err := user.TryAcquire(t.Context(), rlock.Lease(10*time.Millisecond))
			require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		}
		require.Equal(t, 2, testkit.Must(admin.Permits(t.Context())))
		hold := testkit.Must(admin.Acquire(t.Context(), rlock.Permits(2)))
		_, err := admin.TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.NoError(t, hold.Unlock(t.Context()))
		require.Equal(t, 2, testkit.Must(admin.AvailablePermits(t.Context())))
	})
	t.Run("incrby", func(t *testing.T) {
		t.Parallel()
		admin, user, rdb := denied(t, "-incrby")
		hold := testkit.Must(user.Acquire(t.Context()))
		require.Error(t, hold.Unlock(t.Context()))
		both := testkit.Must(admin.Acquire(t.Context(), rlock.Permits(2)))
		leases := "{" + admin.Name() + "}:timeout"
		for _, id := range rdb.ZRange(t.Context(), leases, 0, -1).Val() {
			require.NoError(t, rdb.ZAdd(t.Context(), leases, redis.Z{Score: 1, Member: id}).Err()) // it is over
		}
		_, err := user.TryAcquire(t.Context(), rlock.Permits(2))
		require.Error(t, err)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired, "it cannot take them back")
		require.Equal(t, 2, testkit.Must(admin.Permits(t.Context())))
		given := testkit.Must(admin.Acquire(t.Context(), rlock.Permits(2)))
		require.Error(t, user.Release(t.Context(), given.PermitIDs()...))
		require.Equal(t, 2, testkit.Must(admin.Permits(t.Context())))
		require.Equal(t, 2, testkit.Must(admin.AvailablePermits(t.Context())), "they have lost their leases")
		_, _ = given.Unlock(t.Context()), both.Unlock(t.Context())
		require.Equal(t, 2, testkit.Must(admin.Permits(t.Context())))
	})
	t.Run("zscore", func(t *testing.T) {
		t.Parallel()
		admin, user, _ := denied(t, "-zscore")
		testkit.Must(admin.Acquire(t.Context(), rlock.Permits(2)))
		_, err := user.TryAcquire(t.Context())
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		require.NotContains(t, err.Error(), "compare", "the script itself does not fail")
	})
}

// TestPlainPermitsAreKeptWithoutRights has a release write a tombstone as a user who may not look for old ones.
func TestPlainPermitsAreKeptWithoutRights(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick())
	admins := testkit.Admins(t, f.Server)
	user := testkit.NewUser(t, admins, append(testkit.Rights(t, "a plain semaphore, by itself"), "-hlen")...)
	admin := testkit.NewClient(t, admins[0]).NewPlainSemaphore("app:"+testkit.NewName(), rlock.Total(2))
	require.Equal(t, 2, testkit.Must(admin.AvailablePermits(t.Context())))
	rdb := redistest.Open(t, &redis.Options{Addr: f.Proxy.Addr, Username: user, Password: testkit.Secret, ReadTimeout: 400 * time.Millisecond})
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, rdb, logger)
	f.Proxy.DropReply(1, evals)
	hold := testkit.Must(client.NewPlainSemaphore(admin.Name()).Acquire(t.Context()))
	require.NoError(t, hold.Unlock(t.Context()))
	require.Equal(t, 2, testkit.Must(admin.AvailablePermits(t.Context())))
}
