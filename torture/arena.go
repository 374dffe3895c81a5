package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

const (
	topologySingle   = "single"
	topologySentinel = "sentinel"
	topologyCluster  = "cluster"
	topologyRed      = "red" // five independent masters
)

// Arena is where a scene runs: the servers, each behind its proxy, and the processes that use them.
type Arena struct {
	tb        testing.TB
	scene     Scene
	nodes     []*redistest.Server // all servers except the Sentinels
	admins    map[*redistest.Server]*redis.Client
	sentinel  *redistest.Sentinel
	cluster   *redistest.Cluster
	clock     *redistest.Clock // of the only server, if a nemesis sets it
	place     Place
	collector *collector
	sites     []*running
	children  []*child
	started   int            // sites so far
	alone     sync.WaitGroup // callers that want locks while Redis is silent
}

func newArena(tb testing.TB, scene Scene) *Arena {
	tb.Helper()
	a := &Arena{tb: tb, scene: scene, collector: newCollector(), admins: make(map[*redistest.Server]*redis.Client)}
	a.place = Place{Topology: scene.Topology}
	switch scene.Topology {
	case topologySentinel:
		a.sentinel = redistest.StartSentinelBehindProxies(tb)
		a.nodes = append([]*redistest.Server{a.sentinel.Master}, a.sentinel.Replicas...)
		a.place.Addrs, a.place.Master = a.sentinel.Options().SentinelAddrs, a.sentinel.Options().MasterName
	case topologyCluster:
		a.cluster = redistest.StartClusterBehindProxies(tb)
		a.nodes = a.cluster.Nodes
		a.place.Addrs = a.cluster.Options().Addrs
	case topologyRed:
		for range 5 {
			a.nodes = append(a.nodes, redistest.StartBehindProxy(tb, nil))
		}
	default:
		var server *redistest.Server
		if slices.Contains(scene.Nemeses, n18Clock) {
			server, a.clock = redistest.StartWithClock(tb)
			server.Proxy = redistest.NewProxy(tb, server.Addr)
		} else {
			server = redistest.StartBehindProxy(tb, nil)
		}
		a.nodes = []*redistest.Server{server}
	}
	for _, node := range a.nodes {
		node.Proxy.Forget()
		a.admins[node] = redistest.Open(tb, &redis.Options{
			Addr: node.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 3 * time.Second, ContextTimeoutEnabled: true,
		})
		if a.place.Addrs == nil || scene.Topology == topologyRed {
			a.place.Addrs = append(a.place.Addrs, node.Proxy.Addr)
		}
	}
	return a
}

// site describes the next process.
func (a *Arena) site(form string, workers int) Site {
	a.started++
	return Site{
		Name: fmt.Sprintf("site%d", a.started), Seed: a.scene.Seed*1000 + uint64(a.started), Place: a.place, Workers: workers,
		Keepers: a.scene.Keepers, Mix: a.scene.Mix, Form: form, Acks: a.scene.Acks, Fleet: a.scene.Fleet > 0,
	}
}

// spawn starts a child process.
func (a *Arena) spawn(form string, workers int) {
	a.tb.Helper()
	site := a.site(form, workers)
	site.Apart = true
	c := startChild(a.tb, site, a.collector)
	a.children = append(a.children, c)
}

// masters returns the reachable nodes that take writes now.
func (a *Arena) masters() []*redistest.Server {
	var masters []*redistest.Server
	for _, node := range a.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		role, err := a.admins[node].Do(ctx, "role").Slice()
		cancel()
		if err == nil && len(role) > 0 && role[0] == "master" {
			masters = append(masters, node)
		}
	}
	return masters
}

