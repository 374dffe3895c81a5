package interop_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestCluster starts one cluster per version for all claims. The last claim kills a master.
func TestCluster(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		cluster := redistest.StartCluster(t)
		f := &fleet{Cluster: cluster, rdb: cluster.Client(t), java: sharedJVM(t, v), version: v}
		for _, node := range cluster.Nodes {
			// Without retries, a dead node fails at once.
			f.nodes = append(f.nodes, redistest.Open(t, &redis.Options{Addr: node.Addr, MaxRetries: -1, DialerRetries: 1}))
		}
		for _, c := range []struct {
			claim string
			test  func(*testing.T, *fleet)
		}{
			{"waiters are woken across languages", clusterWakeUps},
			{"disagreement about pub/sub costs time, not safety", clusterDisagreement},
			{"locks of all masters are served and renewed", clusterSpread},
			{"hash tags", clusterTags},
			{"names whose keys fall into several slots", clusterSplitNames},
			{"a slot that moves", clusterMove},
			{"a failover", clusterFailover},
			{"a master that dies", clusterDeath},
		} {
			t.Run(c.claim, func(t *testing.T) { c.test(t, f) })
		}
	})
}

// never is longer than any test. A waiter that wakes up earlier was woken.
const never = time.Hour

// fleet is a cluster that rlock and one version of Redisson share.
type fleet struct {
	*redistest.Cluster
	rdb     *redis.ClusterClient
	nodes   []*redis.Client
	java    *jvm
	version version
}

// mode selects how each side announces releases.
type mode struct {
	java    string // shardedSubscriptionMode; empty for versions without this setting
	classic bool   // in Go
}

func (m mode) String() string { return fmt.Sprintf("Java %s, Go classic=%v", m.java, m.classic) }

// options returns the options of a client in Go, with more.
func (m mode) options(more ...rlock.Option) []rlock.Option {
	if m.classic {
		more = append(more, rlock.WithClassicPubSub())
	}
	return more
}

// agreed returns the modes in which the sides hear each other. The last one is not sharded.
func (f *fleet) agreed() []mode {
	switch {
	case f.version.atLeast(3, 29):
		return []mode{{"AUTO", false}, {"ON", false}, {"OFF", true}}
	case f.version.atLeast(3, 22):
		return []mode{{"", false}}
	}
	return []mode{{"", true}}
}

// disagreed returns the modes in which the sides do not hear each other.
func (f *fleet) disagreed() []mode {
	switch {
	case f.version.atLeast(3, 29):
		return []mode{{"OFF", false}, {"AUTO", true}}
	case f.version.atLeast(3, 22):
		return []mode{{"", true}}
	}
	return []mode{{"", false}}
}

// side is the client of one language.
type side interface {
	// lock returns the hand of a new owner. It locks for the lease d; zero means that the watchdog renews the lock.
	lock(kind, name string, d time.Duration) hand
	sharded() bool
}

type goSide struct {
	tb     testing.TB
	client *rlock.Client
	mode   mode
}

func (f *fleet) openGo(tb testing.TB, m mode, opts ...rlock.Option) goSide {
	tb.Helper()
	return goSide{tb, newClient(tb, f.Client(tb), m.options(opts...)...), m}
}

func (s goSide) sharded() bool { return !s.mode.classic }

func (s goSide) lock(kind, name string, d time.Duration) hand {
	var opts []rlock.AcquireOption
	if d != 0 {
		opts = append(opts, rlock.Lease(d))
	}
	return goHand(s.tb.Context(), kindNamed(kind).newLock(s.client, name), opts...)
}

type javaSide struct {
	client *redissonClient
	mode   mode
	last   *int // the number of the latest thread
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

func (s javaSide) lock(kind, name string, d time.Duration) hand {
	var opts []javaOption
	if d != 0 {
		opts = append(opts, lease(d))
	}
	return javaHand(s.newThread().lock(kind, name), opts...)
}

// newThread returns a new thread at each call, so that one may wait while another unlocks.
func (s javaSide) newThread() *javaThread {
	*s.last++
	return s.client.thread(*s.last)
}

// listeners counts the clients that listen on a channel, at all nodes.
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

// channel returns the channel of the first waiter for a lock. An empty string means that nobody waits yet.
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

// waits returns once a client of the side waits for a lock and listens for its release.
func (f *fleet) waits(tb testing.TB, s side, k kindOf, name string) {
	tb.Helper()
	eventually(tb, "a client waits for the lock", func() bool {
		channel := f.channel(k, name)
		return channel != "" && f.listeners(channel, s.sharded()) > 0
	})
}

// scripts returns the number of scripts that have run at all nodes.
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
			n += calls - failed // calls of scripts that the node did not know
		}
	}
	return n
}

