package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/wire"
)

// Locker is the interface that the suite tests: the methods of all kinds, and queries. Groups query their members.
type Locker interface {
	handles.Any
	Lock(ctx context.Context, opts ...rlock.AcquireOption) error
	TryLock(ctx context.Context, opts ...rlock.AcquireOption) (bool, error)
	Unlock(ctx context.Context) error
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

func newReadLock(c *rlock.Client, name string) Locker { return c.NewRWLock(name).Reader() }

func newPreferring(c *rlock.Client, name string) *rlock.RWLock {
	return c.NewRWLock(name, rlock.WriterPreference())
}

func newWriteLock(c *rlock.Client, name string) Locker { return c.NewRWLock(name).Writer() }

func newFencedLock(c *rlock.Client, name string) Locker { return c.NewLock(name, rlock.Fenced()) }

func newFencedFairLock(c *rlock.Client, name string) Locker {
	return c.NewFairLock(name, rlock.Fenced())
}

func newFencedWriteLock(c *rlock.Client, name string) Locker {
	return c.NewRWLock(name, rlock.Fenced()).Writer()
}

// Kinds contains every kind of lock.
var Kinds = map[string]Kind{
	"lock":         {Make: single((*rlock.Client).NewLock)},
	"fenced":       {Make: newFencedLock, Tokens: true},
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
	}},
	"multi": {Make: newMultiLock, Groups: true, Skips: map[string]string{
		"a stranger cannot unlock":                               holdsOnly,
		"unlock ends its owner's latest acquisition":             holdsOnly,
		"unlock without an owner ends this handle's acquisition": holdsOnly,
		"a late unlock on a shared handle reports the loss":      holdsOnly,
		"queries without an owner refer to the handle":           "a group has no queries",
		"a loss is logged once":                                  membersLog,
		"exactly one of a thousand TryLocks succeeds":            "two may each take a member, and then nobody gets the lock",
	}},
	"red": {Make: newRedLock, Groups: true, Skips: map[string]string{
		"a stranger cannot unlock":                               holdsOnly,
		"unlock ends its owner's latest acquisition":             holdsOnly,
		"unlock without an owner ends this handle's acquisition": holdsOnly,
		"a late unlock on a shared handle reports the loss":      holdsOnly,
		"an error states the age of this process's hold":         "its errors are those of the members",
		"queries without an owner refer to the handle":           "a group has no queries",
		"exactly one of a thousand TryLocks succeeds":            "the votes may split, and then nobody gets the lock",
		"a loss is logged once":                                  membersLog,
		"waiters of one process are served in order of arrival":  "they try again by chance",
	}},
}

// grouped is a group of locks. Its queries ask the members and return the result that enough of them reach.
type grouped struct {
	handles.Any
	members []*rlock.Lock
	most    int
	loose   *loose
}

// loose has what Lock and TryLock of a group have acquired. A group has no such verbs: here they are those of holds, so that the suite asks
// the same of all kinds.
type loose struct {
	mu    sync.Mutex
	holds []*rlock.Hold
	by    []owner.Who // for whom each was acquired
}

func (l *loose) put(by owner.Who, hold *rlock.Hold, err error) error {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holds, l.by = append(l.holds, hold), append(l.by, by)
	}
	return err
}

// take takes out the latest hold of an owner, or returns nil.
func (l *loose) take(by owner.Who) (hold *rlock.Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, who := range slices.Backward(l.by) {
		if who.Now() == by.Now() {
			hold = l.holds[i]
			l.holds, l.by = slices.Delete(l.holds, i, i+1), slices.Delete(l.by, i, i+1)
			break
		}
	}
	return hold
}

// Lock is Acquire, for [grouped.Unlock].
func (g grouped) Lock(ctx context.Context, opts ...rlock.AcquireOption) error {
	hold, err := g.Acquire(ctx, opts...)
	return g.loose.put(g.who(ctx), hold, err)
}

// TryLock is TryAcquire, for [grouped.Unlock].
func (g grouped) TryLock(ctx context.Context, opts ...rlock.AcquireOption) (bool, error) {
	hold, err := g.TryAcquire(ctx, opts...)
	if errors.Is(err, fault.ErrRefused) {
		return false, nil
	}
	return err == nil, g.loose.put(g.who(ctx), hold, err)
}

// Unlock unlocks the latest hold that Lock or TryLock has acquired for the owner of ctx.
func (g grouped) Unlock(ctx context.Context) error { return g.loose.take(g.who(ctx)).Unlock(ctx) }

func (g grouped) who(ctx context.Context) owner.Who { return base(g.members[0]).Who(ctx) }

func newGroup(c *rlock.Client, name string, n, most int) grouped {
	g := grouped{most: most, loose: new(loose)}
	for i := range n {
		g.members = append(g.members, c.NewLock(fmt.Sprintf("%s:%d", name, i+1)))
	}
	return g
}

func newMultiLock(c *rlock.Client, name string) Locker {
	g := newGroup(c, name, 2, 2)
	g.Any = rlock.NewMultiLock(g.members...)
	return g
}

func newRedLock(c *rlock.Client, name string) Locker {
	g := newGroup(c, name, 3, 2)
	g.Any = rlock.NewRedLock(g.members...)
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
	if red, ok := g.Any.(*rlock.RedLock); ok {
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

const holdsOnly = "a group has no Unlock"

const membersLog = "each member logs its own loss"

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
func Handle(lock handles.Any) handles.Any {
	if g, ok := lock.(grouped); ok {
		return g.Any
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

// EveryKind runs a test for every kind of lock that is handed over within a process by a script of its own.
func EveryKind(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{"write", "fenced write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// ByTurns reports whether internal/core has the locks of a kind.
func ByTurns(kind string) bool { return kind == "lock" || kind == "fenced" || kind == "spin" }

// Lined reports whether the waiters for a kind stand in the line.
func Lined(kind string) bool { return wire.Kinds[kind].Line != nil }

// MakeLock returns a lock of a kind that is not a group.
func MakeLock(kind string, client *rlock.Client, name string) *rlock.Lock {
	return Kinds[kind].Make(client, name).(*rlock.Lock)
}
