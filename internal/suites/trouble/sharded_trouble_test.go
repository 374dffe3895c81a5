package trouble

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestShardedPubSubInTrouble uses one cluster for all its subtests. The last one suspends a node.
func TestShardedPubSubInTrouble(t *testing.T) { // the subtests share the cluster
	t.Parallel()
	cluster := startSharded(t)
	for _, c := range []struct {
		claim string
		test  func(*testing.T, *redistest.Cluster)
	}{
		{"a server that drops subscribers is not flooded", shardedDropped},
		{"a server that refuses the password is not flooded", shardedPassword},
		{"a hung node affects no other", shardedHangingNode},
	} {
		t.Run(c.claim, func(t *testing.T) { c.test(t, cluster) })
	}
}

// heldOn returns n locks of a client whose keys are on one node. Another client holds them.
func heldOn(t *testing.T, cluster *redistest.Cluster, client *rlock.Client, node *redistest.Server, n int) (locks []*rlock.Lock) {
	t.Helper()
	rdb := cluster.Client(t)
	holder := testkit.NewClient(t, rdb)
	for range n {
		lock := client.NewLock(nameOn(t, rdb, node))
		locks = append(locks, lock)
		require.NoError(t, holder.NewLock(lock.Name()).Lock(t.Context(), rlock.Lease(testkit.Never)))
	}
	return locks
}

// waitFor starts a waiter for each lock. The waiters end with the context.
func waitFor(ctx context.Context, locks []*rlock.Lock) (done *sync.WaitGroup) {
	done = &sync.WaitGroup{}
	for _, lock := range locks {
		done.Go(func() { _ = lock.Lock(ctx) })
	}
	return done
}

// subscribedOn counts the sharded subscriptions of the locks' channels on a node.
func subscribedOn(t *testing.T, node *redistest.Server, locks ...*rlock.Lock) (n int64) {
	t.Helper()
	rdb := node.Client(t)
	for _, lock := range locks {
		n += rdb.PubSubShardNumSub(t.Context(), testkit.Channel(lock)).Val()[testkit.Channel(lock)]
	}
	return n
}

func shardedDropped(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	node := cluster.Nodes[0]
	proxy := redistest.NewProxy(t, node.Addr)
	opt := cluster.Options()
	opt.Dialer = dialThrough(proxy, node.Addr)
	rdb := closed(t, redis.NewClusterClient(opt))
	logger, _ := testkit.Recording()
	proxy.DropReply(-1, redistest.Named("ssubscribe"))
	ctx, cancel := context.WithCancel(t.Context())
	done := waitFor(ctx, heldOn(t, cluster, testkit.NewClient(t, rdb, logger), node, 2))
	testkit.Eventually(t, "the client tries to subscribe", func() bool { return proxy.Count(redistest.Named("ssubscribe")) > 0 })
	opened := proxy.Opened()
	<-time.After(2 * time.Second)
	require.Less(t, proxy.Opened()-opened, 100)
	cancel()
	done.Wait()
}

func shardedPassword(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	everywhere := func(args ...any) {
		for _, node := range cluster.Nodes {
			require.NoError(t, node.Client(t).Do(t.Context(), args...).Err())
		}
	}
	everywhere("acl", "setuser", "rotated", "on", ">old", "~*", "&*", "+@all")
	opt := cluster.Options()
	opt.Username, opt.Password = "rotated", "old"
	rdb := closed(t, redis.NewClusterClient(opt))
	logger, _ := testkit.Recording()
	node := cluster.Nodes[0]
	ctx, cancel := context.WithCancel(t.Context())
	var locks []*rlock.Lock
	for range 2 {
		locks = append(locks, heldOn(t, cluster, testkit.NewClient(t, rdb, logger), node, 1)...)
	}
	done := waitFor(ctx, locks)
	defer done.Wait()
	defer cancel()
	testkit.Eventually(t, "both waiters are subscribed", func() bool { return subscribedOn(t, node, locks...) == 2 })
	everywhere("acl", "setuser", "rotated", "resetpass", ">new")
	everywhere("client", "kill", "user", "rotated")
	before := testkit.Connections(t, node.Client(t))
	<-time.After(2 * time.Second)
	require.Less(t, testkit.Connections(t, node.Client(t))-before, 100)
	everywhere("acl", "setuser", "rotated", "resetpass", ">old")
	again := waitFor(ctx, locks) // a waiter that has asked meanwhile, as the first one of a line does every 3 s, is gone
	testkit.Eventually(t, "both waiters are subscribed again", func() bool { return subscribedOn(t, node, locks...) == 2 })
	cancel()
	again.Wait()
}

func shardedHangingNode(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	for _, node := range cluster.Nodes {
		require.NoError(t, node.Client(t).ConfigSet(t.Context(), "cluster-node-timeout", strconv.Itoa(60_000)).Err())
	}
	hung, healthy := cluster.Nodes[0], cluster.Nodes[1]
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, cluster.Client(t), logger)
	ctx, cancel := context.WithCancel(t.Context())
	stuck, locks := heldOn(t, cluster, client, hung, 20), heldOn(t, cluster, client, healthy, 4)
	done := waitFor(ctx, stuck)
	testkit.Eventually(t, "the waiters are subscribed on the node that will hang", func() bool { return subscribedOn(t, hung, stuck...) == 20 })
	hung.Pause()
	<-time.After(4 * time.Second) // until the client notices and looks for the new nodes of the channels
	passed := redistest.Stopwatch(t)
	done2 := waitFor(ctx, locks)
	testkit.Eventually(t, "waiters on a healthy node are subscribed", func() bool { return subscribedOn(t, healthy, locks...) == 4 })
	require.Less(t, passed(), 4*time.Second, "the subscriptions do not wait for the hung node")
	hung.Resume()
	cancel()
	done.Wait()
	done2.Wait()
}
