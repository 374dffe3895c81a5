package rlock_test

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
)

// canary hears all that the library says in trouble, to find what must not be in it.
type canary struct {
	*testing.T
	server *redistest.Server
	log    recorder
	ids    []string // of the clients
	errs   []error
}

// hear keeps errors. Each is one.
func (c *canary) hear(errs ...error) {
	c.Helper()
	for i, err := range errs {
		require.Error(c, err, "number %d", i+1)
		c.errs = append(c.errs, err)
	}
}

// logged waits until something has been said that has such a part.
func (c *canary) logged(part string) {
	c.Helper()
	eventually(c, part, func() bool {
		runtime.GC() // some of it is said of what is dropped
		return c.log.Contains(part)
	})
}

// client returns a client whose user has these rights, if it gives the right password.
func (c *canary) client(password string, rules []string, opts ...rlock.Option) *rlock.Client {
	c.Helper()
	user := newUser(c, admins(c, c.server), rules...)
	rdb := redistest.Open(c, &redis.Options{Addr: c.server.Addr, Username: user, Password: password, DialerRetries: 1})
	client := newClient(c, rdb, append([]rlock.Option{
		rlock.WithLogger(c.log.logger()), rlock.WithWatchdogTimeout(300 * time.Millisecond),
		rlock.WithCommandTimeout(500 * time.Millisecond),
	}, opts...)...)
	c.ids = append(c.ids, client.ID())
	return client
}

// name returns a name that is long and wild.
func (c *canary) name() string { return newName() + "\x1b[31m" + strings.Repeat("x", 100) }

var everything = []string{"~*", "&*", "+@all"}

