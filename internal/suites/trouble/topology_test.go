package trouble

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/conform"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/tune"
	"github.com/go-rlock/rlock/internal/wire"
)

// clusterPipelined runs the claims through pipelines, and tests lost replies, a hanging node and a moved slot.
func clusterPipelined(t *testing.T, cluster *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	t.Run("conformance", func(t *testing.T) { // also with classic pub/sub
		rdbs := testkit.Limited(t, testkit.Admins(t, cluster.Nodes...), testkit.OpenClusterAs(t, cluster), "a Cluster")
		conform.Smoke(t, rdb, rdbs, tune.Crowd(0), rlock.WithClassicPubSub())
	})
	t.Run("a command is sent once", func(t *testing.T) { sentOnce(t, cluster, tune.Crowd(0)) })
	t.Run("a node that hangs harms no other", func(t *testing.T) { hangingNode(t, cluster, tune.Crowd(0)) })
	t.Run("a moved slot is followed", func(t *testing.T) {
		const crowd = 40
		client := testkit.NewClient(t, rdb, tune.Crowd(0))
		tag := testkit.NewName()
		lock := func(i int) *rlock.Lock { return client.NewLock(fmt.Sprintf("%d{%s}", i, tag)) }
		first := lock(0)
		require.NoError(t, first.Lock(t.Context()), "the client then knows the node of the slot")
		cluster.MoveSlot(t, tag)
		var wg sync.WaitGroup
		for i := range crowd {
			wg.Go(func() {
				if err := testkit.Second(lock(i + 1).TryLock(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, first.Unlock(t.Context()))
	})
}

// TestCluster uses one cluster for all its subtests.
func TestCluster(t *testing.T) { // the subtests share the cluster
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	for _, c := range []struct {
		claim string
		test  func(*testing.T, *redistest.Cluster, *redis.ClusterClient)
	}{
		{"conformance", clusterConformance},
		{"slots agree with the server", clusterSlots},
		{"names whose keys would be in several slots are refused", clusterNames},
		{"so are such names of latches", latchNames},
		{"so are such names of semaphores", permitNames},
		{"holds of all slots are renewed", clusterRenewals},
		{"a command is sent only once", clusterOnce},
		{"a hung node affects no other", clusterHangingNode},
		{"a lock whose slot moves can be renewed and unlocked", clusterMovingSlot},
		{"readers whose slot moves keep their holds", clusterMovingReaders},
		{"replicas acknowledge writes of any slot", clusterAcks},
		{"a multi lock spans slots", clusterMulti},
		{"replicas get no calls", clusterReplicas},
		{"a redirection that is not followed is transient", clusterRedirection},
		{"pipelines", clusterPipelined},
	} {
		t.Run(c.claim, func(t *testing.T) { c.test(t, cluster, rdb) })
	}
}

// TestClusterWhoseMastersFail uses its own cluster, so that it does not wait for TestCluster.
func TestClusterWhoseMastersFail(t *testing.T) { // the subtests share the cluster
	t.Parallel()
	cluster := redistest.StartCluster(t)
	t.Run("a master that hangs", func(t *testing.T) { clusterHangingMaster(t, cluster) })
	t.Run("a master that dies", func(t *testing.T) { clusterDyingMaster(t, cluster) })
}

func clusterConformance(t *testing.T, cluster *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	conform.Smoke(t, rdb, testkit.Limited(t, testkit.Admins(t, cluster.Nodes...), testkit.OpenClusterAs(t, cluster), testkit.ClusterRows...))
}

func clusterSlots(t *testing.T, _ *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	for _, key := range []string{"", "a", "a{b}c", "{a}b{c}", "a{b", "a{}b", "}{", "redisson_lock__channel:{order:7}", "ключ"} {
		want, err := rdb.ClusterKeySlot(t.Context(), key).Result()
		require.NoError(t, err)
		require.EqualValues(t, want, wire.Slot(key), key)
	}
}

func clusterNames(t *testing.T, _ *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	client := testkit.NewClient(t, rdb)
	for _, name := range []string{"a{b", "a}b", "a{}b", "}{", "{}", "{}x", "}a"} {
		require.ErrorIs(t, client.NewLock(name).Lock(t.Context()), rlock.ErrInvalidName, name)
	}
	for _, name := range []string{"plain", "{a}b", "x{a}y", "a{b}c{d}"} {
		lock := client.NewLock(name)
		require.NoError(t, lock.Lock(t.Context()), name)
		require.NoError(t, lock.Unlock(t.Context()), name)
	}
}

func clusterRenewals(t *testing.T, _ *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(2*time.Second))
	var holds []*rlock.Hold
	for i := range 60 {
		hold, err := client.NewLock(fmt.Sprintf("%s{%d}", testkit.NewName(), i%30)).Acquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, hold)
	}
	for range 2 {
		before := make([]time.Time, len(holds))
		for i, hold := range holds {
			before[i] = hold.Deadline()
		}
		for i, hold := range holds {
			testkit.Eventually(t, "each hold is renewed", func() bool { return hold.Deadline().After(before[i]) })
		}
	}
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(t.Context()))
	}
}

