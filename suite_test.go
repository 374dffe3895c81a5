package rlock_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// locker is the interface that the suite tests: the methods of all kinds, and queries. Groups query their members.
type locker interface {
	rlock.Locker
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	TTL(ctx context.Context) (time.Duration, error)
	Waiting() int
	Keys() []string
}

// kindOf describes a kind of lock to the suite.
type kindOf struct {
	make  func(*rlock.Client, string) locker
	rival func(*rlock.Client, string) locker // makes a handle that excludes it; nil means make
	skips map[string]string                  // the claims that do not apply, with the reason
	// groups reports whether the lock consists of several names.
	groups bool
}

func single(newLock func(*rlock.Client, string, ...rlock.LockOption) *rlock.Lock) func(*rlock.Client, string) locker {
	return func(c *rlock.Client, name string) locker { return newLock(c, name) }
}

func newReadLock(c *rlock.Client, name string) locker  { return c.NewRWLock(name).ReadLock() }
func newWriteLock(c *rlock.Client, name string) locker { return c.NewRWLock(name).WriteLock() }

// kinds contains every kind of lock.
var kinds = map[string]kindOf{
	"lock":   {make: single((*rlock.Client).NewLock)},
	"fenced": {make: single((*rlock.Client).NewFencedLock)},
	"spin":   {make: single((*rlock.Client).NewSpinLock), skips: map[string]string{}},
	"fair":   {make: single((*rlock.Client).NewFairLock)},
	"write":  {make: newWriteLock},
	"read": {make: newReadLock, rival: newWriteLock, skips: map[string]string{
		"excludes goroutines that share a handle":               readersShare,
		"excludes clients":                                      readersShare,
		"exactly one of a thousand TryLocks succeeds":           readersShare,
		"a hundred short leases are served in turn":             readersShare,
		"a plain context does not re-enter":                     readersShare,
		"waiters of one process are served in order of arrival": readersShare,
		"a late unlock on a shared handle reports the loss":     readersShare,
	}},
	"multi": {make: newMultiLock, groups: true, skips: map[string]string{
		"queries without an owner refer to the handle": "a group has no queries",
	}},
	"red": {make: newRedLock, groups: true, skips: map[string]string{
		"queries without an owner refer to the handle": "a group has no queries",
		"exactly one of a thousand TryLocks succeeds":  "the votes may split, and then nobody gets the lock",
		"a force unlock notifies the holder":           "the members are unlocked one by one and reacquired meanwhile",
	}},
}

// grouped is a group of locks. Its queries ask the members and return the result that enough of them reach.
type grouped struct {
	rlock.Locker
	members []*rlock.Lock
	most    int
}

func newGroup(c *rlock.Client, name string, n, most int) grouped {
	g := grouped{most: most}
	for i := range n {
		g.members = append(g.members, c.NewLock(fmt.Sprintf("%s:%d", name, i+1)))
	}
	return g
}

func (g grouped) lockers() (all []rlock.Locker) {
	for _, m := range g.members {
		all = append(all, m)
	}
	return all
}

func newMultiLock(c *rlock.Client, name string) locker {
	g := newGroup(c, name, 2, 2)
	g.Locker = rlock.NewMultiLock(g.lockers()...)
	return g
}

func newRedLock(c *rlock.Client, name string) locker {
	g := newGroup(c, name, 3, 2)
	g.Locker = rlock.NewRedLock(g.lockers()...)
	return g
}

// agreed queries all members and returns the greatest value that enough of them reach.
func agreed[T cmp.Ordered](g grouped, query func(*rlock.Lock) (T, error)) (value T, err error) {
	var values []T
	for _, m := range g.members {
		v, err := query(m)
		if err != nil {
			return value, err
		}
		values = append(values, v)
	}
	slices.Sort(values)
	return values[len(values)-g.most], nil
}

func (g grouped) IsLocked(ctx context.Context) (bool, error) {
	n, err := agreed(g, func(l *rlock.Lock) (int, error) {
		locked, err := l.IsLocked(ctx)
		if locked {
			return 1, err
		}
		return 0, err
	})
	return n == 1, err
}

func (g grouped) ForceUnlock(ctx context.Context) (bool, error) {
	n, err := agreed(g, func(l *rlock.Lock) (int, error) {
		freed, err := l.ForceUnlock(ctx)
		if freed {
			return 1, err
		}
		return 0, err
	})
	return n == 1, err
}

func (g grouped) HoldCount(ctx context.Context) (int, error) {
	return agreed(g, func(l *rlock.Lock) (int, error) { return l.HoldCount(ctx) })
}

func (g grouped) TTL(ctx context.Context) (time.Duration, error) {
	return agreed(g, func(l *rlock.Lock) (time.Duration, error) { return l.TTL(ctx) })
}

func (g grouped) Waiting() int {
	if red, ok := g.Locker.(*rlock.RedLock); ok {
		return red.Waiting()
	}
	n := 0
	for _, m := range g.members {
		n += m.Waiting()
	}
	return n
}

func (g grouped) Keys() (all []string) {
	for _, m := range g.members {
		all = append(all, m.Keys()...)
	}
	return all
}

const readersShare = "readers do not exclude each other"