// handOver lets one side hold a lock while the other waits for the rival lock until it is woken. The leases outlast the
// test.
func (f *fleet) handOver(tb testing.TB, first, second side, held, wanted, name string) {
	tb.Helper()
	one, two := first.lock(held, name, never), second.lock(wanted, name, never)
	one.lock(tb)
	two.refused(tb, "the other side holds it")
	before := f.scripts(tb)
	got := two.ask()
	f.waits(tb, second, kindNamed(wanted), name)
	eventually(tb, "the waiter has tried again after it subscribed", func() bool { return f.scripts(tb) >= before+2 })
	one.release(tb)
	two.granted(tb, got)
	one.refused(tb, "the other side holds it")
	two.release(tb)
	require.Zero(tb, f.rdb.Exists(context.Background(), name).Val())
}

// handOvers lists pairs of kinds: the held one and the one that is waited for.
var handOvers = [][2]string{
	{"lock", "lock"}, {"fenced", "fenced"}, {"fair", "fair"}, {"write", "write"}, {"write", "read"}, {"read", "write"},
}

func clusterWakeUps(t *testing.T, f *fleet) {
	t.Helper()
	for _, m := range f.agreed() {
		t.Run(m.String(), func(t *testing.T) {
			inGo, inJava := f.openGo(t, m, tune.PollInterval(never)), f.openJava(t, m, settings{})
			for _, k := range handOvers {
				f.handOver(t, inGo, inJava, k[0], k[1], newName())
				f.handOver(t, inJava, inGo, k[0], k[1], newName())
			}
		})
	}
}

// clusterSpread uses the same number of locks at each master. Go holds half of them and Java waits, and the other half the
// other way round. If the locks were not renewed, the waiters would get them.
func clusterSpread(t *testing.T, f *fleet) {
	t.Helper()
	const watchdog = 5 * time.Second
	m := f.agreed()[0]
	sides := [2]side{
		f.openGo(t, m, rlock.WithWatchdogTimeout(watchdog)), f.openJava(t, m, settings{Watchdog: watchdog}),
	}
	type hold struct {
		name      string
		held      hand
		fields    map[string]string
		waits     hand
		hasWaited <-chan error
	}
	var holds []hold
	start := time.Now()
	for i, name := range f.namesOfAllMasters(t, 10) {
		h := hold{name: name, held: sides[i%2].lock("lock", name, 0), waits: sides[(i+1)%2].lock("lock", name, 0)}
		h.held.lock(t)
		h.fields, h.hasWaited = holders(t, f.rdb, name), h.waits.ask()
		holds = append(holds, h)
	}
	eventually(t, "three leases have passed", func() bool { return time.Since(start) > 3*watchdog })
	for _, h := range holds {
		require.Equal(t, h.fields, holders(t, f.rdb, h.name))
		h.held.release(t)
	}
	for _, h := range holds {
		h.waits.granted(t, h.hasWaited)
		h.waits.release(t)
	}
}

// namesOfAllMasters returns names for each of the three masters, grouped by master.
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
	inGo, inJava := f.openGo(t, m, tune.PollInterval(never)), f.openJava(t, m, settings{})
	for _, form := range []string{"{%s}:a", "x{%s}y", "a{%s}c{d}"} {
		tagged := func() string { return fmt.Sprintf(form, newName()) }
		for _, k := range handOvers {
			f.handOver(t, inGo, inJava, k[0], k[1], tagged())
			f.handOver(t, inJava, inGo, k[0], k[1], tagged())
		}
	}
}

// clusterSplitNames shows why rlock rejects such names: if the lock has one key, Redisson acquires it and then cannot
// unlock it.
func clusterSplitNames(t *testing.T, f *fleet) {
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
			_, err := inGo.lock(kind, name, never).try()
			require.ErrorIs(t, err, rlock.ErrInvalidName, kind+" "+name)
			java := inJava.lock(kind, name, never)
			err = within(t, "Java has a result", java.ask())
			if kind == "lock" || kind == "write" {
				require.NoError(t, err, kind+" "+name)
				crossSlot(java.unlock(), "unlock "+kind+" "+name)
				require.NotEmpty(t, holders(t, f.rdb, name), "the lock is still held")
			} else {
				crossSlot(err, kind+" "+name)
			}
		}
	}
}
