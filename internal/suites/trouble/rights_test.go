package trouble

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// This file tests what is said about a right that is missing, and about a login that Redis refuses.

// calls are the calls of each kind of object as a user who may do nothing, by the kind that rlock doctor knows.
func callsOf(c *rlock.Client, name string) map[string]map[string]func(context.Context) error {
	of := func(l *rlock.Lock) map[string]func(context.Context) error {
		return map[string]func(context.Context) error{
			"Lock":        func(ctx context.Context) error { return l.Lock(ctx) },
			"TryLock":     func(ctx context.Context) error { return testkit.Second(l.TryLock(ctx)) },
			"Acquire":     func(ctx context.Context) error { return testkit.Second(l.Acquire(ctx, rlock.Wait(time.Second))) },
			"Do":          func(ctx context.Context) error { return l.Do(ctx, func(context.Context) error { return nil }) },
			"IsLocked":    func(ctx context.Context) error { return testkit.Second(l.IsLocked(ctx)) },
			"TTL":         func(ctx context.Context) error { return testkit.Second(l.TTL(ctx)) },
			"Inspect":     func(ctx context.Context) error { return testkit.Second(l.Inspect(ctx)) },
			"ForceUnlock": func(ctx context.Context) error { return testkit.Second(l.ForceUnlock(ctx)) },
		}
	}
	semaphore, plain, latch := c.NewSemaphore(name), c.NewPlainSemaphore(name), c.NewCountDownLatch(name)
	return map[string]map[string]func(context.Context) error{
		"lock": of(c.NewLock(name)), "fenced": of(c.NewLock(name, rlock.Fenced())), "spin": of(c.NewSpinLock(name)), "fair": of(c.NewFairLock(name)),
		"'fenced fair'": of(c.NewFairLock(name, rlock.Fenced())), "read": of(c.NewRWLock(name).Reader()), "write": of(c.NewRWLock(name).Writer()),
		"'fenced write'": of(c.NewRWLock(name, rlock.Fenced()).Writer()),
		"semaphore": {
			"Acquire":       func(ctx context.Context) error { return testkit.Second(semaphore.Acquire(ctx)) },
			"TrySetPermits": func(ctx context.Context) error { return testkit.Second(semaphore.TrySetPermits(ctx, 1)) },
			"Permits":       func(ctx context.Context) error { return testkit.Second(semaphore.Permits(ctx)) },
		},
		"'plain semaphore'": {
			"TryAcquire": func(ctx context.Context) error { return testkit.Second(plain.TryAcquire(ctx)) },
			"Release":    func(ctx context.Context) error { return plain.Release(ctx, 1) },
		},
		"'count-down latch'": {
			"CountDown": func(ctx context.Context) error { return testkit.Second(latch.CountDown(ctx)) },
			"Await":     func(ctx context.Context) error { return latch.Await(ctx) },
		},
	}
}

