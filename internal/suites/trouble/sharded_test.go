package trouble

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestShardedPubSub uses one cluster for all its subtests. Its waiters wait for locks, latches and permits.
func TestShardedPubSub(t *testing.T) { // the subtests share the cluster; the last one kills a master
	t.Parallel()
	cluster := startSharded(t)
	for _, c := range []struct {
		claim string
		test  func(*testing.T, *redistest.Cluster)
	}{
		{"waiters are woken, also on classic channels", shardedOrNot},
		{"the rights in SECURITY.md are necessary and sufficient", shardedRights},
		{"all channels of a node share one connection", shardedConnections},
		{"a refused channel affects no other", shardedRefused},
		{"waiters follow a slot that moves", shardedMove},
		{"a lost connection is replaced", shardedKilled},
		{"waiters follow a failover", shardedFailover},
		{"waiters survive the death of a master", shardedDeath},
	} {
		t.Run(c.claim, func(t *testing.T) { c.test(t, cluster) })
	}
}

// startSharded starts a cluster. It skips the test before Redis 7, which introduced sharded pub/sub.
func startSharded(t *testing.T) *redistest.Cluster {
	t.Helper()
	cluster := redistest.StartCluster(t)
	if err := cluster.Nodes[0].Client(t).PubSubShardNumSub(t.Context()).Err(); err != nil {
		require.ErrorContains(t, err, "Unknown subcommand")
		t.Skip(err)
	}
	return cluster
}

// subscribers counts the subscribers of a lock's channel on nodes, either sharded ones or ordinary ones.
func subscribers(t *testing.T, nodes []*redis.Client, lock *rlock.Lock, sharded bool) int64 {
	t.Helper()
	var n int64
	channel := testkit.Channel(lock)
	for _, rdb := range nodes {
		if sharded {
			n += rdb.PubSubShardNumSub(t.Context(), channel).Val()[channel]
		} else {
			n += rdb.PubSubNumSub(t.Context(), channel).Val()[channel]
		}
	}
	return n
}

