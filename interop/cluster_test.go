package interop_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestCluster starts one cluster for all claims about a version; the last of them kills a master.
func TestCluster(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		cluster := redistest.StartCluster(t)
		f := &fleet{Cluster: cluster, rdb: cluster.Client(t), java: sharedJVM(t, v), version: v}
		for _, node := range cluster.Nodes {
			// One that is dead shall say so at once.
			f.nodes = append(f.nodes, redistest.Open(t, &redis.Options{Addr: node.Addr, MaxRetries: -1, DialerRetries: 1}))
		}
		for _, c := range []struct {
			claim string
			test  func(*testing.T, *fleet)
		}{
			{"waiters are woken across languages", clusterWakeUps},
			{"who disagrees about pub/sub waits longer, and is safe", clusterDisagreement},
			{"locks of all masters are served and renewed", clusterSpread},
			{"hash tags", clusterTags},
			{"names whose keys would part", clusterPartingNames},
			{"a slot that moves", clusterMove},
			{"a failover", clusterFailover},
			{"a master that dies", clusterDeath},
		} {
			t.Run(c.claim, func(t *testing.T) { c.test(t, f) })
		}
	})
}

// never is longer than any test: who wakes up earlier was woken.
const never = time.Hour

// fleet is a cluster, and a version of Redisson that uses it beside rlock.
type fleet struct {
	*redistest.Cluster
	rdb     *redis.ClusterClient
	nodes   []*redis.Client
	java    *jvm
	version version
}

// mode is how each side announces releases.
type mode struct {
	java string // shardedSubscriptionMode; "": as a version does that has no such setting
	inGo rlock.ShardedPubSub
}

func (m mode) String() string { return fmt.Sprintf("Java %s, Go %d", m.java, m.inGo) }

// agreed returns the modes in which the sides hear each other. The last one is not sharded.
func (f *fleet) agreed() []mode {
	switch {
	case f.version.atLeast(3, 29):
		return []mode{{"AUTO", rlock.Auto}, {"AUTO", rlock.On}, {"ON", rlock.Auto}, {"OFF", rlock.Off}}
	case f.version.atLeast(3, 22):
		return []mode{{"", rlock.Auto}}
	}
	return []mode{{"", rlock.Off}}
}

// disagreed returns the modes in which they do not.
func (f *fleet) disagreed() []mode {
	switch {
	case f.version.atLeast(3, 29):
		return []mode{{"OFF", rlock.Auto}, {"AUTO", rlock.Off}}
	case f.version.atLeast(3, 22):
		return []mode{{"", rlock.Off}}
	}
	return []mode{{"", rlock.Auto}}
}

// side is one language's client of the fleet.
type side interface {
	lock(kind, name string) holder
	sharded() bool
}

// holder is a lock in its hands.
type holder interface {
	// take locks for a lease, or renewed if that is 0, and returns where the outcome comes.
	take(lease time.Duration) <-chan error
	try() (bool, error)
	give() error
}

type goSide struct {
	tb     testing.TB
	client *rlock.Client
	mode   mode
}

func (f *fleet) openGo(tb testing.TB, m mode, opts ...rlock.Option) goSide {
	tb.Helper()
	return goSide{tb, newClient(tb, f.Client(tb), append(opts, rlock.WithShardedPubSub(m.inGo))...), m}
}

func (s goSide) sharded() bool { return s.mode.inGo != rlock.Off }

func (s goSide) lock(kind, name string) holder {
	return goHolder{s.tb.Context(), kindNamed(kind).newLock(s.client, name)}
}

type goHolder struct {
	ctx  context.Context
	lock *rlock.Lock
}

func (h goHolder) take(lease time.Duration) <-chan error {
	var opts []rlock.AcquireOption
	if lease != 0 {
		opts = append(opts, rlock.Lease(lease))
	}
	return async(func() error { return h.lock.Lock(h.ctx, opts...) })
}

func (h goHolder) try() (bool, error) { return h.lock.TryLock(h.ctx) }
func (h goHolder) give() error        { return h.lock.Unlock(h.ctx) }

type javaSide struct {
	client *redissonClient
	mode   mode
	last   *int // the number of the last thread
}

func (f *fleet) openJava(tb testing.TB, m mode, s settings) javaSide {
	tb.Helper()
	s.Sharded = m.java
	return javaSide{f.java.open(tb, s, f.Options().Addrs...), m, new(int)}
}

func (s javaSide) sharded() bool {
	v := s.client.jvm.version
	return v.atLeast(3, 22) && s.mode.java != "OFF"
}

// lock uses a thread of its own for each lock, so that one may wait while another unlocks.
func (s javaSide) lock(kind, name string) holder {
	*s.last++
	return javaHolder{s.client.thread(*s.last).lock(kind, name)}
}

