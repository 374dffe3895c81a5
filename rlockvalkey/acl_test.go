// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestRights connects as a user with exactly the rights of SECURITY.md, then as one that also has those for client-side caching.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admins := []*redis.Client{server.Client(t)}
	plain := testkit.Rights(t, append([]string{"rueidis, every kind"}, testkit.RowsOf["lock"]...)...)
	cached := slices.Concat(plain, testkit.Rights(t, "rueidis with client-side caching"))
	opt := valkey.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, Password: testkit.Secret}
	locks := func(user string, opt valkey.ClientOption) *rlock.Client {
		opt.Username = user
		c, err := valkey.NewClient(opt)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		locks, err := New(c, rlock.WithKeyPrefix(testkit.AppPrefix))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, locks.Close()) })
		return locks
	}
	for _, rights := range [][]string{plain, cached} {
		user := testkit.NewUser(t, admins, rights...)
		with := opt
		with.DisableCache = len(rights) == len(plain)
		lock := locks(user, with).NewLock(testkit.NewName())
		require.NoError(t, lock.Lock(t.Context()))
		waits := testkit.Async(func() error { return lock.Lock(t.Context()) })
		testkit.Eventually(t, "the second one waits", func() bool { return testkit.Listens(lock) })
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "it gets the lock", waits))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Empty(t, testkit.Denied(admins, user))
	}
	opt.Username = testkit.NewUser(t, admins, plain...)
	_, err := valkey.NewClient(opt)
	require.ErrorContains(t, err, "DisableCache", "caching needs a right of its own")
}

// TestSentinelRights connects to Sentinels and to their master as users with exactly the rights of SECURITY.md.
func TestSentinelRights(t *testing.T) {
	t.Parallel()
	trio := redistest.StartSentinel(t)
	servers := testkit.Admins(t, append([]*redistest.Server{trio.Master}, trio.Replicas...)...)
	sentinels := testkit.Admins(t, trio.Sentinels...)
	rights := testkit.Rights(t, append([]string{"rueidis, every kind", "rueidis with Sentinel"}, testkit.RowsOf["lock"]...)...)
	user, watching := testkit.NewUser(t, servers, rights...), testkit.NewUser(t, sentinels, testkit.Rights(t, "the user of the sentinels with rueidis, instead of the row above")...)
	c, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: trio.Options().SentinelAddrs, Username: user, Password: testkit.Secret, DisableCache: true,
		Sentinel: valkey.SentinelOption{MasterSet: trio.Options().MasterName, Username: watching, Password: testkit.Secret},
	})
	require.NoError(t, err)
	defer c.Close()
	locks, err := New(c, rlock.WithKeyPrefix(testkit.AppPrefix))
	require.NoError(t, err)
	defer func() { require.NoError(t, locks.Close()) }()
	lock := locks.NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	require.Empty(t, testkit.Denied(servers, user))
	require.Empty(t, testkit.Denied(sentinels, watching))
}
