package interop_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// owner is an owner in Go or in Java, together with a lock.
type owner interface {
	Lock() error
	TryLock(wait time.Duration) (bool, error)
	Unlock() error
	ForceUnlock() (bool, error)
	IsLocked() (bool, error)
	HoldCount() (int, error)

	// notHeld and reentered classify an error of the owner's methods.
	notHeld(err error) bool
	reentered(err error) bool
	// field returns the owner's field in Redis, or an empty string if the test does not know it.
	field(tb testing.TB) string
}

type goOwner struct {
	lock *rlock.Lock
	ctx  context.Context
}

func (o goOwner) Lock() error { return o.lock.Lock(o.ctx) }

func (o goOwner) TryLock(wait time.Duration) (bool, error) {
	return o.lock.TryLock(o.ctx, rlock.Wait(wait))
}

func (o goOwner) Unlock() error              { return o.lock.Unlock(o.ctx) }
func (o goOwner) ForceUnlock() (bool, error) { return o.lock.ForceUnlock(o.ctx) }
func (o goOwner) IsLocked() (bool, error)    { return o.lock.IsLocked(o.ctx) }
func (o goOwner) HoldCount() (int, error)    { return o.lock.HoldCount(o.ctx) }
func (o goOwner) notHeld(err error) bool     { return errors.Is(err, rlock.ErrNotHeld) }
func (o goOwner) reentered(err error) bool   { return errors.Is(err, rlock.ErrReentered) }
func (o goOwner) field(testing.TB) string    { return "" }

// javaOwner has a thread of its own.
type javaOwner struct{ *javaLock }

func (o javaOwner) Lock() error { return o.javaLock.Lock() }

func (o javaOwner) TryLock(d time.Duration) (bool, error) {
	if d == 0 {
		return o.javaLock.TryLock()
	}
	return o.javaLock.TryLock(wait(d))
}

func (o javaOwner) Unlock() error          { return o.javaLock.Unlock() }
func (o javaOwner) notHeld(err error) bool { return isJava(err, "IllegalMonitorStateException") }

// reentered reports whether a re-entry was refused. Redisson has no exception of its own for that.
func (o javaOwner) reentered(err error) bool { return isJava(err, "IllegalMonitorStateException") }

func (o javaOwner) field(tb testing.TB) string {
	tb.Helper()
	if o.kind == "write" {
		return o.thread.Holder(tb) + ":write"
	}
	return o.thread.Holder(tb)
}

// party creates owners on one side. Each call returns a new owner.
type party interface {
	owner(k kindOf, name string) owner
}

type goParty struct{ *rlock.Client }

func (s goParty) owner(k kindOf, name string) owner {
	return goOwner{k.newLock(s.Client, name), rlock.WithOwner(context.Background())}
}

type javaParty struct {
	*redissonClient
	threads *atomic.Int64
}

func (s javaParty) owner(k kindOf, name string) owner {
	return javaOwner{s.thread(int(s.threads.Add(1))).lock(k.java, name)}
}

func newJavaParty(t *testing.T, j *jvm, server *redistest.Server, watchdog time.Duration) party {
	t.Helper()
	return javaParty{j.open(t, settings{Watchdog: watchdog}, server.Addr), new(atomic.Int64)}
}

// newParties opens a client on each side. In Go, only a message or the end of a lease makes a waiter try again.
func newParties(t *testing.T, v version, server *redistest.Server, watchdog time.Duration) (inGo, inJava party) {
	t.Helper()
	locks := newClient(t, server.Client(t), rlock.WithWatchdogTimeout(watchdog), tune.PollInterval(time.Hour))
	return goParty{locks}, newJavaParty(t, sharedJVM(t, v), server, watchdog)
}

// match is a lock that both sides use.
type match struct {
	version    version
	kind       kindOf
	name       string
	server     *redistest.Server
	rdb        *redis.Client
	home, away party

	holder   owner // of the home side
	stranger owner // of the away side, with a lock of the same kind
	rival    owner // of the away side, with a lock that the holder excludes
}

