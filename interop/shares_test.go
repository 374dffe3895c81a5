package interop_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// company is a fleet of clients of both languages, each with its own connections, as processes have.
type company struct {
	version version
	rdb     redis.UniversalClient
	java    []*redissonClient
	inGo    []*rlock.Client
	rdbs    []redis.UniversalClient // of the clients in Go
	lease   time.Duration
}

// companyLease returns the lease of the locks of a company. Redisson before 3.28.0 may miss a release, and then sleeps for
// the lease that it was told.
func companyLease(v version) time.Duration {
	if v.atLeast(3, 28) {
		return 30 * time.Second
	}
	return 3 * time.Second
}

// newCompany opens the clients of a company. The function connect connects one client in Go.
func newCompany(
	t *testing.T, v version, java, inGo int, connect func() redis.UniversalClient, s settings, addresses []string, opts ...rlock.Option,
) *company {
	t.Helper()
	c := &company{version: v, rdb: connect(), lease: companyLease(v)}
	s.Watchdog = c.lease
	for range java {
		c.java = append(c.java, sharedJVM(t, v).open(t, s, addresses...))
	}
	for range inGo {
		rdb := connect()
		c.rdbs = append(c.rdbs, rdb)
		c.inGo = append(c.inGo, newClient(t, rdb, append(opts, rlock.WithWatchdogTimeout(c.lease))...))
	}
	return c
}

// newSingleCompany opens a company of one server.
func newSingleCompany(t *testing.T, v version, server *redistest.Server, java, inGo int) *company {
	t.Helper()
	return newCompany(t, v, java, inGo, func() redis.UniversalClient { return server.Client(t) }, settings{}, []string{server.Addr})
}

// newClusterCompany opens a company of a cluster.
func newClusterCompany(t *testing.T, v version, cluster *redistest.Cluster, m mode, java, inGo int) *company {
	t.Helper()
	return newCompany(t, v, java, inGo, func() redis.UniversalClient { return cluster.Client(t) },
		settings{Sharded: m.java}, cluster.Options().Addrs, m.options()...)
}

// taking is a loop in which the members of a company take turns with one lock.
type taking struct {
	kind       string
	java, inGo int
	readers    int // of each language, besides
	length     time.Duration
	classic    bool // a cluster with classic pub/sub: Go's waiters stand in no line, and messages are late
}

func (tk taking) String() string { return fmt.Sprintf("%s/%d Java, %d Go", tk.kind, tk.java, tk.inGo) }

// take lets the members take turns of 1 ms. It returns the lock's name and the turns.
func (c *company) take(t *testing.T, tk taking, name string) []turn {
	t.Helper()
	var inJava []<-chan result[int64]
	var inGo []<-chan error
	log := newTurnLog(c.rdb)
	start := func(kind, what string, java, goes int) {
		s := shift{kind: kind, name: name, log: log, hold: time.Millisecond, length: tk.length}
		for i := range java {
			s.me = fmt.Sprintf("java%s %d", what, i)
			inJava = append(inJava, c.java[i].Turns(s))
		}
		for i := range goes {
			own := s
			own.me, own.log.rdb = fmt.Sprintf("go%s %d", what, i), c.rdbs[i]
			lock := kindNamed(kind).newLock(c.inGo[i], name)
			inGo = append(inGo, async(func() error { return own.inGo(lock) }))
		}
	}
	start(tk.kind, "", tk.java, tk.inGo)
	if tk.readers > 0 {
		start("read", " reads", tk.readers, tk.readers)
	}
	for _, done := range inJava {
		_, err := await(done, tk.length+2*aLongTime)
		require.NoError(t, err)
	}
	for _, done := range inGo {
		require.NoError(t, within(t, "the shift ends", done))
	}
	require.Empty(t, holders(t, c.rdb, name))
	return log.turns(t)
}

// requireShares lets the members take turns, and requires that nobody was inside with another one, that nobody slept through
// the releases, and that each language got at least half of its share. A share that is too small is measured up to three times more,
// for longer: the short shift has few turns, and while something else takes the processors, the faster language gets more.
func (c *company) requireShares(t *testing.T, tk taking) {
	t.Helper()
	got := c.shares(t, tk)
	tk.length *= 5
	for more := 0; got.unfair(tk) != "" && more < 3; more++ {
		got = c.shares(t, tk)
	}
	require.Empty(t, got.unfair(tk))
}

// shares is how many turns each language had, and its member with the fewest.
type shares struct{ java, leastJava, inGo, leastGo int }

