package trouble

import (
	"context"
	"errors"
	"regexp"
	"runtime"
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

// secretsCheck collects every error and log record of the library in trouble, and searches them for secrets.
type secretsCheck struct {
	*testing.T
	server *redistest.Server
	log    testkit.Recorder
	ids    []string // of the clients
	errs   []error
}

// collect keeps errors, none of which may be nil.
func (c *secretsCheck) collect(errs ...error) {
	c.Helper()
	for i, err := range errs {
		require.Error(c, err, "number %d", i+1)
		c.errs = append(c.errs, err)
	}
}

// logged waits until the log contains part.
func (c *secretsCheck) logged(part string) {
	c.Helper()
	testkit.Eventually(c, part, func() bool {
		runtime.GC() // some records are about leaked holds
		return c.log.Contains(part)
	})
}

// client returns a client that logs in with this password as a new user with these rights.
func (c *secretsCheck) client(password string, rules []string, opts ...rlock.Option) *rlock.Client {
	c.Helper()
	user := testkit.NewUser(c, testkit.Admins(c, c.server), rules...)
	rdb := redistest.Open(c, &redis.Options{Addr: c.server.Addr, Username: user, Password: password, DialerRetries: 1})
	client := testkit.NewClient(c, rdb, append([]rlock.Option{
		rlock.WithLogger(c.log.Logger()), rlock.WithWatchdogTimeout(1500 * time.Millisecond),
		rlock.WithCommandTimeout(time.Second),
	}, opts...)...)
	c.ids = append(c.ids, client.ID())
	return client
}

// name returns a long name with a control sequence.
func (c *secretsCheck) name() string {
	return testkit.NewName() + "\x1b[31m" + strings.Repeat("x", 100)
}

var everything = []string{"~*", "&*", "+@all"}

// TestErrorsAndLogsContainNoSecrets goes through everything that can go wrong. No error and no log record may contain:
//   - a password;
//   - a holder field, with which anyone who can write to Redis could release a lock;
//   - more than the first characters of a client's ID;
//   - a name that is not quoted and cut.
func TestErrorsAndLogsContainNoSecrets(t *testing.T) {
	t.Parallel()
	c := &secretsCheck{T: t, server: redistest.Start(t)}
	c.refused()
	c.misused()
	c.lost()
	c.groups()
	c.unknown()
	c.dead() // last, because it kills the server

	for _, sentinel := range []error{
		rlock.ErrNotAcquired, rlock.ErrNotHeld, rlock.ErrLost, rlock.ErrReentered, rlock.ErrUpgrade, rlock.ErrNotReplicated,
		rlock.ErrClosed, rlock.ErrInvalidName, rlock.ErrInvalidOption,
	} {
		require.True(t, anyIs(c.errs, sentinel), "no error is %q", sentinel)
	}
	texts := []string{c.log.String()}
	for _, err := range c.errs {
		texts = append(texts, err.Error())
	}
	holder := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:-?\d`)
	for _, text := range texts {
		require.NotContains(t, text, testkit.Secret)
		require.NotRegexp(t, holder, text)
		require.NotContains(t, text, strings.Repeat("x", 65), "names are truncated")
		require.NotContains(t, text, "\x1b", "names are quoted")
		for _, id := range c.ids {
			require.NotContains(t, text, id[:9], "8 characters are enough to tell clients apart")
		}
	}
}

func anyIs(errs []error, sentinel error) bool {
	for _, err := range errs {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// refused makes Redis refuse the password, commands and channels.
func (c *secretsCheck) refused() {
	ctx := c.Context()
	wrong := c.client(testkit.Secret+"?", everything)
	lock := wrong.NewLock(c.name())
	c.collect(lock.Lock(ctx), testkit.Second(lock.TryLock(ctx)), testkit.Second(lock.IsLocked(ctx)), testkit.Second(lock.ForceUnlock(ctx)))

	for _, rule := range []string{"-evalsha", "-hset", "-pexpire", "-exists"} {
		lock := c.client(testkit.Secret, append(everything[:3:3], rule)).NewFairLock(c.name())
		c.collect(lock.Lock(ctx), testkit.Second(lock.TryAcquire(ctx)))
	}

	mute := c.client(testkit.Secret, []string{"~*", "+@all"}).NewFairLock(c.name())
	require.NoError(c, mute.Lock(ctx))
	c.collect(mute.Lock(ctx, rlock.Wait(testkit.ALongTime))) // the channel's name contains the holder field
	require.NoError(c, mute.Unlock(ctx))
}

// unknown calls servers that do not know a command: their errors repeat the beginning of its arguments.
func (c *secretsCheck) unknown() {
	ctx := c.Context()
	for _, command := range []string{"evalsha", "auth"} {
		server := redistest.Start(c, "--rename-command", command, "renamed", "--rename-command", "hello", "renamed_hello")
		opt := &redis.Options{Addr: server.Addr, Protocol: 2}
		if command == "auth" {
			opt.Password = testkit.Secret
		}
		client := testkit.NewClient(c, redistest.Open(c, opt), rlock.WithLogger(c.log.Logger()))
		c.ids = append(c.ids, client.ID())
		for _, lock := range []*rlock.Lock{client.NewSpinLock("x"), client.NewFairLock("x")} {
			err := lock.Lock(ctx)
			c.collect(err, testkit.Second(lock.IsLocked(ctx)))
			require.ErrorContains(c, err, "unknown command")
		}
	}
}

// misused uses the library in the wrong ways.
func (c *secretsCheck) misused() {
	ctx := c.Context()
	client := c.client(testkit.Secret, everything, rlock.WithReplicaAcks(1, 50*time.Millisecond))
	c.collect(client.NewLock(c.name()).Lock(ctx)) // no replica acknowledges

	client = c.client(testkit.Secret, everything)
	name, owner := c.name(), rlock.WithOwner(ctx)
	lock := client.NewLock(name, rlock.NonReentrant())
	require.NoError(c, lock.Lock(owner))
	c.collect(lock.Lock(owner), client.NewLock(name).Unlock(ctx), client.NewLock(name).Lock(ctx, rlock.Wait(time.Millisecond)),
		testkit.Second(client.NewLock(name).TryAcquire(ctx)))
	rw := client.NewRWLock(c.name())
	require.NoError(c, rw.Reader().Lock(owner))
	c.collect(rw.Writer().Lock(owner), lock.Lock(ctx, rlock.Lease(-1)),
		client.NewLock("\x1b"+strings.Repeat("x", 1<<16)).Lock(ctx))
	require.NoError(c, rw.Reader().Unlock(owner))
	require.NoError(c, lock.Unlock(owner))

	other := client.NewLock(c.name())
	require.NoError(c, c.server.Client(c).Set(ctx, other.Name(), "precious", 0).Err())
	c.collect(other.Lock(ctx), testkit.Second(other.HoldCount(ctx)))
	require.NoError(c, client.Close())
	c.collect(lock.Lock(ctx))
}

// lost makes holds end without an unlock.
func (c *secretsCheck) lost() {
	ctx, admin := c.Context(), c.server.Client(c)
	client := c.client(testkit.Secret, everything)
	for _, newLock := range []func(string, ...rlock.LockOption) *rlock.Lock{client.NewLock, client.NewFairLock} {
		lock := newLock(c.name())
		require.NoError(c, lock.Lock(ctx))
		require.NoError(c, admin.Del(ctx, lock.Name()).Err())
		c.logged("lock lost while held")
		c.logged(lock.Name()[:40]) // the record names this lock
		c.collect(lock.Unlock(ctx), lock.Do(ctx, func(ctx context.Context) error {
			require.NoError(c, testkit.Second(lock.ForceUnlock(c.Context()))) // ctx may end before ForceUnlock returns
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	}
}

// groups makes members of groups fail.
func (c *secretsCheck) groups() {
	ctx := c.Context()
	client, poor := c.client(testkit.Secret, everything), c.client(testkit.Secret, []string{"~*", "&*", "+@all", "-hset"})
	taken := c.name()
	holder := c.client(testkit.Secret, everything).NewLock(taken)
	require.NoError(c, holder.Lock(ctx))
	members := []*rlock.Lock{client.NewLock(taken), poor.NewLock(c.name()), poor.NewLock(c.name())}
	for _, group := range []handles.Any{rlock.NewMultiLock(members...), rlock.NewRedLock(members...)} {
		c.collect(testkit.Second(group.Acquire(ctx, rlock.Wait(time.Millisecond))), testkit.Second(group.TryAcquire(ctx)))
	}
	require.NoError(c, holder.Unlock(ctx))
}

// dead kills the server.
func (c *secretsCheck) dead() {
	client := c.client(testkit.Secret, everything)
	held := client.NewFairLock(c.name())
	leased := client.NewLock(c.name())
	require.NoError(c, held.Lock(c.Context()))
	require.NoError(c, leased.Lock(c.Context(), rlock.Lease(time.Minute)))
	err := client.NewLock(c.name()).Do(c.Context(), func(context.Context) error {
		c.server.Kill()
		return nil
	})
	if err != nil { // the kill took longer than the lease
		c.collect(err)
	}
	c.logged("could not be released")
	c.logged("renewal failed")
	ctx, cancel := context.WithTimeout(c.Context(), 300*time.Millisecond)
	defer cancel()
	c.collect(held.Unlock(ctx), leased.Unlock(ctx), held.Lock(ctx), testkit.Second(leased.TryLock(c.Context())))
}
