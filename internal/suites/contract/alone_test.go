package contract

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// alone is what an error says if a client for one server has met a node of a cluster.
const alone = "this server is a node of a cluster: use redis.NewClusterClient: MOVED "

// TestANodeOfAClusterIsNamed calls every method of every kind with a client for one server, which leads to a node of a cluster. The
// slot of the locks has moved away from it. No call waits, because waiting does not help.
func TestANodeOfAClusterIsNamed(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	addr := cluster.MasterOf(t, "{orders}").Addr
	one := fault{start: func(t *testing.T) *world {
		t.Helper()
		return newWorld(t, true, opener(addr), func() { cluster.MoveSlot(t, "{orders}") }, nil)
	}}
	for _, c := range one.measure(t, bounds[:1]) {
		what := c.method.name + " of " + c.kind
		require.ErrorContains(t, c.err, alone, what)
		require.False(t, c.waits(), what)
		for _, k := range known {
			if k.name != "an error of Redis" {
				require.False(t, k.is(c.err), "%s: %s: %v", what, k.name, c.err)
			}
		}
		var reply redis.Error
		require.ErrorAs(t, c.err, &reply, what)
	}
}

// TestANodeOfAClusterIsNamedInTheLog has the slot of a held lock move away: its renewals fail, and the log says why.
func TestANodeOfAClusterIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	cluster, log := redistest.StartCluster(t), &testkit.Recorder{}
	rdb := cluster.MasterOf(t, name).Client(t)
	client, err := rlock.New(rdb, rlock.WithLogger(log.Logger()), rlock.WithWatchdogTimeout(3*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	lock := client.NewLock(name)
	hold, err := lock.Acquire(context.Background())
	require.NoError(t, err)
	cluster.MoveSlot(t, name)
	_, err = lock.Inspect(context.Background())
	require.ErrorContains(t, err, alone)
	<-hold.Done() // nobody renews it
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	redistest.Eventually(t, "the log names the reason", func() bool { return log.Contains(alone) })
}

// TestAServerThatIsNoClusterIsNamed has a client for a cluster lead to a single server. No call waits, because waiting does not help.
func TestAServerThatIsNoClusterIsNamed(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{redistest.Start(t).Addr}, Dialer: host.Dial})
	t.Cleanup(func() { _ = rdb.Close() })
	client := testkit.NewClient(t, rdb)
	lock, latch := client.NewLock(name), client.NewCountDownLatch(name)
	for what, err := range map[string]error{
		"Lock":         lock.Lock(t.Context()),
		"TryLock":      testkit.Second(lock.TryLock(t.Context())),
		"IsLocked":     testkit.Second(lock.IsLocked(t.Context())),
		"a semaphore":  testkit.Second(client.NewSemaphore(name, rlock.Total(1)).Acquire(t.Context())),
		"a multi lock": testkit.Second(rlock.NewMultiLock(lock, client.NewFairLock("other")).Acquire(t.Context())),
		"a latch":      testkit.Second(latch.CountDown(t.Context())),
	} {
		require.ErrorContains(t, err, "this server is no cluster: use redis.NewClient: ERR ", what)
		require.NotErrorIs(t, err, rlock.ErrUnavailable, what)
	}
}
