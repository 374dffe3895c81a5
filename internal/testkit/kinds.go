package testkit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// Locker is the interface that the suite tests: the methods of all kinds, and queries. Groups query their members.
type Locker interface {
	rlock.Locker
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	TTL(ctx context.Context) (time.Duration, error)
}

// Kind describes a kind of lock to the suite.
type Kind struct {
	Make  func(*rlock.Client, string) Locker
	Rival func(*rlock.Client, string) Locker // makes a handle that excludes it; nil means make
	Skips map[string]string                  // the claims that do not apply, with the reason
	// groups reports whether the lock consists of several names.
	Groups bool
	// Preferring makes handles on a read-write lock whose readers prefer writers. Nil means that the kind has no readers.
	Preferring func(*rlock.Client, string) *rlock.RWLock
	Tokens     bool // whether each outermost acquisition has a fencing token
}

func single[O any](newLock func(*rlock.Client, string, ...O) *rlock.Lock) func(*rlock.Client, string) Locker {
	return func(c *rlock.Client, name string) Locker { return newLock(c, name) }
}

func newReadLock(c *rlock.Client, name string) Locker { return c.NewRWLock(name).ReadLock() }

func newPreferring(c *rlock.Client, name string) *rlock.RWLock {
	return c.NewRWLock(name, rlock.WriterPreference())
}

func newWriteLock(c *rlock.Client, name string) Locker { return c.NewRWLock(name).WriteLock() }

func newFencedFairLock(c *rlock.Client, name string) Locker {
	return c.NewFairLock(name, rlock.Fenced())
}

func newFencedWriteLock(c *rlock.Client, name string) Locker {
	return c.NewRWLock(name, rlock.Fenced()).WriteLock()
}

// Kinds contains every kind of lock.
var Kinds = map[string]Kind{
	"lock":         {Make: single((*rlock.Client).NewLock)},
	"fenced":       {Make: single((*rlock.Client).NewFencedLock), Tokens: true},
	"spin":         {Make: single((*rlock.Client).NewSpinLock), Skips: map[string]string{}},
	"fair":         {Make: single((*rlock.Client).NewFairLock)},
	"fenced fair":  {Make: newFencedFairLock, Tokens: true},
	"write":        {Make: newWriteLock},
	"fenced write": {Make: newFencedWriteLock, Tokens: true},
	"read": {Make: newReadLock, Rival: newWriteLock, Preferring: newPreferring, Skips: map[string]string{
		"excludes goroutines that share a handle":                         readersShare,
		"excludes clients":                                                readersShare,
		"exactly one of a thousand TryLocks succeeds":                     readersShare,
		"a hundred short leases are served in turn":                       readersShare,
		"goroutines with the context of an ended hold exclude each other": readersShare,
		"a plain context does not re-enter":                               readersShare,
		"waiters of one process are served in order of arrival":           readersShare,
		"a late unlock on a shared handle reports the loss":               readersShare,
		"a wait with the context of the hold is logged":                   readersShare,
	}},
	"multi": {Make: newMultiLock, Groups: true, Skips: map[string]string{
		"queries without an owner refer to the handle": "a group has no queries",
	}},
	"red": {Make: newRedLock, Groups: true, Skips: map[string]string{
		"an error states the age of this process's hold": "its errors are those of the members",
		"a wait with the context of the hold is logged":  "it does not wait for its members",
		"queries without an owner refer to the handle":   "a group has no queries",
		"exactly one of a thousand TryLocks succeeds":    "the votes may split, and then nobody gets the lock",
		"a force unlock notifies the holder":             "the members are unlocked one by one and reacquired meanwhile",
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

func newMultiLock(c *rlock.Client, name string) Locker {
	g := newGroup(c, name, 2, 2)
	g.Locker = rlock.NewMultiLock(g.lockers()...)
	return g
}

func newRedLock(c *rlock.Client, name string) Locker {
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

// IsLocked is [rlock.Lock.IsLocked], as enough members report it.
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

// ForceUnlock is [rlock.Lock.ForceUnlock] of all members.
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

// HoldCount is [rlock.Lock.HoldCount], as enough members report it.
func (g grouped) HoldCount(ctx context.Context) (int, error) {
	return agreed(g, func(l *rlock.Lock) (int, error) { return l.HoldCount(ctx) })
}

// TTL is [rlock.Lock.TTL], as enough members report it.
func (g grouped) TTL(ctx context.Context) (time.Duration, error) {
	return agreed(g, func(l *rlock.Lock) (time.Duration, error) { return l.TTL(ctx) })
}

func (g grouped) waiting() int {
	if red, ok := g.Locker.(*rlock.RedLock); ok {
		return Waiting(red)
	}
	n := 0
	for _, m := range g.members {
		n += Waiting(m)
	}
	return n
}

func (g grouped) keys() (all []string) {
	for _, m := range g.members {
		all = append(all, Keys(m)...)
	}
	return all
}

const readersShare = "readers do not exclude each other"

// Servers contains every kind of Redis that the suite runs on. Somebody watches all channels of the real one, which nothing may
// depend on.
var Servers = map[string]func(testing.TB) redis.UniversalClient{
	"embedded": func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return redistest.Embedded(tb)
	},
	"single": func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		rdb := redistest.Start(tb).Client(tb)
		WatchAll(tb, rdb)
		return rdb
	},
}

// OnBoth runs a test on the embedded server and on a real one.
func OnBoth(t *testing.T, test func(*testing.T, redis.UniversalClient)) {
	t.Helper()
	for server, start := range Servers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// Handle returns the public handle of a lock.
func Handle(lock Locker) rlock.Locker {
	if g, ok := lock.(grouped); ok {
		return g.Locker
	}
	return lock
}

// Red reports whether a lock is held by a majority of its members.
func Red(lock Locker) bool {
	g, ok := lock.(grouped)
	return ok && g.most < len(g.members)
}

// Members returns the members of a group, and none for a single lock.
func Members(lock Locker) []*rlock.Lock {
	g, _ := lock.(grouped)
	return g.members
}

// EveryKind runs a test for every kind of lock that supports hand-overs.
func EveryKind(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{"lock", "fenced", "write", "fenced write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// Lined reports whether the waiters for a kind stand in the line.
func Lined(kind string) bool { return wire.Kinds[kind].Line != nil }

// MakeLock returns a lock of a kind that is not a group.
func MakeLock(kind string, client *rlock.Client, name string) *rlock.Lock {
	return Kinds[kind].Make(client, name).(*rlock.Lock)
}