func shardedOrNot(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	for _, classic := range []bool{false, true} {
		wokenAfter(t, cluster, classic, func([]*wait) {})
	}
	// Only the scripts of a fair lock know the channels of its waiters.
	for _, classic := range []bool{false, true} {
		client := testkit.NewClient(t, cluster.Client(t), append(pubSub(classic), tune.PollInterval(testkit.Never))...)
		lock := client.NewFairLock(testkit.NewName())
		require.NoError(t, lock.Lock(t.Context(), rlock.Lease(testkit.Never)))
		var turns []<-chan error
		for i := range 3 {
			turns = append(turns, testkit.Async(func() error { return lock.Lock(t.Context(), rlock.Lease(testkit.Never)) }))
			testkit.Eventually(t, "the waiter is in the queue", func() bool { return testkit.Waiting(lock) == i+1 })
		}
		for _, turn := range turns {
			require.NoError(t, lock.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the next waiter is woken", turn))
		}
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

// shardedRights checks that the rights in SECURITY.md suffice on a cluster, and that each of them is needed.
func shardedRights(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	tested := slices.DeleteFunc(testkit.Rights(t, testkit.ClusterRows...), func(rule string) bool { return rule[0] == '-' })
	all := testkit.Rights(t, slices.Concat(testkit.RowsOf["lock"], testkit.ClusterRows)...)
	eachIsNeeded(t, testkit.Admins(t, cluster.Nodes...), testkit.OpenClusterAs(t, cluster), all, tested,
		func(u *trial) error { return u.moves(cluster) })
}

// moves moves the slot of a lock with a holder and a subscribed waiter, and releases the lock after that.
func (u *trial) moves(cluster *redistest.Cluster) error {
	ctx, cancel := context.WithTimeout(u.Context(), testkit.ALongTime)
	defer cancel()
	held := u.newClient().NewLock(testkit.NewName())
	lock := u.newClient().NewLock(held.Name())
	asked := u.calls("role")
	var hold *rlock.Hold
	var waiting <-chan error
	subscribed := func() error {
		return u.until("the waiter is subscribed", func() bool { return subscribers(u.T, u.nodes, lock, true) == 1 })
	}
	return u.all(
		func() (err error) { hold, err = held.Acquire(ctx); return err },
		func() error {
			waiting = testkit.Async(func() error { return lock.Lock(ctx) })
			return subscribed()
		},
		func() (err error) {
			cluster.MoveSlot(u, testkit.AppPrefix+lock.Name(), func() {
				before := hold.Deadline()
				err = u.until("the hold is renewed on the node that has its key", func() bool { return hold.Deadline().After(before) })
			})
			return err
		},
		subscribed,
		func() error {
			return u.until("the client asks the node for its role", func() bool { return u.calls("role") > asked })
		},
		func() error { return hold.Unlock(ctx) },
		func() error { return u.result("the waiter gets the lock", waiting) },
		func() error { return lock.Unlock(ctx) },
		func() error {
			return u.until("the channel is unsubscribed", func() bool { return subscribers(u.T, u.nodes, lock, true) == 0 })
		},
	)
}

func shardedConnections(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	client := testkit.NewClient(t, cluster.Client(t), tune.PollInterval(testkit.Never))
	holder := testkit.NewClient(t, cluster.Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	const n = 120 // each of which listens on the channel of this client's waiters, and on Redisson's channel and its twin
	for range n {
		lock := client.NewLock(testkit.NewName())
		require.NoError(t, holder.NewLock(lock.Name()).Lock(t.Context()))
		wg.Go(func() { _ = lock.Lock(ctx) })
	}
	nodes := testkit.Admins(t, cluster.Nodes...)
	channels := func() (all int) {
		for _, node := range nodes {
			all += len(node.PubSubShardChannels(t.Context(), "*").Val())
		}
		return all
	}
	testkit.Eventually(t, "all channels are subscribed", func() bool { return channels() == 3*n })
	require.LessOrEqual(t, testkit.Shards(client), 3)
	cancel()
	wg.Wait()
	testkit.Eventually(t, "no channel is left", func() bool { return channels() == 0 && testkit.Remains(client) == 0 })
}

func shardedRefused(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	for _, node := range cluster.Nodes {
		require.NoError(t, node.Client(t).Do(t.Context(), "acl", "setuser", "few", "on", ">pw", "~*",
			"resetchannels", "&redisson_lock__channel:{good*", "&rlock:{good*", "+@all").Err())
	}
	opt := cluster.Options()
	opt.Username, opt.Password = "few", "pw"
	rdb := closed(t, redis.NewClusterClient(opt))
	client, holder := testkit.NewClient(t, rdb), testkit.NewClient(t, cluster.Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var refusals []<-chan error
	for i := range 20 {
		for _, name := range []string{fmt.Sprint("good", i), fmt.Sprint("bad", i)} {
			held := holder.NewLock(name)
			require.NoError(t, held.Lock(t.Context()))
			defer func() { require.NoError(t, held.Unlock(t.Context())) }()
			lock := client.NewLock(name)
			if name[0] == 'b' {
				refusals = append(refusals, testkit.Async(func() error { return lock.Lock(ctx) }))
				continue
			}
			wg.Go(func() { _ = lock.Lock(ctx) })
		}
	}
	nodes := testkit.Admins(t, cluster.Nodes...)
	for i := range 20 {
		lock := client.NewLock(fmt.Sprint("good", i))
		testkit.Eventually(t, "the permitted channel is subscribed", func() bool { return subscribers(t, nodes, lock, true) == 1 })
	}
	for i, refusal := range refusals {
		err := testkit.Within(t, "the refusal is returned", refusal)
		require.ErrorContains(t, err, "NOPERM")
		require.ErrorContains(t, err, fmt.Sprintf("redisson_lock__channel:{bad%d}", i))
	}
	cancel()
	wg.Wait()
}

func shardedMove(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	for _, classic := range []bool{false, true} {
		for _, subscribed := range []bool{true, false} { // a release may come before the new subscription
			wokenAfter(t, cluster, classic, func(all []*wait) {
				for _, w := range all {
					cluster.MoveSlot(t, w.name)
				}
				if subscribed {
					listening(all)
				}
			})
		}
	}
}

func shardedKilled(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	for range 5 {
		wokenAfter(t, cluster, false, func(all []*wait) {
			for _, node := range all[0].nodes {
				require.NoError(t, node.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
			}
		})
	}
}

func shardedFailover(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	wokenAfter(t, cluster, false, func(all []*wait) {
		replicated(t, cluster, all[0].name)
		cluster.Failover(t, all[0].name)
	})
}

func shardedDeath(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	wokenAfter(t, cluster, false, func(all []*wait) {
		old := cluster.MasterToKill(t, all[0].name)
		replicated(t, cluster, all[0].name)
		for i, node := range cluster.Nodes {
			if node == old {
				for _, w := range all {
					w.nodes = slices.Delete(slices.Clone(w.nodes), i, i+1)
				}
			}
		}
		old.Kill()
		start := time.Now()
		listening(all)
		t.Logf("subscribed again %v after the death of the master", time.Since(start))
	})
}