type javaHolder struct{ lock *javaLock }

func (h javaHolder) take(d time.Duration) <-chan error {
	var opts []javaOption
	if d != 0 {
		opts = append(opts, lease(d))
	}
	sent := h.lock.LockAsync(opts...)
	return async(func() error { return (<-sent).Err })
}

func (h javaHolder) try() (bool, error) { return h.lock.TryLock() }
func (h javaHolder) give() error        { return h.lock.Unlock() }

// listeners counts the clients that listen on a channel, at whichever node.
func (f *fleet) listeners(channel string, sharded bool) (n int64) {
	for _, node := range f.nodes {
		count := node.PubSubNumSub
		if sharded {
			count = node.PubSubShardNumSub
		}
		n += count(context.Background(), channel).Val()[channel]
	}
	return n
}

// channel returns where the first waiter for a lock listens; "": nobody waits yet.
func (f *fleet) channel(k kindOf, name string) string {
	if !k.fair {
		return k.channel(name)
	}
	first := f.rdb.LIndex(context.Background(), derived("redisson_lock_queue", name), 0).Val()
	if first == "" {
		return ""
	}
	return lockChannel(name) + ":" + first
}

// waits waits until a client does wait for a lock, and will hear what is published.
func (f *fleet) waits(tb testing.TB, s side, k kindOf, name string) {
	tb.Helper()
	eventually(tb, "one waits for the lock", func() bool {
		channel := f.channel(k, name)
		return channel != "" && f.listeners(channel, s.sharded()) > 0
	})
}

// scripts counts the scripts that have run, at all nodes.
func (f *fleet) scripts(tb testing.TB) (n int) {
	tb.Helper()
	for _, node := range f.nodes {
		info, err := node.InfoMap(context.Background(), "commandstats").Result()
		require.NoError(tb, err)
		for _, command := range []string{"cmdstat_eval", "cmdstat_evalsha"} {
			var calls, usec, rejected, failed int
			var each float64
			_, _ = fmt.Sscanf(info["Commandstats"][command], "calls=%d,usec=%d,usec_per_call=%g,rejected_calls=%d,failed_calls=%d",
				&calls, &usec, &each, &rejected, &failed)
			n += calls - failed // those that the node did not know are not scripts that ran
		}
	}
	return n
}

// handOver has one side hold a lock, and the other wait for its rival until it is woken: their leases outlast the test.
func (f *fleet) handOver(tb testing.TB, first, second side, held, wanted string, newName func() string) {
	tb.Helper()
	for misses := 0; !f.handedOver(tb, first, second, held, wanted, newName()); misses++ {
		require.Less(tb, misses, 10, "%s released, and %s is not woken", held, wanted)
	}
}

// handedOver is one attempt, which fails if Redisson loses the message. The release of a write lock wakes all of a JVM's
// waiters that sleep just then, but not one that has subscribed and is about to: it sleeps until its hint is over. Two of
// a hundred get lost so on their way here, whichever language publishes. A 0 is never lost.
func (f *fleet) handedOver(tb testing.TB, first, second side, held, wanted, name string) bool {
	tb.Helper()
	one, two := first.lock(held, name), second.lock(wanted, name)
	require.NoError(tb, within(tb, "it is free", one.take(never)))
	refuses(tb, two)
	before := f.scripts(tb)
	got := two.take(never)
	f.waits(tb, second, kindNamed(wanted), name)
	eventually(tb, "it has tried once more when it was subscribed", func() bool { return f.scripts(tb) >= before+2 })
	require.NoError(tb, one.give())
	_, inJava := second.(javaSide)
	mayMiss, patience := inJava && held == "write", aLongTime
	if mayMiss {
		patience = time.Second
	}
	var err error
	woken := true
	select {
	case err = <-got:
	case <-time.After(patience):
		require.True(tb, mayMiss, "%s released, and the waiter for %s is not woken", held, wanted)
		woken = false
		f.publish(tb, second, kindNamed(wanted).channel(name))
		err = within(tb, "it is woken at last", got)
	}
	require.NoError(tb, err)
	refuses(tb, one)
	require.NoError(tb, two.give())
	require.Zero(tb, f.rdb.Exists(context.Background(), name).Val())
	return woken
}

// publish wakes whoever waits on a channel, as no release does.
func (f *fleet) publish(tb testing.TB, s side, channel string) {
	tb.Helper()
	send := f.rdb.Publish
	if s.sharded() {
		send = f.rdb.SPublish
	}
	require.NoError(tb, send(context.Background(), channel, "0").Err())
}

func refuses(tb testing.TB, h holder) {
	tb.Helper()
	ok, err := h.try()
	require.NoError(tb, err)
	require.False(tb, ok)
}