// shares lets the members take turns, and requires what one turn after the other must show.
func (c *company) shares(t *testing.T, tk taking) (got shares) {
	t.Helper()
	before := scriptsRun(t, c.rdb)
	all := c.take(t, tk, newName())
	commands := scriptsRun(t, c.rdb) - before
	sum := tallyOf(all)
	got.java, got.leastJava = sum.of("java ")
	got.inGo, got.leastGo = sum.of("go ")
	t.Logf("%d turns, %.1f scripts each; Java %.1f %% (its heads: %.1f %%), least %d; Go least %d of %.1f; longest waits: Java %v, Go %v; "+
		"longest gap %v between %s and %s", len(all), float64(commands)/float64(len(all)),
		100*float64(got.java)/float64(got.java+got.inGo), 100*float64(tk.java)/float64(tk.java+tk.inGo), got.leastJava,
		got.leastGo, float64(got.inGo)/float64(tk.inGo), sum.longest("java"), sum.longest("go"), sum.gap, sum.heirs[0], sum.heirs[1])

	// An old Redisson sleeps for the lease that it was told, if it misses a message.
	asleep := time.Duration(0)
	if !c.version.atLeast(3, 28) {
		asleep = c.lease
	}
	require.Less(t, sum.gap, asleep+handOffLimit, "the longest time in which nobody had the lock")
	require.Less(t, sum.longest("go"), waitLimit+asleep, "the longest wait in Go")
	require.Less(t, sum.longest("java"), waitLimit+asleep, "the longest wait in Java")
	return got
}

// unfair returns who had too few turns, or an empty text.
func (s shares) unfair(tk taking) string {
	share := float64(s.java+s.inGo) / float64(tk.java+tk.inGo)
	least := 0.5
	if tk.kind != "fair" && tk.java+tk.readers > 1 {
		least = 0.2 // several threads in Java together take the lock at once more often than one: see docs/interop.md
	}
	switch {
	case float64(s.java) < share*float64(tk.java)/2:
		return "Java has less than half of its share"
	case min(s.leastJava, s.leastGo) <= 0:
		return "somebody had no turn"
	case tk.classic:
	case float64(s.inGo) < least*share*float64(tk.inGo):
		return fmt.Sprintf("Go has less than %v of its share", least)
	// without a line, all waiters are woken, and the fastest one wins
	case (tk.kind != "write" || wire.Write.Line != nil) && float64(s.leastGo) < float64(s.inGo)/float64(tk.inGo)/2:
		return "a client in Go has less than half of what they have"
	}
	return ""
}

const (
	// handOffLimit is the longest time until a free lock has a new holder. It is far below the leases.
	handOffLimit = 3 * time.Second
	// waitLimit is the longest wait of a member that takes turns with others.
	waitLimit = 6 * time.Second
)

// scriptsRun returns the number of scripts that a single server has run, or zero for a cluster.
func scriptsRun(tb testing.TB, rdb redis.UniversalClient) int {
	tb.Helper()
	return commandsRun(tb, rdb, "eval", "evalsha")
}

// commandsRun returns how often a single server has run some commands, or zero for a cluster.
func commandsRun(tb testing.TB, rdb redis.UniversalClient, commands ...string) (n int) {
	tb.Helper()
	one, ok := rdb.(*redis.Client)
	if !ok {
		return 0
	}
	info, err := one.InfoMap(context.Background(), "commandstats").Result()
	assert.NoError(tb, err)
	for _, command := range commands {
		var calls int
		_, _ = fmt.Sscanf(info["Commandstats"]["cmdstat_"+command], "calls=%d,", &calls)
		n += calls
	}
	return n
}

// sharesLength returns how long the members of a company take turns: a sixtieth of RLOCK_SOAK, but long enough for a hundred
// turns. These tests run alone, because others would take their processor.
func sharesLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("RLOCK_SOAK")
	if text == "" {
		t.Skip("needs RLOCK_SOAK, see make interop")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "RLOCK_SOAK")
	return max(length/60, 400*time.Millisecond)
}

// warmUp lets the members take turns, until the JVM has compiled what they use.
func (c *company) warmUp(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		c.take(t, taking{kind: kind, java: len(c.java), inGo: 1, length: 300 * time.Millisecond}, newName())
	}
}

func TestFleetShares(t *testing.T) {
	length := sharesLength(t)
	for _, v := range versions() {
		t.Run("redisson "+string(v), func(t *testing.T) {
			c := newSingleCompany(t, v, redistest.Start(t), 4, 16)
			c.warmUp(t, "fenced", "fair", "write", "lock")
			var all []taking
			for _, kind := range []string{"lock", "fair", "write"} {
				all = append(all,
					taking{kind: kind, java: 1, inGo: 4, length: length},
					taking{kind: kind, java: 1, inGo: 16, length: 2 * length},
					taking{kind: kind, java: 4, inGo: 4, length: length})
			}
			all = append(all,
				taking{kind: "fenced", java: 1, inGo: 4, length: length},
				taking{kind: "write", java: 1, inGo: 4, readers: 1, length: length})
			for _, tk := range all {
				t.Run(tk.String(), func(t *testing.T) { c.requireShares(t, tk) })
			}
		})
	}
}

