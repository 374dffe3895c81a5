package interop_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func clusterDisagreement(t *testing.T, f *fleet) {
	t.Helper()
	const watchdog = time.Second // Java sleeps for that long
	for _, m := range f.disagreed() {
		inGo := f.openGo(t, m, tune.PollInterval(100*time.Millisecond), rlock.WithWatchdogTimeout(watchdog))
		inJava := f.openJava(t, m, settings{Watchdog: watchdog})
		for _, sides := range [][2]side{{inGo, inJava}, {inJava, inGo}} {
			name := newName()
			one, two := sides[0].lock("lock", name, 0), sides[1].lock("lock", name, 0)
			one.lock(t)
			got := two.ask()
			f.waits(t, sides[1], kindNamed("lock"), name)
			require.Zero(t, f.listeners(lockChannel(name), sides[0].sharded()), "nobody hears the release")
			sides[1].lock("lock", name, 0).refused(t, "the other side holds it")
			one.release(t)
			two.granted(t, got) // without a message
			two.release(t)
		}
		addTogether(t, f, inGo, inJava)
	}
}

// addTogether counts in both languages under one lock. If two owners hold the lock at once, additions are lost.
func addTogether(t *testing.T, f *fleet, inGo goSide, inJava javaSide) {
	t.Helper()
	const lasting = time.Second
	name, counter := newName(), newName()
	loop := inJava.client.Count(count{Kind: "lock", Names: []string{name}, Counter: counter, Threads: 2, For: lasting})
	lock, added := inGo.lock("lock", name, 0), int64(0)
	for end := time.Now().Add(lasting); time.Now().Before(end); added++ {
		lock.lock(t)
		n, err := f.rdb.Get(t.Context(), counter).Int64()
		if !errors.Is(err, redis.Nil) {
			require.NoError(t, err)
		}
		require.NoError(t, f.rdb.Set(t.Context(), counter, n+1, 0).Err())
		lock.release(t)
	}
	counted := within(t, "the loop ends", loop)
	require.NoError(t, counted.Err)
	n, err := f.rdb.Get(t.Context(), counter).Int64()
	require.NoError(t, err)
	require.Equal(t, added+counted.Value.sum(), n)
}

func clusterMove(t *testing.T, f *fleet) {
	t.Helper()
	f.throughout(t, 6*time.Second, true, func(key string) { f.MoveSlot(t, key) })
}

func clusterFailover(t *testing.T, f *fleet) {
	t.Helper()
	f.throughout(t, 6*time.Second, true, func(key string) { f.Failover(t, key) })
}

func clusterDeath(t *testing.T, f *fleet) {
	t.Helper()
	const watchdog = 18 * time.Second     // two thirds of it must outlast the election of a new master
	javaKeeps := f.version.atLeast(3, 44) // earlier versions stop renewing after a failure
	f.throughout(t, watchdog, javaKeeps, func(key string) {
		master := f.MasterToKill(t, key)
		eventually(t, "the next renewal falls into the outage", func() bool {
			return f.rdb.PTTL(t.Context(), key).Val() < watchdog*3/4
		})
		master.Kill()
	})
}

// throughout lets each language hold locks that the other waits for, all in one slot, while an event hits the slot. The
// locks must survive, and the waiters must get them. The event receives the name of a lock that Go renews. Java renews a
// lock too if javaKeeps is set.
func (f *fleet) throughout(t *testing.T, watchdog time.Duration, javaKeeps bool, event func(key string)) {
	t.Helper()
	tag := "{" + newName() + "}"
	modes := f.agreed()
	if last := len(modes) - 1; last > 0 {
		modes = []mode{modes[0], modes[last]} // sharded and not sharded
	}
	var settle []func()
	for i, m := range modes {
		settle = append(settle, f.cross(t, m, tag+strconv.Itoa(i), watchdog, javaKeeps))
	}
	acknowledged, err := f.MasterOf(t, tag).Client(t).Wait(t.Context(), 1, aLongTime).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, acknowledged)
	event(tag + "0:go")
	for _, check := range settle {
		check()
	}
}

// cross sets up three locks. Java holds one without renewing it, so that only a message wakes the waiter in Go. Go holds
// one that Java waits for. If javaKeeps is set, Java holds and renews a third. The returned function checks the locks and
// releases them.
func (f *fleet) cross(t *testing.T, m mode, prefix string, watchdog time.Duration, javaKeeps bool) (settle func()) {
	t.Helper()
	inGo := f.openGo(t, m, tune.PollInterval(never), rlock.WithWatchdogTimeout(watchdog))
	inJava := f.openJava(t, m, settings{Watchdog: watchdog})
	byJava, byGo, kept := prefix+":java", prefix+":go", prefix+":kept"
	javaLock := inJava.newThread().lock("lock", byJava)
	javaHas, goHas := javaHand(javaLock, lease(never)), inGo.lock("lock", byGo, 0)
	javaHas.lock(t)
	goHas.lock(t)
	renewed, done := []string{byGo}, []hand{inGo.lock("lock", byJava, never), inJava.lock("lock", byGo, 0)}
	goGets, javaGets := done[0].ask(), done[1].ask()
	f.waits(t, inGo, kindNamed("lock"), byJava)
	f.waits(t, inJava, kindNamed("lock"), byGo)
	if javaKeeps {
		lock := inJava.lock("lock", kept, 0)
		lock.lock(t)
		renewed, done = append(renewed, kept), append(done, lock)
	}
	before := map[string]map[string]string{}
	for _, name := range append(renewed, byJava) {
		before[name] = holders(t, f.rdb, name)
	}

	return func() {
		t.Helper()
		for _, name := range renewed {
			f.grows(t, name)
		}
		for name, fields := range before {
			require.Equal(t, fields, holders(t, f.rdb, name), name)
		}
		f.waits(t, inGo, kindNamed("lock"), byJava)
		eventually(t, "Java finds the lock's master", func() bool { // otherwise the unlock fails
			_, err := javaLock.IsLocked()
			return err == nil
		})
		javaHas.release(t)
		done[0].granted(t, goGets)
		// With sharded pub/sub, Redisson does not follow a slot that moves: its waiter sleeps for the TTL that it was told.
		goHas.release(t)
		done[1].granted(t, javaGets)
		for _, h := range done {
			h.release(t)
		}
	}
}

// grows waits until a lock is renewed.
func (f *fleet) grows(tb testing.TB, name string) {
	tb.Helper()
	last := time.Duration(0)
	eventually(tb, name+" is renewed", func() bool {
		ttl, err := f.rdb.PTTL(tb.Context(), name).Result()
		if err != nil {
			f.rdb.ReloadState(tb.Context()) // otherwise go-redis keeps asking a dead master
			return false
		}
		grown := last > 0 && ttl > last
		last = ttl
		return grown
	})
}
