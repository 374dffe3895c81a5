package simredis

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newCluster returns two masters, which have the slots up to 8191 and the rest, and a replica of the first one.
func newCluster(t *testing.T) (first, second, replica *Server) {
	t.Helper()
	var all []*Server
	for i := range 3 {
		s := New(func() time.Time { return time.Unix(1e9, 0) })
		s.EnableCluster("127.0.0.1", int64(i+1))
		s.Resolve = func(_ string, port int64) *Server { return all[port-1] }
		all = append(all, s)
		s.Do("CLUSTER", "MEET", "127.0.0.1", "1")
	}
	all[0].Do("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	all[1].Do("CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	id, _ := all[0].Do("CLUSTER", "MYID").(string)
	require.Equal(t, Status("OK"), all[2].Do("CLUSTER", "REPLICATE", id))
	return all[0], all[1], all[2]
}

func TestAReplicaOfAClusterTakesOver(t *testing.T) {
	t.Parallel()
	first, second, replica := newCluster(t)
	require.Equal(t, Status("OK"), first.Do("SET", "b", "1"))
	require.Equal(t, Err("MOVED 3300 127.0.0.1:1"), replica.Do("GET", "b"))
	replica.Do("READONLY")
	require.Equal(t, "1", replica.Do("GET", "b"))
	require.Equal(t, Err("MOVED 3300 127.0.0.1:1"), second.Do("GET", "b"))
	first.SetDown(true)
	require.Equal(t, Err("MOVED 3300 127.0.0.1:3"), second.Do("GET", "b"))
	require.Equal(t, Status("OK"), replica.Do("SET", "b", "2"))
	first.SetDown(false)
	require.Equal(t, Err("MOVED 3300 127.0.0.1:3"), first.Do("SET", "b", "3"))
	first.Do("READONLY")
	require.Equal(t, "2", first.Do("GET", "b"), "it follows the new master")
	require.Equal(t, Status("OK"), first.Do("CLUSTER", "FAILOVER"))
	require.Equal(t, Status("OK"), first.Do("SET", "b", "4"))
	require.Equal(t, Err("MOVED 3300 127.0.0.1:1"), replica.Do("SET", "b", "5"))
}

func TestAClusterWithoutASlotOrAMasterIsDown(t *testing.T) {
	t.Parallel()
	first, second, replica := newCluster(t)
	second.SetDown(true) // which has no replica
	require.Equal(t, errDown, first.Do("GET", "b"))
	second.SetDown(false)
	second.Do("CLUSTER", "DELSLOTS", "16383")
	require.Equal(t, errDown, first.Do("GET", "b"))
	require.Contains(t, first.Do("CLUSTER", "INFO"), "cluster_state:fail")
	second.Do("CLUSTER", "ADDSLOTS", "16383")
	require.Nil(t, first.Do("GET", "b"))
	nodes, _ := replica.Do("CLUSTER", "NODES").(string)
	require.Equal(t, 1, strings.Count(nodes, "myself,slave"))
	reply, _ := first.Do("CLUSTER", "SLOTS").([]any)
	require.Len(t, reply, 2)
	require.Len(t, reply[0], 4, "with its replica")
	require.Len(t, reply[1], 3)
}

func TestAMovedSlotEndsItsShardedSubscriptions(t *testing.T) {
	t.Parallel()
	first, second, _ := newCluster(t)
	var got []any
	conn, err := first.Connect("127.0.0.1:9", func(message []any) { got = append(got, message) }, nil)
	require.NoError(t, err)
	conn.Do("SSUBSCRIBE", "b")
	id, _ := second.Do("CLUSTER", "MYID").(string)
	second.Do("CLUSTER", "SETSLOT", "3300", "NODE", id)
	require.Equal(t, []any{[]any{"sunsubscribe", "b", int64(0)}}, got)
	require.Equal(t, int64(0), second.Do("SPUBLISH", "b", "m"))
}

func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("SET s \x00\xff")
	f.do("HSET h f 1 g 2")
	f.do("RPUSH l a b")
	f.do("ZADD z inf m 0.1 n")
	before := f.DB().Clone()
	for _, key := range f.Keys() {
		text, _ := f.Do("DUMP", key).(string)
		require.Equal(t, Err("BUSYKEY Target key name already exists."), f.Do("RESTORE", key, "0", text))
		f.do("DEL " + key)
		require.Equal(t, Status("OK"), f.Do("RESTORE", key, "0", text))
	}
	require.Equal(t, before, f.DB())
	require.IsType(t, Err(""), f.do("RESTORE x 0 nonsense"))
}

// TestTheNodesOfAClusterTellEachOtherWhatIsPublished has a subscriber at each node. Only those of the node itself count.
func TestTheNodesOfAClusterTellEachOtherWhatIsPublished(t *testing.T) {
	t.Parallel()
	first, second, replica := newCluster(t)
	var got []string
	for name, s := range map[string]*Server{"first": first, "second": second, "replica": replica} {
		hears := &Subscriber{Send: func(channel, payload string) { got = append(got, name+" "+channel+" "+payload) }}
		s.Subscribe("b", hears, false)
		s.Subscribe("b", hears, true)
	}
	require.Equal(t, int64(1), second.Do("PUBLISH", "b", "1"))
	require.ElementsMatch(t, []string{"first b 1", "second b 1", "replica b 1"}, got)
	got = nil
	require.Equal(t, int64(1), first.Do("SPUBLISH", "b", "2"))
	require.ElementsMatch(t, []string{"first b 2", "replica b 2"}, got, "those of the shard")
}

// TestAReplicaOfAClusterThatLags loses what it has not applied when it takes over.
func TestAReplicaOfAClusterThatLags(t *testing.T) {
	t.Parallel()
	first, second, replica := newCluster(t)
	first.Lags = true
	id, _ := first.Do("CLUSTER", "MYID").(string)
	require.Equal(t, Status("OK"), replica.Do("CLUSTER", "REPLICATE", id))
	require.Equal(t, []*Replica{replica.Following()}, first.Replicas())
	first.Do("SET", "b", "1")
	require.Zero(t, first.AcknowledgedAt(first.Offset()))
	replica.Following().Apply(1)
	replica.Following().Acknowledge()
	require.Equal(t, int64(1), first.AcknowledgedAt(first.Offset()))
	first.Do("SET", "b", "2")
	require.Equal(t, first, second.Owner("b"))
	first.SetDown(true)
	require.Equal(t, replica, second.Owner("b"))
	require.Equal(t, "1", replica.Do("GET", "b"))
}