// servers contains every kind of Redis that the suite runs on.
var servers = map[string]func(testing.TB) redis.UniversalClient{
	"embedded": func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return redistest.Embedded(tb)
	},
	"single": func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return redistest.Start(tb).Client(tb)
	},
}

// onBoth runs a test on the embedded server and on a real one.
func onBoth(t *testing.T, test func(*testing.T, redis.UniversalClient)) {
	t.Helper()
	for server, start := range servers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// fixture is the environment of one conformance test.
type fixture struct {
	*testing.T
	rdb   redis.UniversalClient // of the locks, as a user with only the required rights
	admin redis.UniversalClient // the test's own
	kind  kindOf
	name  string
	opts  []rlock.Option // of every client
}

// client returns a new client, which acts as another process.
func (f *fixture) client(opts ...rlock.Option) *rlock.Client {
	return newClient(f, f.rdb, append(slices.Clip(f.opts), opts...)...)
}

// newLock returns a handle of the kind under test.
func (f *fixture) newLock(c *rlock.Client, name string) locker { return f.kind.make(c, name) }

// newRival returns a handle that the kind under test excludes.
func (f *fixture) newRival(c *rlock.Client, name string) locker {
	if f.kind.rival != nil {
		return f.kind.rival(c, name)
	}
	return f.kind.make(c, name)
}

// lock returns a handle of the test's name on a new client.
func (f *fixture) lock(opts ...rlock.Option) locker { return f.newLock(f.client(opts...), f.name) }

// rival returns a handle that the test's lock excludes, on another new client.
func (f *fixture) rival(opts ...rlock.Option) locker { return f.newRival(f.client(opts...), f.name) }

// conform runs every claim for every kind of lock. The clients have the given options. Each kind has its own redis client, as
// a user with limited rights. The tests inspect Redis through the admin client.
func conform(
	t *testing.T, admin redis.UniversalClient, rdb func(kind string) redis.UniversalClient, groups bool, opts ...rlock.Option,
) {
	t.Helper()
	opts = append(opts, rlock.WithKeyPrefix(appPrefix))
	for name, kind := range kinds {
		if kind.groups && !groups {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range conformance {
				t.Run(c.claim, func(t *testing.T) {
					if why := kind.skips[c.claim]; why != "" {
						t.Skip(why)
					}
					c.test(&fixture{T: t, rdb: rdb(name), admin: admin, kind: kind, name: newName(), opts: opts})
				})
			}
		})
	}
}

// TestConformance runs every claim for every kind of lock on a real server and on the embedded one. On the real server, the
// users have exactly the rights that SECURITY.md requires. TestSentinel and TestCluster do the same for their topologies.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Embedded(t)
		conform(t, rdb, func(string) redis.UniversalClient { return rdb }, true)
	})
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		conform(t, server.Client(t), limited(t, admins(t, server), openAs(t, server)), true)
	})
}

// noError fails the test if err is not nil, and reports whether it is nil. Unlike require.NoError, any goroutine may call it.
func noError(f *fixture, err error) bool {
	if err != nil {
		f.Errorf("unexpected error: %v", err)
	}
	return err == nil
}

// leftIn reports whether a key of a lock is left that should be gone. A fencing token stays forever, and a tombstone for its
// lifetime.
func leftIn(tb testing.TB, rdb redis.UniversalClient, keys []string) bool {
	tb.Helper()
	for _, key := range keys {
		ttl, err := rdb.PTTL(context.Background(), key).Result()
		require.NoError(tb, err)
		switch {
		case ttl == -2, strings.HasPrefix(key, "redisson_lock_token:"):
		case ttl > 0 && strings.HasPrefix(key, "redisson_unlock_latch:"):
		default:
			return true
		}
	}
	return false
}

func holdCount(f *fixture, lock locker, ctx context.Context) int { //nolint:revive // the fixture goes first
	f.Helper()
	n, err := lock.HoldCount(ctx)
	require.NoError(f, err)
	return n
}

func tryLock(f *fixture, lock locker, ctx context.Context) bool { //nolint:revive // the fixture goes first
	f.Helper()
	ok, err := lock.TryLock(ctx)
	require.NoError(f, err)
	return ok
}

// requireFree requires that a handle can lock, and unlocks it again. A red lock is unlocked as soon as a majority of its
// members is. The remaining members may stay locked for a moment longer.
func requireFree(f *fixture, lock locker) {
	f.Helper()
	if red(lock) {
		require.NoError(f, lock.Lock(f.Context(), rlock.Wait(aLongTime)))
	} else {
		require.True(f, tryLock(f, lock, f.Context()))
	}
	require.NoError(f, lock.Unlock(f.Context()))
}

// red reports whether a lock is held by a majority of its members.
func red(lock locker) bool {
	g, ok := lock.(grouped)
	return ok && g.most < len(g.members)
}

func isLocked(f *fixture, lock locker) bool {
	f.Helper()
	locked, err := lock.IsLocked(f.Context())
	require.NoError(f, err)
	return locked
}

func ttl(f *fixture, lock locker) time.Duration {
	f.Helper()
	d, err := lock.TTL(f.Context())
	require.NoError(f, err)
	return d
}
