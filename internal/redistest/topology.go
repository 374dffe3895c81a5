package redistest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of three masters with one replica each.
type Cluster struct {
	Nodes []*Server

	elected map[*Server]time.Time // when Failover had a node take over from its master
}

// nodeTimeout is how long a node may be silent before the others count it as failed.
const nodeTimeout = 2 * time.Second

// StartCluster starts a cluster of six nodes that ends with the test.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	NeedsRealServer(tb, "a cluster")
	return startCluster(tb, func(args ...string) *Server { return Start(tb, args...) })
}

// StartClusterBehindProxies starts a cluster whose clients and replicas reach each node through the node's own proxy. The
// gossip of the nodes bypasses the proxies.
func StartClusterBehindProxies(tb testing.TB) *Cluster {
	tb.Helper()
	NeedsRealServer(tb, "a cluster")
	return startCluster(tb, func(args ...string) *Server {
		return StartBehindProxy(tb, []string{"--cluster-announce-port"}, args...)
	})
}

func startCluster(tb testing.TB, start func(args ...string) *Server) *Cluster {
	tb.Helper()
	ctx := context.Background()
	c := &Cluster{elected: make(map[*Server]time.Time)}
	for range 6 {
		c.Nodes = append(c.Nodes,
			start("--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10)))
	}
	_, meet, _ := strings.Cut(cmp.Or(c.Nodes[0].TLSAddr, c.Nodes[0].Addr), ":")
	for i, node := range c.Nodes {
		rdb := node.Client(tb)
		must(tb, rdb.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		if i > 0 {
			must(tb, rdb.ClusterMeet(ctx, "127.0.0.1", meet).Err())
		}
		if i < 3 {
			must(tb, rdb.ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err())
		}
	}
	for i, node := range c.Nodes[3:] {
		id := c.Nodes[i].Client(tb).ClusterMyID(ctx).Val()
		rdb := node.Client(tb)
		EventuallyWithin(tb, 30*time.Second, "the replica knows its master", func() bool {
			return rdb.Do(ctx, "cluster", "replicate", id).Err() == nil
		})
	}
	for _, node := range c.Nodes {
		rdb := node.Client(tb)
		EventuallyWithin(tb, 30*time.Second, "every node sees the whole cluster", func() bool {
			info := rdb.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:6") &&
				strings.Count(rdb.ClusterNodes(ctx).Val(), "slave") == 3
		})
	}
	for _, node := range c.Nodes[3:] {
		inSync(tb, node)
	}
	return c
}

// Options returns the options for a client of the cluster.
func (c *Cluster) Options() *redis.ClusterOptions {
	opt := &redis.ClusterOptions{}
	for _, node := range c.Nodes {
		opt.Addrs = append(opt.Addrs, node.Public())
	}
	return opt
}

// Client returns a client of the cluster that is closed with the test.
func (c *Cluster) Client(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	rdb := redis.NewClusterClient(c.Options())
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// MasterOf returns the master that serves a key.
func (c *Cluster) MasterOf(tb testing.TB, key string) *Server {
	tb.Helper()
	master, err := c.Client(tb).MasterForKey(context.Background(), key)
	must(tb, err)
	for _, node := range c.Nodes {
		if node.Public() == master.Options().Addr {
			return node
		}
	}
	tb.Fatalf("no node at %s", master.Options().Addr)
	return nil
}

// ReplicaOf returns a replica of a master.
func (c *Cluster) ReplicaOf(tb testing.TB, master *Server) *Server {
	tb.Helper()
	ctx := context.Background()
	id := master.Client(tb).ClusterMyID(ctx).Val()
	for _, node := range c.Nodes {
		for line := range strings.Lines(node.Client(tb).ClusterNodes(ctx).Val()) {
			if strings.Contains(line, "myself,slave "+id) {
				return node
			}
		}
	}
	tb.Fatalf("%s has no replica", master.Addr)
	return nil
}

// MoveSlot moves the slot of a key, with all its keys, to another master, as a resharding does. It returns both masters.
// The new owner learns of it first. It takes a new epoch with the slot, so all nodes believe it over older gossip. The
// meanwhile functions run when the keys have moved, before any node knows the new owner.
func (c *Cluster) MoveSlot(tb testing.TB, key string, meanwhile ...func()) (from, to *Server) {
	tb.Helper()
	ctx := context.Background()
	from = c.MasterOf(tb, key)
	to = c.Nodes[slices.IndexFunc(c.Nodes, func(node *Server) bool {
		return node != from && strings.Contains(node.Client(tb).Info(ctx, "replication").Val(), "role:master")
	})]
	source, target := from.Client(tb), to.Client(tb)
	slot := source.ClusterKeySlot(ctx, key).Val()
	fromID, toID := source.ClusterMyID(ctx).Val(), target.ClusterMyID(ctx).Val()
	must(tb, target.Do(ctx, "cluster", "setslot", slot, "importing", fromID).Err())
	must(tb, source.Do(ctx, "cluster", "setslot", slot, "migrating", toID).Err())
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 1000).Result()
		must(tb, err)
		if len(keys) == 0 {
			break
		}
		args := []any{"migrate", "127.0.0.1", to.Port, "", 0, 5000, "keys"}
		for _, k := range keys {
			args = append(args, k)
		}
		must(tb, source.Do(ctx, args...).Err())
	}
	for _, do := range meanwhile {
		do()
	}
	must(tb, target.Do(ctx, "cluster", "setslot", slot, "node", toID).Err())
	must(tb, source.Do(ctx, "cluster", "setslot", slot, "node", toID).Err())
	EventuallyWithin(tb, 30*time.Second, "every node knows the slot's new owner", c.agreement(tb, key, to))
	return from, to
}

// Failover has a replica take over from the master of a key, which stays up and becomes a replica. It returns that server. It
// is not safe for concurrent use.
//
// It asks once, and waits until all nodes agree. A second request would begin the failover anew, or undo it if a node has not
// heard of it. From the request to the election the master's clients are stopped.
func (c *Cluster) Failover(tb testing.TB, key string) (demoted *Server) {
	tb.Helper()
	ctx := context.Background()
	demoted = c.MasterOf(tb, key)
	replica := c.ReplicaOf(tb, demoted)
	inSync(tb, replica)
	agreed := c.agreement(tb, key, replica)
	c.awaitElectable(replica)
	for range 3 {
		must(tb, replica.Client(tb).ClusterFailover(ctx).Err())
		for asked := time.Now(); time.Since(asked) < 6*time.Second; <-time.After(5 * time.Millisecond) {
			if agreed() {
				c.elected[replica] = time.Now()
				return demoted
			}
		}
	}
	tb.Fatalf("%s does not take over from %s", replica.Addr, demoted.Addr)
	return nil
}

// awaitElectable waits until a replica can stand for election again: four times the node timeout after it last did. Until then
// it takes the votes of that election for new ones if its master fails, and becomes a master with an old epoch. The other nodes
// ignore it, and the cluster stays down.
func (c *Cluster) awaitElectable(replica *Server) {
	<-time.After(time.Until(c.elected[replica].Add(4*nodeTimeout + 100*time.Millisecond)))
}

// MasterToKill returns the master of a key, once its replica can take over.
func (c *Cluster) MasterToKill(tb testing.TB, key string) *Server {
	tb.Helper()
	master := c.MasterOf(tb, key)
	c.awaitElectable(c.ReplicaOf(tb, master))
	return master
}

// Rejoin starts a killed master again. It becomes a replica.
func (c *Cluster) Rejoin(tb testing.TB, dead *Server) {
	tb.Helper()
	dead.Run()
	inSync(tb, dead)
	for _, node := range c.Nodes {
		rdb := node.Client(tb)
		EventuallyWithin(tb, 30*time.Second, "every node serves the cluster", func() bool {
			return strings.Contains(rdb.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
		})
	}
}

// agreement returns a function that reports whether all nodes that reply say that a key's master is this one.
func (c *Cluster) agreement(tb testing.TB, key string, master *Server) func() bool {
	tb.Helper()
	ctx := context.Background()
	rdb := master.Client(tb)
	slot, id := int(rdb.ClusterKeySlot(ctx, key).Val()), rdb.ClusterMyID(ctx).Val()
	var nodes []*redis.Client
	for _, node := range c.Nodes {
		nodes = append(nodes, node.Client(tb))
	}
	return func() bool {
		return !slices.ContainsFunc(nodes, func(node *redis.Client) bool {
			slots, err := node.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
			return err == nil && !slices.ContainsFunc(slots, func(r redis.ClusterSlot) bool {
				return r.Start <= slot && slot <= r.End && r.Nodes[0].ID == id
			})
		})
	}
}

// Sentinel is a master with two replicas and three sentinels that monitor it.
type Sentinel struct {
	Master    *Server
	Replicas  []*Server
	Sentinels []*Server
}

const masterName = "rlock"

// StartSentinel starts the six processes. They end with the test.
func StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	NeedsRealServer(tb, "Sentinel")
	return startSentinel(tb, func(args ...string) *Server { return Start(tb, args...) })
}

// StartSentinelBehindProxies is StartSentinel with a proxy in front of the master and of each replica. Clients, sentinels and
// replicas reach them through it.
func StartSentinelBehindProxies(tb testing.TB) *Sentinel {
	tb.Helper()
	NeedsRealServer(tb, "Sentinel")
	return startSentinel(tb, func(args ...string) *Server {
		return StartBehindProxy(tb, []string{"--replica-announce-port"}, append(args, "--replica-announce-ip", "127.0.0.1")...)
	})
}

func startSentinel(tb testing.TB, start func(args ...string) *Server) *Sentinel {
	tb.Helper()
	s := &Sentinel{Master: start()}
	_, port, err := net.SplitHostPort(s.Master.Public())
	must(tb, err)
	for range 2 {
		s.Replicas = append(s.Replicas, start("--replicaof", "127.0.0.1", port))
	}
	for _, replica := range s.Replicas {
		inSync(tb, replica)
	}
	for range 3 {
		sentinel := startSentinelProcess(tb, port)
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	for _, sentinel := range s.Sentinels {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
		EventuallyWithin(tb, 30*time.Second, "the sentinels know each other and the replicas", func() bool {
			ctx := context.Background()
			others, err := rdb.Sentinels(ctx, masterName).Result()
			replicas, err2 := rdb.Replicas(ctx, masterName).Result()
			return err == nil && err2 == nil && len(others) == 2 && len(replicas) == 2
		})
		must(tb, rdb.Close())
	}
	return s
}

// startSentinelProcess starts a sentinel that monitors the master on a port. An election without a winner is repeated after
// twice the failover timeout. Tests wait for longer than that.
func startSentinelProcess(tb testing.TB, master string) *Server {
	tb.Helper()
	for range 4 {
		s := newServer(tb)
		config := filepath.Join(s.dir, "sentinel.conf")
		must(tb, os.WriteFile(config, fmt.Appendf(nil, `port %d
bind 127.0.0.1
dir %s
sentinel monitor %s 127.0.0.1 %s 2
sentinel down-after-milliseconds %s 1000
sentinel failover-timeout %s 3000
`, s.Port, s.dir, masterName, master, masterName, masterName), 0o600))
		tb.Cleanup(s.Kill)
		if s.launch(config, "--sentinel") {
			return s
		}
		tb.Logf("the sentinel on port %d ended at once: %s", s.Port, s.lastWords())
	}
	tb.Fatal("no sentinel starts")
	return nil
}

// Options returns the options for a client that follows the master.
func (s *Sentinel) Options() *redis.FailoverOptions {
	opt := &redis.FailoverOptions{MasterName: masterName}
	for _, sentinel := range s.Sentinels {
		opt.SentinelAddrs = append(opt.SentinelAddrs, sentinel.Addr)
	}
	return opt
}

// Client returns a client that follows the master and is closed with the test.
func (s *Sentinel) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	rdb := NewFailover(s.Options())
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func inSync(tb testing.TB, replica *Server) {
	tb.Helper()
	rdb := replica.Client(tb)
	EventuallyWithin(tb, 30*time.Second, "the replica is in sync", func() bool {
		return strings.Contains(rdb.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