// handOvers has which kind of lock is held, and which waited for.
var handOvers = [][2]string{
	{"lock", "lock"}, {"fenced", "fenced"}, {"fair", "fair"}, {"write", "write"}, {"write", "read"}, {"read", "write"},
}

func clusterWakeUps(t *testing.T, f *fleet) {
	t.Helper()
	for _, m := range f.agreed() {
		t.Run(m.String(), func(t *testing.T) {
			inGo, inJava := f.openGo(t, m, rlock.WithPollInterval(never)), f.openJava(t, m, settings{})
			for _, k := range handOvers {
				f.handOver(t, inGo, inJava, k[0], k[1], newName)
				f.handOver(t, inJava, inGo, k[0], k[1], newName)
			}
		})
	}
}

// clusterSpread has as many locks at each master, half of them held in Go and waited for in Java, half the other way
// round. If they were not renewed, those who wait would have them.
func clusterSpread(t *testing.T, f *fleet) {
	t.Helper()
	const watchdog = 5 * time.Second
	m := f.agreed()[0]
	sides := [2]side{
		f.openGo(t, m, rlock.WithWatchdogTimeout(watchdog)), f.openJava(t, m, settings{Watchdog: watchdog}),
	}
	type hold struct {
		name      string
		held      holder
		fields    map[string]string
		waits     holder
		hasWaited <-chan error
	}
	var holds []hold
	start := time.Now()
	for i, name := range f.namesOfAllMasters(t, 10) {
		h := hold{name: name, held: sides[i%2].lock("lock", name), waits: sides[(i+1)%2].lock("lock", name)}
		require.NoError(t, within(t, "it is free", h.held.take(0)))
		h.fields, h.hasWaited = holders(t, f.rdb, name), h.waits.take(0)
		holds = append(holds, h)
	}
	eventually(t, "three leases have passed", func() bool { return time.Since(start) > 3*watchdog })
	for _, h := range holds {
		require.Equal(t, h.fields, holders(t, f.rdb, h.name))
		require.NoError(t, h.held.give())
	}
	for _, h := range holds {
		require.NoError(t, within(t, "the other side has its turn", h.hasWaited))
		require.NoError(t, h.waits.give())
	}
}

// namesOfAllMasters returns so many names for each of three masters, those of one in a row.
func (f *fleet) namesOfAllMasters(tb testing.TB, each int) (names []string) {
	tb.Helper()
	byMaster := map[string][]string{}
	for full := 0; full < 3; {
		name := newName()
		master, err := f.rdb.MasterForKey(context.Background(), name)
		require.NoError(tb, err)
		address := master.Options().Addr
		if len(byMaster[address]) == each {
			continue
		}
		if byMaster[address] = append(byMaster[address], name); len(byMaster[address]) == each {
			full++
		}
	}
	return slices.Concat(slices.Collect(maps.Values(byMaster))...)
}

func clusterTags(t *testing.T, f *fleet) {
	t.Helper()
	m := f.agreed()[0]
	inGo, inJava := f.openGo(t, m, rlock.WithPollInterval(never)), f.openJava(t, m, settings{})
	for _, form := range []string{"{%s}:a", "x{%s}y", "a{%s}c{d}"} {
		tagged := func() string { return fmt.Sprintf(form, newName()) }
		for _, k := range handOvers {
			f.handOver(t, inGo, inJava, k[0], k[1], tagged)
			f.handOver(t, inJava, inGo, k[0], k[1], tagged)
		}
	}
}

// clusterPartingNames shows what rlock spares its users: Redisson takes a lock of such a name, if it has one key, and
// cannot unlock it.
func clusterPartingNames(t *testing.T, f *fleet) {
	t.Helper()
	m := f.agreed()[0]
	inGo, inJava := f.openGo(t, m), f.openJava(t, m, settings{})
	crossSlot := func(err error, what string) {
		require.True(t, isJava(err, "RedisException"), "%s: %v", what, err)
		require.ErrorContains(t, err, "CROSSSLOT", what)
	}
	for _, form := range []string{"%s}b", "%s{}b", "%s{b", "{}%s", "}{%s"} {
		for _, kind := range []string{"lock", "fenced", "fair", "write", "read"} {
			name := fmt.Sprintf(form, newName())
			_, err := inGo.lock(kind, name).try()
			require.ErrorIs(t, err, rlock.ErrInvalidName, kind+" "+name)
			java := inJava.lock(kind, name)
			err = within(t, "Java has an answer", java.take(never))
			if kind == "lock" || kind == "write" {
				require.NoError(t, err, kind+" "+name)
				crossSlot(java.give(), "unlock "+kind+" "+name)
				require.NotEmpty(t, holders(t, f.rdb, name), "it is locked for good")
			} else {
				crossSlot(err, kind+" "+name)
			}
		}
	}
}
