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

// locker is a lock as the suite sees it: what all kinds can do, and questions, which groups answer through their members.
type locker interface {
	rlock.Locker
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	TTL(ctx context.Context) (time.Duration, error)
	Waiting() int
	Keys() []string
}

// kindOf is a kind of lock, as the suite tests it.
type kindOf struct {
	make  func(*rlock.Client, string) locker
	rival func(*rlock.Client, string) locker // excludes it; nil: another of the same
	skips map[string]string                  // claims that it does not make, and why
	// groups tells that it is made of several names.
	groups bool
}

func single(newLock func(*rlock.Client, string, ...rlock.LockOption) *rlock.Lock) func(*rlock.Client, string) locker {
	return func(c *rlock.Client, name string) locker { return newLock(c, name) }
}

func newReadLock(c *rlock.Client, name string) locker  { return c.NewRWLock(name).ReadLock() }
func newWriteLock(c *rlock.Client, name string) locker { return c.NewRWLock(name).WriteLock() }

// kinds has every kind of lock.
var kinds = map[string]kindOf{
	"lock":   {make: single((*rlock.Client).NewLock)},
	"fenced": {make: single((*rlock.Client).NewFencedLock)},
	"spin":   {make: single((*rlock.Client).NewSpinLock), skips: map[string]string{}},
	"fair":   {make: single((*rlock.Client).NewFairLock)},
	"write":  {make: newWriteLock},
	"read": {make: newReadLock, rival: newWriteLock, skips: map[string]string{
		"excludes goroutines that share a handle":               readersShare,
		"excludes clients":                                      readersShare,
		"one of a thousand TryLocks gets it":                    readersShare,
		"a hundred short leases are served in turn":             readersShare,
		"a plain context does not re-enter":                     readersShare,
		"waiters of one process are served in order of arrival": readersShare,
		"a late unlock on a shared handle is told":              readersShare,
	}},
	"multi": {make: newMultiLock, groups: true, skips: map[string]string{
		"questions without an owner are about the handle": "a group answers no questions",
	}},
	"red": {make: newRedLock, groups: true, skips: map[string]string{
		"questions without an owner are about the handle": "a group answers no questions",
		"one of a thousand TryLocks gets it":              "votes may split, and nobody gets it",
		"the holder is told of a force unlock":            "one member after the other is forced, and heals meanwhile",
	}},
}

// grouped is a group of locks, with questions that its members answer: what most of them say.
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

// agreed asks all members, and returns the greatest answer that enough of them reach.
func agreed[T cmp.Ordered](g grouped, ask func(*rlock.Lock) (T, error)) (answer T, err error) {
	var answers []T
	for _, m := range g.members {
		a, err := ask(m)
		if err != nil {
			return answer, err
		}
		answers = append(answers, a)
	}
	slices.Sort(answers)
	return answers[len(answers)-g.most], nil
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

const readersShare = "readers let each other in"

// servers has every kind of Redis that the suite runs on.
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

// onBoth runs a test on the embedded and on a real server.
func onBoth(t *testing.T, test func(*testing.T, redis.UniversalClient)) {
	t.Helper()
	for server, start := range servers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// fixture is what a conformance test gets.
type fixture struct {
	*testing.T
	rdb   redis.UniversalClient // of the locks, as a user who may do no more than they need
	admin redis.UniversalClient // the test's own
	kind  kindOf
	name  string
	opts  []rlock.Option // of every client
}

// client returns a new client, as another process would have.
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

// lock returns a handle on the test's name, of a new client.
func (f *fixture) lock(opts ...rlock.Option) locker { return f.newLock(f.client(opts...), f.name) }

// rival returns a handle that excludes it, of another new client.
func (f *fixture) rival(opts ...rlock.Option) locker { return f.newRival(f.client(opts...), f.name) }

// conform runs every claim for every kind of lock, with clients that have these options. Each kind has a redis client of its
// own, as the user of limited; the test looks on by another.
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

// TestConformance runs every claim for every kind of lock on a server, as users who have exactly the rights that SECURITY.md
// asks for, and on the embedded one, which knows no rights. TestSentinel and TestCluster do the same on theirs.
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

// noError is require.NoError for goroutines.
func noError(f *fixture, err error) bool {
	if err != nil {
		f.Errorf("unexpected error: %v", err)
	}
	return err == nil
}

// leftIn tells whether any of the keys of a lock is left that should not be. A fencing token stays for good, and a number
// that is abandoned for its time.
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

// requireFree requires that a handle gets the lock, and has it unlocked. A red lock is unlocked when a majority is: what each
// unlock left to itself, a member of its own perhaps, may keep the lock for a moment longer.
func requireFree(f *fixture, lock locker) {
	f.Helper()
	if red(lock) {
		require.NoError(f, lock.Lock(f.Context(), rlock.Wait(aLongTime)))
	} else {
		require.True(f, tryLock(f, lock, f.Context()))
	}
	require.NoError(f, lock.Unlock(f.Context()))
}

// red tells whether a lock is held by a majority.
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