// TestFleetSharesOf256 counts what a hand-off costs in a large fleet with a thread of Java. The commands are those that clients
// send: scripts, subscriptions and keep-alives.
func TestFleetSharesOf256(t *testing.T) {
	const size, most = 256, 4.0 // commands
	for _, v := range versions() {
		t.Run("redisson "+string(v), func(t *testing.T) {
			length := max(2*sharesLength(t), 2*time.Second)
			c := newSingleCompany(t, v, redistest.Start(t), 1, size-1)
			c.warmUp(t, "lock")
			handOffs, java, cost := 0, 0, 0.0
			for range 3 { // on a busy machine, some may not have subscribed when it counts, or there are few turns
				handOffs, java, cost = c.costs(t, taking{kind: "lock", java: 1, inGo: size - 1, length: length})
				if java > 0 && cost <= most {
					break
				}
				length *= 2
			}
			require.Positive(t, handOffs)
			require.Positive(t, java)
			require.LessOrEqual(t, cost, most)
		})
	}
}

// costs lets the members take turns. It returns how many hand-offs there were while it counted and how many commands each took, and
// how many turns Java had in all.
func (c *company) costs(t *testing.T, tk taking) (handOffs, java int, cost float64) {
	t.Helper()
	type sample struct {
		at   time.Time
		sent int
	}
	samples := make(chan sample, 2)
	for _, after := range []time.Duration{tk.length / 2, tk.length * 19 / 20} { // when all have subscribed, and before the first ends
		time.AfterFunc(after, func() {
			now, _ := c.rdb.Time(context.Background()).Result()
			samples <- sample{now, commandsRun(t, c.rdb, "eval", "evalsha", "subscribe", "unsubscribe", "ping")}
		})
	}
	all := c.take(t, tk, newName())
	from, to := <-samples, <-samples
	for _, this := range all {
		if this.in.After(from.at) && !this.in.After(to.at) {
			handOffs++
		}
	}
	cost = float64(to.sent-from.sent) / float64(handOffs)
	java, _ = tallyOf(all).of("java ")
	t.Logf("%d hand-offs of %.2f commands; Java had %d of %d turns", handOffs, cost, java, len(all))
	return handOffs, java, cost
}

// TestFleetSharesAtADistance does the same where every message takes 2 ms. Redisson must not lose its turn because it is no
// faster than the network.
func TestFleetSharesAtADistance(t *testing.T) {
	length := sharesLength(t)
	for _, v := range versions() {
		t.Run("redisson "+string(v), func(t *testing.T) {
			server := redistest.Start(t)
			connect := func() redis.UniversalClient {
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.Delay(2 * time.Millisecond)
				return redistest.Open(t, &redis.Options{Addr: proxy.Addr})
			}
			proxy := redistest.NewProxy(t, server.Addr)
			proxy.Delay(2 * time.Millisecond)
			c := newCompany(t, v, 4, 4, connect, settings{}, []string{proxy.Addr})
			c.warmUp(t, "lock", "fair")
			for _, kind := range []string{"lock", "fair", "write"} {
				tk := taking{kind: kind, java: 1, inGo: 4, length: 2 * length}
				t.Run(tk.String(), func(t *testing.T) { c.requireShares(t, tk) })
			}
		})
	}
}

func TestFleetSharesOnCluster(t *testing.T) {
	length := sharesLength(t)
	for _, v := range versions() {
		t.Run("redisson "+string(v), func(t *testing.T) {
			cluster := redistest.StartCluster(t)
			for _, m := range (&fleet{version: v}).agreed() {
				t.Run(m.String(), func(t *testing.T) {
					c := newClusterCompany(t, v, cluster, m, 4, 4)
					c.warmUp(t, "lock", "fair")
					for _, kind := range []string{"lock", "fair", "write"} {
						tk := taking{kind: kind, java: 1, inGo: 4, length: length, classic: m.classic}
						t.Run(tk.String(), func(t *testing.T) { c.requireShares(t, tk) })
						if !tk.classic {
							tk.java = 4
							t.Run(tk.String(), func(t *testing.T) { c.requireShares(t, tk) })
						}
					}
				})
			}
		})
	}
}