func clusterOnce(t *testing.T, cluster *redistest.Cluster, _ *redis.ClusterClient) {
	t.Helper()
	sentOnce(t, cluster)
}

func sentOnce(t *testing.T, cluster *redistest.Cluster, opts ...rlock.Option) {
	t.Helper()
	name := testkit.NewName()
	master := cluster.MasterOf(t, name)
	proxy := redistest.NewProxy(t, master.Addr)
	opt := cluster.Options()
	opt.ReadTimeout = 150 * time.Millisecond
	opt.Dialer = dialThrough(proxy, master.Addr)
	proxied := closed(t, redis.NewClusterClient(opt))
	lock := testkit.NewClient(t, proxied, opts...).NewLock(name)
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	for how, lose := range testkit.Lossy {
		before := proxy.Count(testkit.Runs("acquire"))
		lose(proxy, 1, testkit.Runs("acquire"))
		_, err := lock.TryLock(t.Context())
		require.Error(t, err, how)
		require.Equal(t, before+1, proxy.Count(testkit.Runs("acquire")), how)
		require.NoError(t, lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

func clusterHangingNode(t *testing.T, cluster *redistest.Cluster, _ *redis.ClusterClient) {
	t.Helper()
	hangingNode(t, cluster)
}

func hangingNode(t *testing.T, cluster *redistest.Cluster, opts ...rlock.Option) {
	t.Helper()
	opt := cluster.Options()
	opt.PoolSize = 4
	small := closed(t, redis.NewClusterClient(opt))
	client := testkit.NewClient(t, small, append(opts, rlock.WithCommandTimeout(2*time.Second))...)
	var hung, healthy string
	for hung == "" || healthy == "" {
		name := testkit.NewName()
		if cluster.MasterOf(t, name) == cluster.Nodes[0] {
			hung = name
		} else {
			healthy = name
		}
	}
	lock := client.NewLock(healthy)
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	cluster.Nodes[0].Pause()
	defer cluster.Nodes[0].Resume() // before the other nodes mark it as failed
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { _ = client.NewLock(fmt.Sprintf("%d{%s}", i, hung)).Lock(ctx) })
	}
	defer wg.Wait()
	for n := 0; ; n++ {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		if ctx.Err() != nil {
			require.Greater(t, n, 10, "that many in a second; if they had to wait for the node, hardly one")
			return
		}
	}
}

func clusterMulti(t *testing.T, cluster *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	var names []string
	masters := make(map[*redistest.Server]bool)
	for len(masters) < 3 {
		names = append(names, testkit.NewName())
		masters[cluster.MasterOf(t, names[len(names)-1])] = true
	}
	members := func() (locks []*rlock.Lock) {
		client := testkit.NewClient(t, rdb)
		for _, name := range names {
			locks = append(locks, client.NewLock(name))
		}
		return locks
	}
	for _, newGroup := range []func() handles.Any{
		func() handles.Any { return rlock.NewMultiLock(members()...) },
		func() handles.Any { return rlock.NewRedLock(members()...) },
	} {
		group, rival := newGroup(), newGroup()
		hold := testkit.Must(group.Acquire(t.Context(), rlock.Wait(testkit.ALongTime)))
		require.ErrorIs(t, testkit.Second(rival.TryAcquire(t.Context())), rlock.ErrNotAcquired)
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, testkit.Must(rival.Acquire(t.Context(), rlock.Wait(testkit.ALongTime))).Unlock(t.Context()))
	}
}