func TestAMissingRightNamesTheCommandThatListsIt(t *testing.T) { // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	admins := testkit.Admins(t, server)
	open := func(t *testing.T, rules ...string) (rdb redis.UniversalClient, user string) {
		t.Helper()
		user = testkit.NewUser(t, admins, rules...)
		return testkit.OpenAs(t, server)(user), user
	}
	grant := func(t *testing.T, user string, rules ...any) {
		t.Helper()
		require.NoError(t, admins[0].Do(t.Context(), append([]any{"acl", "setuser", user}, rules...)...).Err())
	}
	short := rlock.WithWatchdogTimeout(300 * time.Millisecond)
	t.Run("each call of each kind does, and nothing else is logged", func(t *testing.T) {
		rdb, _ := open(t, "~*", "&*", "+@all", "-eval", "-evalsha")
		logger, log := testkit.Recording()
		client := testkit.NewClient(t, rdb, logger)
		for kind, calls := range callsOf(client, testkit.NewName()) {
			for method, call := range calls {
				require.ErrorContains(t, call(t.Context()), "run: rlock doctor --kinds "+kind+")", "%s of %s", method, kind)
			}
		}
		one, two := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())
		for _, group := range []handles.Any{rlock.NewMultiLock(one, two), rlock.NewRedLock(one, two)} {
			require.ErrorContains(t, testkit.Second(group.Acquire(t.Context())), "run: rlock doctor --kinds lock)")
		}
		require.Empty(t, log.String())
	})
	t.Run("the command has the prefix of the keys", func(t *testing.T) {
		rdb, _ := open(t, "~*", "&*", "+@all", "-evalsha")
		err := testkit.NewClient(t, rdb, rlock.WithKeyPrefix("app:")).NewLock(testkit.NewName()).Lock(t.Context())
		require.ErrorContains(t, err, "run: rlock doctor --kinds lock --key-prefix app:)")
		require.NotContains(t, err.Error(), "the key")
	})
	t.Run("an unlock without HDEL does, and so does the log", func(t *testing.T) {
		rdb, _ := open(t, "~*", "&*", "+@all", "-hdel")
		logger, log := testkit.Recording()
		lock := testkit.NewClient(t, rdb, logger, short).NewLock(testkit.NewName())
		require.NoError(t, lock.Lock(t.Context()))
		require.ErrorContains(t, lock.Unlock(t.Context()), "run: rlock doctor --kinds lock)")
		testkit.Eventually(t, "the log does", func() bool {
			return log.Contains("could not be released") && log.Contains("run: rlock doctor --kinds lock)")
		})
	})
	t.Run("a renewal does in the log", func(t *testing.T) {
		rdb, user := open(t, "~*", "&*", "+@all")
		logger, log := testkit.Recording()
		hold, err := testkit.NewClient(t, rdb, logger, short).NewFairLock(testkit.NewName()).Acquire(t.Context())
		require.NoError(t, err)
		grant(t, user, "-pexpire")
		<-hold.Done()
		for line := range strings.Lines(log.String()) {
			require.False(t, strings.Contains(line, "renewal failed") && !strings.Contains(line, "run: rlock doctor --kinds fair)"), line)
		}
		require.True(t, log.Contains("renewal failed"), log)
	})
	t.Run("a waiting call does", func(t *testing.T) {
		rdb, _ := open(t, "~*", "+@all")
		held := testkit.NewClient(t, admins[0]).NewLock(testkit.NewName())
		require.NoError(t, held.Lock(t.Context()))
		err := testkit.NewClient(t, rdb).NewLock(held.Name()).Lock(t.Context())
		require.ErrorContains(t, err, "run: rlock doctor --kinds lock)")
		require.NoError(t, held.Unlock(t.Context()))
	})
	t.Run("WAIT does", func(t *testing.T) {
		rdb, _ := open(t, "~*", "&*", "+@all", "-wait")
		err := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(1, time.Millisecond)).NewLock(testkit.NewName()).Lock(t.Context(), rlock.Wait(time.Second))
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		require.ErrorContains(t, err, "run: rlock doctor --acks 1)")
		require.Equal(t, 1, strings.Count(err.Error(), "rlock doctor"), err)
	})
	t.Run("an identity does in the log", func(t *testing.T) {
		rdb, _ := open(t, "~x:test*", "~rlock:{x:test*", "~redisson_lock_token*", "&*", "+@all")
		logger, log := testkit.Recording()
		client := testkit.NewClient(t, rdb, logger, rlock.WithKeyPrefix("x:"), rlock.WithIdentity(rlock.Identity{Service: "service"}))
		require.NoError(t, client.NewSpinLock(testkit.NewName()).Lock(t.Context()))
		testkit.Eventually(t, "the log does", func() bool { return log.Contains("the identity of this client") && log.Contains("run: rlock doctor)") })
	})
}

func TestARefusedLoginIsNotAboutAKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	connect := func(t *testing.T, user, password string) *rlock.Lock {
		t.Helper()
		rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, Username: user, Password: password})
		return testkit.NewClient(t, rdb).NewLock(testkit.NewName())
	}
	refused := func(t *testing.T, lock *rlock.Lock, text string) {
		t.Helper()
		for _, err := range []error{
			lock.Lock(t.Context()), testkit.Second(lock.IsLocked(t.Context())), testkit.Second(lock.Inspect(t.Context())),
			testkit.Second(rlock.NewMultiLock(lock).Acquire(t.Context())),
		} {
			require.ErrorContains(t, err, "Redis refuses the login of the redis client")
			require.ErrorContains(t, err, text)
			require.NotContains(t, err.Error(), "the key")
			require.NotErrorIs(t, err, rlock.ErrUnavailable)
		}
	}
	t.Run("a wrong password", func(t *testing.T) {
		refused(t, connect(t, testkit.NewUser(t, testkit.Admins(t, server), "+@all"), "wrong"), "WRONGPASS")
	})
	t.Run("an unknown user", func(t *testing.T) { refused(t, connect(t, "nobody", "any"), "WRONGPASS") })
	t.Run("no password", func(t *testing.T) {
		redistest.NeedsRealServer(t, "file descriptors, by which go-redis notices closed connections")
		require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", testkit.Secret).Err())
		refused(t, connect(t, "", ""), "uthenticat") // NOAUTH, or what Redis 7.0 says to a long command
	})
}