// TestNothingSecretIsSaid goes through what can go wrong. In no error and no log record is a password, or a holder field, by
// which whoever may write to Redis can release a lock, or more of a client's id than a beginning, or a name as it came.
func TestNothingSecretIsSaid(t *testing.T) {
	t.Parallel()
	c := &canary{T: t, server: redistest.Start(t)}
	c.refused()
	c.misused()
	c.lost()
	c.groups()
	c.dead() // the last: it ends the server

	for _, sentinel := range []error{
		rlock.ErrNotAcquired, rlock.ErrNotHeld, rlock.ErrLost, rlock.ErrReentered, rlock.ErrUpgrade, rlock.ErrNotReplicated,
		rlock.ErrClosed, rlock.ErrInvalidName, rlock.ErrInvalidOption,
	} {
		require.True(t, anyIs(c.errs, sentinel), "nobody said %q", sentinel)
	}
	said := []string{c.log.String()}
	for _, err := range c.errs {
		said = append(said, err.Error())
	}
	holder := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:-?\d`)
	for _, text := range said {
		require.NotContains(t, text, secret)
		require.NotRegexp(t, holder, text)
		require.NotContains(t, text, strings.Repeat("x", 65), "names are cut")
		require.NotContains(t, text, "\x1b", "and quoted")
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

// refused has Redis refuse the password, commands and channels.
func (c *canary) refused() {
	ctx := c.Context()
	wrong := c.client(secret+"?", everything)
	lock := wrong.NewLock(c.name())
	c.hear(lock.Lock(ctx), second(lock.TryLock(ctx)), second(lock.IsLocked(ctx)), second(lock.ForceUnlock(ctx)))

	for _, rule := range []string{"-evalsha", "-hset", "-pexpire", "-exists"} {
		lock := c.client(secret, append(everything[:3:3], rule)).NewFairLock(c.name())
		c.hear(lock.Lock(ctx), second(lock.TryAcquire(ctx)))
	}

	mute := c.client(secret, []string{"~*", "+@all"}).NewFairLock(c.name())
	require.NoError(c, mute.Lock(ctx))
	waiting := async(func() error { return mute.Lock(ctx, rlock.Wait(aLongTime)) })
	c.logged("Redis refuses to subscribe") // to a channel that has the holder field in its name
	c.logged("waiting for a hold of the same handle")
	require.NoError(c, mute.Unlock(ctx))
	require.NoError(c, within(c, "it polls", waiting))
	require.NoError(c, mute.Unlock(ctx))
}

// misused uses the library as it is not meant to be.
func (c *canary) misused() {
	ctx := c.Context()
	client := c.client(secret, everything, rlock.WithReplicaAcks(1, 50*time.Millisecond))
	c.hear(client.NewLock(c.name()).Lock(ctx)) // no replica acknowledges

	client = c.client(secret, everything)
	name, owner := c.name(), rlock.WithOwner(ctx)
	lock := client.NewLock(name, rlock.NonReentrant())
	require.NoError(c, lock.Lock(owner))
	c.hear(lock.Lock(owner), client.NewLock(name).Unlock(ctx), client.NewLock(name).Lock(ctx, rlock.Wait(time.Millisecond)),
		second(client.NewLock(name).TryAcquire(ctx)))
	rw := client.NewRWLock(c.name())
	require.NoError(c, rw.ReadLock().Lock(owner))
	c.hear(rw.WriteLock().Lock(owner), lock.Lock(ctx, rlock.Lease(-1)),
		client.NewLock("\x1b"+strings.Repeat("x", 1<<16)).Lock(ctx))
	require.NoError(c, rw.ReadLock().Unlock(owner))
	require.NoError(c, lock.Unlock(owner))

	other := client.NewLock(c.name())
	require.NoError(c, c.server.Client(c).Set(ctx, other.Name(), "precious", 0).Err())
	c.hear(other.Lock(ctx), second(other.HoldCount(ctx)))
	require.NoError(c, client.Close())
	c.hear(lock.Lock(ctx))
}

// lost has holds end that nobody unlocked.
func (c *canary) lost() {
	ctx, admin := c.Context(), c.server.Client(c)
	client := c.client(secret, everything)
	for _, newLock := range []func(string, ...rlock.LockOption) *rlock.Lock{client.NewLock, client.NewFairLock} {
		lock := newLock(c.name())
		require.NoError(c, lock.Lock(ctx))
		require.NoError(c, admin.Del(ctx, lock.Name()).Err())
		c.logged("lost while it was held")
		c.logged(lock.Name()[:40]) // this one
		c.hear(lock.Unlock(ctx), lock.Do(ctx, func(ctx context.Context) error {
			require.NoError(c, second(lock.ForceUnlock(c.Context()))) // ctx may end before it returns
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	}
	lock := client.NewLock(c.name())
	func() { require.NoError(c, second(lock.Acquire(ctx))) }()
	c.logged("dropped without Unlock")
}

// groups has members of groups fail.
func (c *canary) groups() {
	ctx := c.Context()
	client, poor := c.client(secret, everything), c.client(secret, []string{"~*", "&*", "+@all", "-hset"})
	taken := c.name()
	holder := c.client(secret, everything).NewLock(taken)
	require.NoError(c, holder.Lock(ctx))
	members := []rlock.Locker{client.NewLock(taken), poor.NewLock(c.name()), poor.NewLock(c.name())}
	for _, group := range []rlock.Locker{rlock.NewMultiLock(members...), rlock.NewRedLock(members...)} {
		c.hear(group.Lock(ctx, rlock.Wait(time.Millisecond)), second(group.TryAcquire(ctx)), group.Unlock(ctx))
	}
	require.NoError(c, holder.Unlock(ctx))
}

// dead has no server.
func (c *canary) dead() {
	client := c.client(secret, everything)
	held := client.NewFairLock(c.name())
	leased := client.NewLock(c.name())
	require.NoError(c, held.Lock(c.Context()))
	require.NoError(c, leased.Lock(c.Context(), rlock.Lease(time.Minute)))
	require.NoError(c, client.NewLock(c.name()).Do(c.Context(), func(context.Context) error {
		c.server.Kill()
		return nil
	}))
	c.logged("could not be released")
	ctx, cancel := context.WithTimeout(c.Context(), 300*time.Millisecond)
	defer cancel()
	c.hear(held.Unlock(ctx), leased.Unlock(ctx), held.Lock(ctx), second(leased.TryLock(c.Context())))
}