// A client may be configured to read from replicas. Queries of locks nevertheless go to masters.
func clusterReplicas(t *testing.T, cluster *redistest.Cluster, _ *redis.ClusterClient) {
	t.Helper()
	opt := cluster.Options()
	opt.ReadOnly, opt.RouteRandomly = true, true
	rdb := closed(t, redis.NewClusterClient(opt))
	lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
	replica := cluster.ReplicaOf(t, cluster.MasterOf(t, lock.Name())).Client(t)
	require.NoError(t, replica.ConfigResetStat(t.Context()).Err())
	for range 20 {
		require.NoError(t, lock.Lock(t.Context()))
		require.True(t, testkit.Must(lock.IsLocked(t.Context())))
		require.NoError(t, lock.Unlock(t.Context()))
		require.False(t, testkit.Must(lock.IsLocked(t.Context())))
	}
	require.Zero(t, testkit.Stats(t, replica)["evalsha"]+testkit.Stats(t, replica)["eval"])
}

func clusterRedirection(t *testing.T, cluster *redistest.Cluster, _ *redis.ClusterClient) {
	t.Helper()
	opt := cluster.Options()
	opt.MaxRedirects = -1
	rdb := closed(t, redis.NewClusterClient(opt))
	lock := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(testkit.ALongTime)).NewLock(testkit.NewName())
	for range 2 {
		hold, err := lock.Acquire(t.Context(), rlock.Wait(testkit.ALongTime))
		require.NoError(t, err)
		cluster.MoveSlot(t, lock.Name())
		require.NoError(t, hold.Unlock(t.Context()))
		cluster.MoveSlot(t, lock.Name())
	}
}

// dialThrough returns a dialer that redirects the connections to one address through a proxy.
func dialThrough(proxy *redistest.Proxy, addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		if to == addr {
			to = proxy.Addr
		}
		return host.Dial(ctx, network, to)
	}
}

func TestSentinel(t *testing.T) { // the last part kills the master
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	rdb := sentinel.Client(t)
	t.Run("conformance", func(t *testing.T) { sentinelConformance(t, sentinel, rdb) })
	t.Run("each right on the sentinels is necessary", func(t *testing.T) { sentinelRights(t, sentinel) })
	lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := lock.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	testkit.SentinelBreakdown(t, sentinel, sentinel.Master.Kill).Outlive(t)
}

func sentinelConformance(t *testing.T, sentinel *redistest.Sentinel, rdb *redis.Client) {
	t.Helper()
	watchers := testkit.Admins(t, sentinel.Sentinels...)
	watching := testkit.NewUser(t, watchers, testkit.Rights(t, connect.SentinelRows()...)...)
	data := testkit.Admins(t, append(sentinel.Replicas, sentinel.Master)...)
	conform.Smoke(t, rdb, testkit.Limited(t, data, func(user string) redis.UniversalClient {
		return testkit.OpenSentinelAs(t, sentinel, user, watching)
	}))
	t.Cleanup(func() { require.Empty(t, testkit.Denied(watchers, watching)) })
}

func sentinelRights(t *testing.T, sentinel *redistest.Sentinel) {
	t.Helper()
	connect.NeedsGoRedis(t)
	data := testkit.NewUser(t, testkit.Admins(t, sentinel.Master), testkit.Rights(t, testkit.RowsOf["lock"]...)...)
	rules := testkit.Rights(t, connect.SentinelRows()...)
	open := func(user string) redis.UniversalClient { return testkit.OpenSentinelAs(t, sentinel, data, user) }
	eachIsNeeded(t, testkit.Admins(t, sentinel.Sentinels...), open, rules, rules, func(u *trial) error {
		tried := regexp.MustCompile("cmd=ping user=" + u.user + " ") // sentinels have no statistics of commands
		return u.all(
			func() error { return u.newClient().NewLock(testkit.NewName()).Lock(u.Context()) },
			func() error {
				return u.until("the client checks the connection", func() bool {
					return slices.ContainsFunc(u.nodes, func(sentinel *redis.Client) bool {
						return tried.MatchString(sentinel.ClientList(u.Context()).Val())
					})
				})
			},
		)
	})
}

func TestHoldsOnAClusterBehindAPlainClientAreRenewed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--cluster-enabled", "yes")
	admin := server.Client(t)
	require.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testkit.Eventually(t, "the cluster is up", func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	client := testkit.NewClient(t, admin, rlock.WithWatchdogTimeout(3*time.Second))
	holds := make([]*rlock.Hold, 200)
	for i := range holds {
		var err error
		holds[i], err = client.NewLock(fmt.Sprint("h", i)).Acquire(t.Context())
		require.NoError(t, err)
	}
	for range 4 {
		before := make([]time.Time, len(holds))
		for i, hold := range holds {
			before[i] = hold.Deadline()
		}
		for i, hold := range holds {
			testkit.Eventually(t, "each is renewed", func() bool { return hold.Deadline().After(before[i]) })
		}
	}
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(t.Context()))
	}
}
