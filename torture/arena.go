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

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const (
	topologySingle   = "single"
	topologySentinel = "sentinel"
	topologyCluster  = "cluster"
	topologyRed      = "red" // five independent masters
)

// Arena is where a scene is played: the servers, each behind its proxy, and the processes that use them.
type Arena struct {
	tb       testing.TB
	scene    Scene
	nodes    []*redistest.Server // with data
	admins   map[*redistest.Server]*redis.Client
	sentinel *redistest.Sentinel
	cluster  *redistest.Cluster
	clock    *redistest.Clock // of the only server, if a nemesis sets it
	place    Place
	tells    *collector
	sites    []*running
	children []*child
	born     int
}

func newArena(tb testing.TB, scene Scene) *Arena {
	tb.Helper()
	a := &Arena{tb: tb, scene: scene, tells: newCollector(), admins: make(map[*redistest.Server]*redis.Client)}
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
	a.born++
	return Site{
		Name: fmt.Sprintf("site%d", a.born), Seed: a.scene.Seed*1000 + uint64(a.born), Place: a.place, Workers: workers,
		Keepers: a.scene.Keepers, Mix: a.scene.Mix, Form: form, Acks: a.scene.Acks,
	}
}

// bear starts a child process.
func (a *Arena) bear(form string) {
	a.tb.Helper()
	c := startChild(a.tb, a.site(form, a.scene.Workers*2/3), a.tells)
	a.children = append(a.children, c)
}

// masters returns the nodes that take writes now, and can be asked.
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

// healthy waits until every node of the topology does its part again.
func (a *Arena) healthy() {
	a.tb.Helper()
	ctx := context.Background()
	a.eventually("the servers are well", func() bool {
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

// agreed tells whether all Sentinels see one and the same master with both replicas, and do nothing about it.
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

// Play plays a scene to its end and returns what happened.
func Play(tb testing.TB, scene Scene) *History {
	tb.Helper()
	a := newArena(tb, scene)
	for i, form := range []string{formPlain, formPipelined} {
		site := a.site(form, scene.Workers)
		r, err := site.start(func(t Turn) { a.tells.hear(site.Name, message{Turn: &t}) })
		require.NoError(tb, err, i)
		for _, client := range r.clients {
			a.tells.hear(site.Name, message{Client: client.ID()})
		}
		a.sites = append(a.sites, r)
	}
	a.bear(formLazy)
	a.bear(formNoPassing)
	tb.Cleanup(func() {
		for _, c := range a.children {
			c.kill()
		}
	})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx, a.sites)
	}()
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(context.Background())
	go func() {
		defer close(watched)
		a.watch(watching)
	}()
	tb.Cleanup(func() { // does nothing if the scene was played to its end
		cancel()
		unwatch()
		for _, s := range a.sites {
			_, _ = s.close()
		}
		<-done
		<-watched
	})
	start := now()
	a.strike(start.add(scene.Duration))
	stop := now()
	cancel()
	a.dismiss(done)
	a.idle()
	a.end()
	unwatch()
	<-watched
	a.probe()
	a.clean()
	return a.tells.history(scene, start, stop)
}

// dismiss waits until everybody who was told to stop has. Whoever hangs says where.
func (a *Arena) dismiss(done <-chan struct{}) {
	a.tb.Helper()
	hanging := time.NewTimer(time.Minute)
	defer hanging.Stop()
	var ends []<-chan struct{}
	for _, c := range a.children {
		_ = c.in.Close()
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
			a.tb.Fatalf("a minute after the end these were under way:\n%s", a.tells.open())
		}
	}
	for _, c := range a.children {
		c.stop()
	}
	a.children = nil
}

func run(ctx context.Context, sites []*running) {
	var wg sync.WaitGroup
	for _, s := range sites {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
}

// strike has one nemesis after the other do its worst until a moment, but each of them once.
func (a *Arena) strike(until Moment) {
	random := rand.New(rand.NewPCG(a.scene.Seed, 1<<32))
	if len(a.scene.Nemeses) == 0 {
		pause(context.Background(), until.sub(now()))
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
			a.tells.happened(e)
		}
	}
}

// idle checks that nothing is sent for locks that nobody holds any more.
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
	a.tells.foundf("clients whose locks are all unlocked go on sending scripts")
}

// end closes the clients of this process.
func (a *Arena) end() {
	for _, s := range a.sites {
		took, err := s.close()
		if err != nil {
			a.tells.foundf("close: %v", err)
		}
		a.tells.hear(s.Name, message{Closed: took})
	}
}

// probe takes every lock once more, which must be possible after a lease at most; of a fair lock, after the time of a dead
// waiter too.
func (a *Arena) probe() {
	site, err := a.site(formPlain, 0).start(func(Turn) {})
	require.NoError(a.tb, err)
	defer func() { _, _ = site.close() }()
	for _, share := range a.scene.Mix {
		for _, name := range share.Names {
			ctx, cancel := context.WithTimeout(context.Background(), fairWait+2*watchdogTimeout)
			start := now()
			hold, err := site.make(share.Kind, name).Acquire(ctx)
			cancel()
			took := now().sub(start)
			limit := watchdogTimeout + time.Second
			if share.Kind == kindFair {
				limit += fairWait + time.Second
			}
			switch {
			case err != nil:
				a.tells.foundf("when all was over, the %s lock %s could not be had: %v", share.Kind, name, err)
				continue
			case took > limit:
				a.tells.foundf("when all was over, the %s lock %s could be had after %v only", share.Kind, name, took)
			}
			if err := hold.Unlock(context.Background()); err != nil {
				a.tells.foundf("when all was over, unlock of %s: %v", name, err)
			}
		}
	}
}

// clean checks that nothing is left in Redis but what is meant to stay for a time.
func (a *Arena) clean() {
	a.tb.Helper()
	ctx := context.Background()
	deadline := now().add(2*watchdogTimeout + time.Second)
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
		if now() > deadline {
			a.tells.foundf("left in Redis: keys %q, channels %q", keys, channels)
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}
