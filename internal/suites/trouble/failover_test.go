package trouble

import (
	"context"
	"strings"
	"sync/atomic"
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

func TestSentinelWithAHangingMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	testkit.SentinelBreakdown(t, sentinel, sentinel.Master.Pause).Outlive(t)
}

func clusterDyingMaster(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	testkit.ClusterBreakdown(t, cluster, (*redistest.Server).Kill).Outlive(t)
}

func clusterHangingMaster(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	var hung *redistest.Server
	testkit.ClusterBreakdown(t, cluster, func(s *redistest.Server) {
		hung = s
		s.Pause()
	}).Outlive(t)
	hung.Resume()
	admin := hung.Client(t)
	testkit.Eventually(t, "the old master follows the new one", func() bool {
		return strings.Contains(admin.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
}

func TestALossyFailoverIsReported(t *testing.T) {
	t.Parallel()
	p := testkit.NewPair(t)
	lock := p.Client(rlock.WithWatchdogTimeout(2*time.Second)).NewLock(testkit.NewName(), rlock.Fenced())
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	p.CatchUp()
	p.Link.Freeze()
	for range 3 { // a replica that only counted on would issue these tokens again
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	ctx := hold.Context()

	p.FailOver()
	other, err := p.Client().NewLock(lock.Name(), rlock.Fenced()).TryAcquire(t.Context())
	require.NoError(t, err, "the new master has no holder")
	require.Greater(t, other.Token(), hold.Token(), "a fenced resource refuses the old holder")
	testkit.Within(t, "the old holder learns of the loss", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.Len(t, testkit.Holders(t, p.Replica.Client(t), lock.Name()), 1, "its unlock does not release the new holder")
	require.NoError(t, other.Err())
	require.NoError(t, other.Unlock(t.Context()))
}

func TestAnAcknowledgedLockSurvivesALossyFailover(t *testing.T) {
	t.Parallel()
	for n, acks := range map[string]rlock.Option{"one": rlock.WithReplicaAcks(1, time.Second), "all": rlock.WithReplicaAcks(rlock.AllReplicas, time.Second)} {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			survivesALossyFailover(t, acks)
		})
	}
}

func survivesALossyFailover(t *testing.T, acks rlock.Option) {
	t.Helper()
	p := testkit.NewPair(t)
	client, other := p.Client(acks), p.Client()
	name := testkit.NewName()
	hold, err := client.NewLock(name).Acquire(t.Context())
	require.NoError(t, err)
	p.Link.Freeze()
	late := testkit.NewName()
	require.ErrorIs(t, testkit.Second(client.NewLock(late).TryAcquire(t.Context())), rlock.ErrNotReplicated)

	p.FailOver()
	require.False(t, testkit.Must(other.NewLock(name).TryLock(t.Context())), "the acknowledged lock is still held")
	free := other.NewLock(late)
	require.True(t, testkit.Must(free.TryLock(t.Context())), "the refused lock is free")
	require.NoError(t, free.Unlock(t.Context()))
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestRenewalsFollowAMovedSlot makes a node hang for less time than go-redis would wait for it.
func TestRenewalsFollowAMovedSlot(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	var master atomic.Pointer[string]
	master.Store(&proxy.Addr)
	rdb := closed(t, redis.NewClusterClient(&redis.ClusterOptions{
		ReadTimeout: time.Minute, Dialer: host.Dial,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
		},
	}))
	hold, err := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(5*time.Second)).NewLock(testkit.NewName()).Acquire(t.Context())
	require.NoError(t, err)
	proxy.Freeze()
	defer proxy.Thaw()
	before := hold.Deadline()
	master.Store(&server.Addr)
	testkit.Eventually(t, "the hold is renewed at the new node, or lost", func() bool { return hold.Deadline().After(before) || hold.Err() != nil })
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
}