// healthy waits until every node of the topology is up and in its role.
func (a *Arena) healthy() {
	a.tb.Helper()
	ctx := context.Background()
	a.eventually("the servers are healthy", func() bool {
		masters, replicas := 0, 0
		for _, node := range a.nodes {
			info, err := a.admins[node].Info(ctx, "replication").Result()
			if err != nil || strings.Contains(info, "master_link_status:down") {
				return false
			}
			if strings.Contains(info, "role:master") {
				masters++
			} else {
				replicas++
			}
			if a.cluster != nil && !strings.Contains(a.admins[node].ClusterInfo(ctx).Val(), "cluster_state:ok") {
				return false
			}
		}
		switch a.scene.Topology {
		case topologySentinel:
			return masters == 1 && replicas == 2 && a.agreed(ctx)
		case topologyCluster:
			return masters == 3 && replicas == 3
		}
		return replicas == 0
	})
}

// agreed reports whether all Sentinels see the same master with both replicas, and no failover is in progress.
func (a *Arena) agreed(ctx context.Context) bool {
	var ports []string
	for _, addr := range a.place.Addrs {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: addr})
		master, err := rdb.Master(ctx, a.place.Master).Result()
		_ = rdb.Close()
		if err != nil || master["flags"] != "master" || master["num-slaves"] != "2" {
			return false
		}
		ports = append(ports, master["port"])
	}
	return len(slices.Compact(ports)) == 1
}

// Run runs a scene to its end and returns its history.
func Run(tb testing.TB, scene Scene) *History {
	tb.Helper()
	a := newArena(tb, scene)
	a.occupy(formPlain)
	if scene.Fleet > 0 {
		a.muster()
	} else {
		a.occupy(formPipelined)
		a.spawn(formPlain, scene.Workers*2/3)
		a.spawn(formNoPassing, scene.Workers*2/3)
	}
	tb.Cleanup(func() {
		for _, c := range a.children {
			c.kill()
		}
	})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		runSites(ctx, a.sites)
	}()
	unwatch := a.watched()
	tb.Cleanup(func() { // does nothing if the scene ran to its end
		cancel()
		for _, s := range a.sites {
			_, _ = s.close()
		}
		<-done
		unwatch()
	})
	hired := a.hire(ctx)
	start := now()
	a.strike(start.Add(scene.Duration))
	a.alone.Wait()
	stop := now()
	cancel()
	for _, done := range hired {
		<-done
	}
	a.dismiss(done)
	a.idle()
	for _, s := range a.sites {
		for _, found := range s.unsettled() {
			a.collector.foundf("%s: %s", s.Name, found)
		}
	}
	a.end()
	unwatch()
	a.probe()
	a.settle()
	a.clean()
	return a.collector.history(scene, start, stop)
}

// occupy starts a site in this process.
func (a *Arena) occupy(form string) {
	a.tb.Helper()
	site := a.site(form, a.scene.Workers)
	site.Lasting = true
	r, err := site.start(func(m message) { a.collector.hear(site.Name, m) })
	require.NoError(a.tb, err, form)
	for _, client := range r.all() {
		a.collector.hear(site.Name, message{Client: client.ID()})
	}
	a.sites = append(a.sites, r)
}

// dismiss waits until all workers have stopped. If one hangs, every process prints its goroutines and the test fails.
func (a *Arena) dismiss(done <-chan struct{}) {
	a.tb.Helper()
	hanging := time.NewTimer(time.Minute)
	defer hanging.Stop()
	var ends []<-chan struct{}
	for _, c := range a.children {
		c.dismiss()
		ends = append(ends, c.ended)
	}
	for _, ended := range append(ends, done) {
		select {
		case <-ended:
		case <-hanging.C:
			for _, c := range a.children {
				c.signal(syscall.SIGQUIT)
			}
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
			a.tb.Fatalf("turns still in progress a minute after the end:\n%s", a.collector.open())
		}
	}
	for _, c := range a.children {
		c.stop()
	}
	a.children = nil
}