func newMatch(t *testing.T, v version, k kindOf, server *redistest.Server, home, away party) match {
	t.Helper()
	m := match{
		version: v, kind: k, name: newName(), server: server, rdb: server.Client(t), home: home, away: away,
	}
	m.holder, m.stranger, m.rival = home.owner(k, m.name), away.owner(k, m.name), m.rivalOf(away)
	return m
}

// rivalOf returns a new owner of a side, with a lock that the holder excludes.
func (m match) rivalOf(s party) owner { return s.owner(kindNamed(m.kind.rival), m.name) }

// isReadWrite reports whether the lock is a side of a read-write lock.
func (m match) isReadWrite() bool { return m.kind.java == "read" || m.kind.java == "write" }

// direction names the side of the holder.
func direction(home party) string {
	if _, ok := home.(goParty); ok {
		return "Go holds"
	}
	return "Java holds"
}

// onMatches runs a test for every kind and version, with the holder in Go and in Java. Both sides have the same watchdog
// timeout.
func onMatches(t *testing.T, watchdog time.Duration, test func(*testing.T, match)) {
	t.Helper()
	server := redistest.Start(t)
	onKinds(t, func(t *testing.T, v version, k kindOf) {
		t.Helper()
		inGo, inJava := newParties(t, v, server, watchdog)
		for home, away := range map[party]party{inGo: inJava, inJava: inGo} {
			t.Run(direction(home), func(t *testing.T) {
				t.Parallel()
				test(t, newMatch(t, v, k, server, home, away))
			})
		}
	})
}

// requireHeldBy requires that the owner is the only holder in Redis, with this number of entries.
func (m match) requireHeldBy(t *testing.T, o owner, entries int) {
	t.Helper()
	got := holders(t, m.rdb, m.name)
	delete(got, "mode")
	fields := slices.Collect(maps.Keys(got))
	require.Len(t, fields, 1)
	require.Equal(t, strconv.Itoa(entries), got[fields[0]])
	if field := o.field(t); field != "" {
		require.Equal(t, field, fields[0])
	}
}

// requireFree requires that both sides find the lock free.
func (m match) requireFree(t *testing.T) {
	t.Helper()
	require.Empty(t, holders(t, m.rdb, m.name))
	for _, o := range []owner{m.holder, m.rival} {
		requireTry(t, o, true)
		require.NoError(t, o.Unlock())
	}
	locked, err := m.stranger.IsLocked()
	require.NoError(t, err)
	require.False(t, locked)
}

// requireTry lets an owner try once, and requires the given result.
func requireTry(t *testing.T, o owner, want bool) {
	t.Helper()
	got, err := o.TryLock(0)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// asleep waits until an owner waits for the lock, and a little longer, so that it has tried again and sleeps. For a spin lock,
// Redis does not show that.
func (m match) asleep(t *testing.T) {
	t.Helper()
	if m.kind.fair {
		eventually(t, "the first waiter listens", func() bool {
			first, err := m.rdb.LIndex(context.Background(), derived("redisson_lock_queue", m.name), 0).Result()
			channel := lockChannel(m.name) + ":" + first
			return err == nil && m.rdb.PubSubNumSub(context.Background(), channel).Val()[channel] > 0
		})
	} else if channel := m.kind.channel(m.name); channel != "" {
		subscribed(t, m.rdb, channel, 1)
	}
	time.Sleep(50 * time.Millisecond)
}

// ttl returns the remaining lease of the lock in Redis.
func (m match) ttl(t *testing.T) time.Duration {
	t.Helper()
	left, err := m.rdb.PTTL(context.Background(), m.name).Result()
	require.NoError(t, err)
	require.Positive(t, left, "the lock is held and has a lease")
	return left
}
