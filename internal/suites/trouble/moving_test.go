package trouble

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// movingSlot is a slot that moves from one master to another, key by key.
type movingSlot struct {
	cluster  *redistest.Cluster
	slot     int
	from, to *redistest.Server
	toID     string
}

// moves begins to move the slot of a key.
func moves(t *testing.T, cluster *redistest.Cluster, key string) *movingSlot {
	t.Helper()
	m := &movingSlot{cluster: cluster, slot: int(wire.Slot(key)), from: cluster.MasterOf(t, key), to: cluster.Nodes[0]}
	if m.to == m.from {
		m.to = cluster.Nodes[1]
	}
	m.toID = m.to.Client(t).ClusterMyID(t.Context()).Val()
	m.set(t, m.to, "importing", m.from.Client(t).ClusterMyID(t.Context()).Val())
	m.set(t, m.from, "migrating", m.toID)
	return m
}

// set tells a node about the slot.
func (m *movingSlot) set(t *testing.T, node *redistest.Server, args ...any) {
	t.Helper()
	require.NoError(t, node.Client(t).Do(t.Context(), append([]any{"cluster", "setslot", m.slot}, args...)...).Err())
}

// key moves a key.
func (m *movingSlot) key(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, m.from.Client(t).Migrate(t.Context(), "127.0.0.1", fmt.Sprint(m.to.Port), key, 0, time.Second).Err())
}

// ends tells all masters that the slot has moved.
func (m *movingSlot) ends(t *testing.T) {
	t.Helper()
	for _, node := range m.cluster.Nodes[:3] {
		m.set(t, node, "node", m.toID)
	}
}

func clusterMovingSlot(t *testing.T, cluster *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, rdb, logger, rlock.WithWatchdogTimeout(2*time.Second))
	tag := testkit.NewName()
	hold, err := client.NewLock("1{" + tag + "}").Acquire(t.Context())
	require.NoError(t, err)
	moved, err := client.NewLock("2{" + tag + "}").Acquire(t.Context())
	require.NoError(t, err)
	slot := moves(t, cluster, tag)
	slot.key(t, "2{"+tag+"}")
	for _, h := range []*rlock.Hold{hold, moved} {
		before := h.Deadline()
		testkit.Eventually(t, "the hold is renewed on the node that has its key", func() bool { return h.Deadline().After(before) })
		require.NoError(t, h.Unlock(t.Context()))
	}
	err = testkit.Second(client.NewLock("3{" + tag + "}").TryLock(t.Context()))
	require.ErrorContains(t, err, "TRYAGAIN")
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	waiting := testkit.Async(func() error { return client.NewLock("3{" + tag + "}").Lock(t.Context()) })
	slot.ends(t)
	require.NoError(t, testkit.Within(t, "a new lock waits until the slot has moved", waiting))
}

// clusterMovingReaders unlocks a reader at the node that imports the slot. The keys of the other reader's hold have yet to move.
func clusterMovingReaders(t *testing.T, cluster *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	name := testkit.NewName()
	lock := testkit.NewClient(t, rdb).NewRWLock(name)
	moved, err := lock.Reader().Acquire(t.Context())
	require.NoError(t, err)
	before := keysOf(t, cluster, name)
	stays, err := lock.Reader().Acquire(t.Context())
	require.NoError(t, err)
	slot := moves(t, cluster, name)
	for _, key := range before {
		slot.key(t, key)
	}
	require.NoError(t, moved.Unlock(t.Context()))
	for _, key := range keysOf(t, cluster, name) {
		slot.key(t, key)
	}
	slot.ends(t)
	require.False(t, testkit.Must(lock.Writer().TryLock(t.Context())))
	require.NoError(t, stays.Unlock(t.Context()))
	require.True(t, testkit.Must(lock.Writer().TryLock(t.Context())))
}

// keysOf returns the keys that the master of a name has in its slot.
func keysOf(t *testing.T, cluster *redistest.Cluster, name string) []string {
	t.Helper()
	keys, err := cluster.MasterOf(t, name).Client(t).ClusterGetKeysInSlot(t.Context(), int(wire.Slot(name)), 1000).Result()
	require.NoError(t, err)
	return keys
}
