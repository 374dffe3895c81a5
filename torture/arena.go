package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// Arena is where a scene runs: the servers, each behind its proxy, and the processes that use them.
type Arena struct {
	tb        testing.TB
	scene     Scene
	nodes     []*redistest.Server // all servers except the Sentinels
	admins    map[*redistest.Server]*redis.Client
	sentinel  *redistest.Sentinel
	cluster   *redistest.Cluster
	place     Place
	collector *collector
	own       *running // the site of this process
	children  []*child
	started   int // sites so far
}

func newArena(tb testing.TB, scene Scene) *Arena {
	tb.Helper()
	a := &Arena{tb: tb, scene: scene, collector: newCollector(scene), admins: make(map[*redistest.Server]*redis.Client)}
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
	default:
		server := redistest.StartBehindProxy(tb, nil)
		a.nodes, a.place.Addrs = []*redistest.Server{server}, []string{server.Proxy.Addr}
	}
	for _, node := range a.nodes {
		node.Proxy.Forget()
		a.admins[node] = redistest.Open(tb, &redis.Options{
			Addr: node.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 3 * time.Second, ContextTimeoutEnabled: true,
		})
	}
	return a
}

// site describes the next site.
func (a *Arena) site(form string, workers int) Site {
	a.started++
	return Site{
		Name: fmt.Sprintf("site%d", a.started), Seed: a.scene.Seed*1000 + uint64(a.started), Place: a.place, Workers: workers, Form: form,
	}
}

// spawn starts a child process.
func (a *Arena) spawn(form string, workers int) {
	a.tb.Helper()
	a.children = append(a.children, startChild(a.tb, a.site(form, workers), a.collector))
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

func (a *Arena) eventually(what string, condition func() bool) {
	a.tb.Helper()
	redistest.EventuallyWithin(a.tb, 2*time.Minute, what, condition)
}

// Run runs a scene to its end and returns its history.
func Run(tb testing.TB, scene Scene) *History {
	tb.Helper()
	a := newArena(tb, scene)
	var err error
	site := a.site(formPlain, 12)
	a.own, err = site.start(func(m message) { a.collector.hear(site.Name, m) })
	require.NoError(tb, err)
	for _, form := range []string{formPlain, formPipelined, formNoPassing} {
		a.spawn(form, 8)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.own.run(ctx)
		a.own.settle()
		if err := a.own.close(); err != nil {
			a.collector.foundf("left: close: %v", err)
		}
	}()
	tb.Cleanup(func() { // for a run that failed
		cancel()
		for _, c := range a.children {
			c.kill()
		}
	})
	a.strike(now().Add(scene.Duration))
	a.healthy()
	a.collector.calm()
	cancel()
	a.dismiss(done)
	a.probe()
	a.clean()
	return a.collector.history()
}

// strike runs one nemesis after another until the given moment. Each of them strikes at least once.
func (a *Arena) strike(until Moment) {
	random := rand.New(rand.NewPCG(a.scene.Seed, 1<<32))
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
			e.To, e.What = now(), name+" "+e.What
			a.collector.happened(e)
		}
	}
}