// strike runs one nemesis after another until the given moment. Each of them strikes at least once.
func (a *Arena) strike(until Moment) {
	random := rand.New(rand.NewPCG(a.scene.Seed, 1<<32))
	if len(a.scene.Nemeses) == 0 {
		pause(context.Background(), until.Sub(now()))
		return
	}
	order := slices.Clone(a.scene.Nemeses)
	for round := 0; ; round++ {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, name := range order {
			rest := a.scene.Rest
			pause(context.Background(), rest/2+time.Duration(random.Int64N(int64(rest)+1)))
			if now() > until && round > 0 {
				return
			}
			e := Event{From: now()}
			nemeses[name](a, random, &e)
			if e.To == 0 {
				e.To = now()
			}
			e.What = name + " " + e.What
			a.collector.happened(e)
		}
	}
}

// idle checks that the clients send no scripts once every lock is unlocked.
func (a *Arena) idle() {
	scripts := func() int {
		n := 0
		for _, node := range a.masters() {
			info := a.admins[node].Info(context.Background(), "commandstats").Val()
			for line := range strings.Lines(info) {
				var calls int
				if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
					n += calls
				}
			}
		}
		return n
	}
	for range 8 {
		before := scripts()
		pause(context.Background(), watchdogTimeout/2)
		if scripts() == before {
			return
		}
	}
	a.collector.foundf("clients keep sending scripts after all locks are unlocked")
}

// end closes the clients of this process.
func (a *Arena) end() {
	for _, s := range a.sites {
		took, err := s.close()
		if err != nil {
			a.collector.foundf("close: %v", err)
		}
		a.collector.hear(s.Name, message{Closed: took})
	}
}

// probe takes every lock once more. That must succeed within one lease. A fair lock may also wait until a dead waiter
// times out.
func (a *Arena) probe() {
	site, err := a.site(formPlain, 0).start(func(message) {})
	require.NoError(a.tb, err)
	defer func() { _, _ = site.close() }()
	for _, share := range a.scene.Mix {
		if counting(share.Kind) {
			continue
		}
		for _, name := range share.Names {
			ctx, cancel := context.WithTimeout(context.Background(), fairWait+2*watchdogTimeout)
			start := now()
			hold, err := site.make(share.Kind, name).Acquire(ctx)
			cancel()
			took := now().Sub(start)
			limit := watchdogTimeout + time.Second
			if share.Kind == kindFair || share.Kind == kindFencedFair {
				limit += fairWait + time.Second
			}
			switch {
			case err != nil:
				a.collector.foundf("after the end, acquiring the %s lock %s failed: %v", share.Kind, name, err)
				continue
			case took > limit:
				a.collector.foundf("after the end, acquiring the %s lock %s took %v", share.Kind, name, took)
			}
			if err := hold.Unlock(context.Background()); err != nil {
				a.collector.foundf("after the end, unlocking %s failed: %v", name, err)
			}
		}
	}
}

// clean checks that Redis holds no keys and no subscriptions, except keys that rlock keeps for a time on purpose.
func (a *Arena) clean() {
	a.tb.Helper()
	ctx := context.Background()
	deadline := now().Add(2*watchdogTimeout + time.Second)
	// A waiter for a fair lock that was killed near the end stays in the queue until an attempt that comes 3 s after the first
	// one does not reach it either.
	again := now().Add(3200 * time.Millisecond)
	for {
		var keys, channels []string
		for _, node := range a.masters() {
			for _, key := range a.admins[node].Keys(ctx, "*").Val() {
				meant := strings.Contains(key, "redisson_lock_token") || strings.Contains(key, "redisson_unlock_latch")
				if !meant {
					keys = append(keys, key)
				}
			}
			for _, channel := range a.admins[node].PubSubChannels(ctx, "*").Val() {
				if !strings.Contains(channel, "__sentinel__") {
					channels = append(channels, channel)
				}
			}
		}
		if len(keys)+len(channels) == 0 {
			return
		}
		if again != 0 && now() > again {
			again = 0
			a.probe()
		}
		if now() > deadline {
			a.collector.foundf("left in Redis: keys %q, channels %q", keys, channels)
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}
