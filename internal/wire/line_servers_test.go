package wire_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestOutOfMemory checks that Redis still lets locks go when it is out of memory, and gives them to those that wait.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testOutOfMemory)
}

func testOutOfMemory(t *testing.T, sort sort) {
	t.Helper()
	l := onLine(t, sort)
	full := func(yes bool) {
		limit := map[bool]string{false: "0", true: "1"}[yes]
		require.NoError(t, l.rdb.ConfigSet(context.Background(), "maxmemory", limit).Err())
	}
	l.stand("fA1")
	l.stand("fB2")
	l.stand("fC3")
	b, c := l.listen("B"), l.listen("C")
	full(true)
	r := l.stand("D4")
	place, ok := r.Position()
	require.True(t, ok)
	require.EqualValues(t, 2, place.Ahead, "it is noted nevertheless")
	require.InDelta(t, time.Minute, r.Hint(), float64(time.Second))
	l.run(l.giveCall("D4", 0, ""))
	r = l.stand("fC3")
	place, _ = r.Position()
	require.EqualValues(t, 1, place.Ahead)
	require.Equal(t, wire.ToWaiter, l.give("fA1", "A5").What, "the next holder is noted")
	l.hears(b, "granted 2")
	l.holds("fB2")
	l.stands("fC3 A5 #w")
	require.EqualValues(t, 1, l.run(l.about(l.sort.fenced).force()).N)
	l.hears(c, "granted 3")
	require.Equal(t, wire.ToNobody, l.give("fC3", "").What)
	l.stands("A5 #w !A5")
	a := l.listen("A")
	r = l.try("fE6")
	require.Negative(t, r.N)
	l.hears(a, "granted 5")
	l.holds("A5")
	require.NoError(t, l.rdb.Del(context.Background(), l.name).Err())
	full(false)
	require.Positive(t, l.stand("A1").N+1)
	l.stand("B2")
	full(true)
	require.NoError(t, l.rdb.Del(context.Background(), l.name).Err())
	require.EqualValues(t, 1, l.run(l.about(l.sort.plain).pump()).N)
	l.hears(b, "granted 2")
	require.Equal(t, wire.ToNext, l.give("B2", "B3").What)
	require.True(t, l.give("B3", "").Freed)
	_, err := testkit.RunCall(l.rdb, l.standCall("A1", term))
	require.ErrorContains(t, err, "OOM", "as without a line")
	require.Zero(t, l.rdb.DBSize(context.Background()).Val()-1, "only the token")
}

// TestAReplicaGrantsNothing checks that a server that may not write tells nobody that it has the lock.
func TestAReplicaGrantsNothing(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testAReplicaGrantsNothing)
}

func testAReplicaGrantsNothing(t *testing.T, sort sort) {
	t.Helper()
	l := onLine(t, sort)
	l.stand("A1")
	l.stand("B2")
	b := l.listen("B")
	ctx := context.Background()
	require.NoError(t, l.rdb.Del(ctx, l.name).Err())
	require.NoError(t, l.rdb.SlaveOf(ctx, "127.0.0.1", "1").Err())
	for what, c := range map[string]wire.Call{
		"pump": l.about(l.sort.plain).pump(), "newcomer": l.standCall("C3", term), "waiter": l.standCall("B2", term),
		"attempt": l.standCall("C3", 0), "release": l.giveCall("A1", 0, ""), "next": l.giveCall("A1", 0, "A4"),
		"tombstone": l.giveCall("A1", time.Minute, ""), "leave": l.giveCall("B2", 0, ""),
	} {
		_, err := testkit.RunCall(l.rdb, c)
		require.ErrorContains(t, err, "READONLY", what)
	}
	l.hearsNothing(b)
}

// A replica passes on what is published at its master, whose count leaves that out. After a failover, a waiter may still listen
// at the old master: it must not hear of a grant that the next waiter gets. Nor does somebody count who listens to a pattern.
func TestAWaiterAtAReplicaIsNotReached(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testAWaiterAtAReplicaIsNotReached)
}

func testAWaiterAtAReplicaIsNotReached(t *testing.T, sort sort) {
	t.Helper()
	l := onLine(t, sort)
	ctx := context.Background()
	opts := l.rdb.(*redis.Client).Options()
	host, port, _ := strings.Cut(opts.Addr, ":")
	replica := redistest.Start(t, "--replicaof", host, port).Client(t)
	redistest.Eventually(t, "the replica has its master", func() bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	at := &line{t, replica, l.name, sort}
	for _, fenced := range []string{"", "f"} {
		stale := at.listen("B")
		l.stand(fenced + "A1")
		l.stand(fenced + "B2")
		l.stand(fenced + "C3")
		c := l.listen("C")
		for who, unheard := range map[string]bool{"B2": true, "C3": false} {
			r := l.stand(fenced + who)
			place, ok := r.Position()
			require.True(t, ok)
			require.Equal(t, unheard, place.Unheard, who)
		}
		require.Equal(t, wire.ToWaiter, l.give(fenced+"A1", "").What)
		l.hears(c, "granted 3")
		l.holds(fenced + "C3")
		require.NoError(t, l.rdb.Publish(ctx, l.names(l.sort.plain, "B").Own(), "end").Err())
		m, err := stale.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, "end", m.Payload, "the grant was heard at the replica")
		require.NoError(t, l.rdb.FlushAll(ctx).Err())
		for _, s := range []*redis.PubSub{stale, c} {
			require.NoError(t, s.Close())
		}
		// From the second round on, somebody watches everything.
		everything := l.rdb.PSubscribe(ctx, "*")
		t.Cleanup(func() { _ = everything.Close() })
		_, err = everything.Receive(ctx)
		require.NoError(t, err)
	}
}

// TestTheLineOnACluster checks the sharded channels, and that a release never loses anything while a slot is moving.
func TestTheLineOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	name := testkit.NewName()
	from := cluster.MasterOf(t, name)
	l := &line{t, from.Client(t), name, plainSort}
	ctx := context.Background()
	sharded := func(c wire.Call) wire.Reply {
		c.Args.Publish = wire.PublishSharded
		return l.run(c)
	}
	names := l.names(l.sort.plain, "B")
	sub := l.rdb.SSubscribe(ctx, names.Own())
	t.Cleanup(func() { _ = sub.Close() })
	other := l.rdb.SSubscribe(ctx, names.Base())
	t.Cleanup(func() { _ = other.Close() })
	for _, s := range []*redis.PubSub{sub, other} {
		_, err := s.Receive(ctx)
		require.NoError(t, err)
	}
	sharded(l.standCall("A1", term))
	sharded(l.standCall("B2", term))
	sharded(l.standCall("C3", term))
	r := sharded(l.giveCall("A1", 0, ""))
	require.Equal(t, wire.ToWaiter, r.Gave().What)
	require.EqualValues(t, 1, r.Gave().Others)
	l.hears(sub, "granted 2")
	r = sharded(l.giveCall("B2", 0, "")) // (1+1) x 1 >= 1
	require.Equal(t, wire.ToPublic, r.Gave().What)
	l.hearsFree(other)

	l.wait(time.Millisecond)
	l.rdb.Del(ctx, name, l.key())
	l.stand("A1")
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	target := to.Client(t)
	slot := wire.Slot(name)
	require.NoError(t, target.Do(ctx, "cluster", "setslot", slot, "importing", l.rdb.(*redis.Client).ClusterMyID(ctx).Val()).Err())
	require.NoError(t, l.rdb.Do(ctx, "cluster", "setslot", slot, "migrating", target.ClusterMyID(ctx).Val()).Err())
	_, err := testkit.RunCall(l.rdb, l.giveCall("A1", 0, ""))
	require.ErrorContains(t, err, "TRYAGAIN", "the key of the line is missing")
	l.holds("A1")

	// All keys are there, and go only while the script runs.
	tombstones, _ := names.LineKeys[2].(string)
	require.NoError(t, l.rdb.Do(ctx, "cluster", "setslot", slot, "stable").Err())
	for _, next := range []string{"", "A9"} {
		l.rdb.Del(ctx, name)
		l.rdb.ZRem(ctx, l.key(), l.member("B2"))
		require.NoError(t, l.rdb.HSet(ctx, tombstones, 7, 1).Err())
		mine, _ := l.names(l.sort.plain, "A").LineKeys[2].(string)
		require.NoError(t, l.rdb.HSet(ctx, mine, 7, 1).Err())
		require.Zero(t, sharded(l.standCall("A1", term)).N)
		sharded(l.standCall("B2", term))
		require.NoError(t, l.rdb.Do(ctx, "cluster", "setslot", slot, "migrating", target.ClusterMyID(ctx).Val()).Err())
		r = sharded(l.giveCall("A1", 0, next))
		require.Equal(t, wire.Given{Freed: true}, r.Gave())
		l.hearsFree(other)
		l.hearsNothing(sub)
		require.NoError(t, l.rdb.Do(ctx, "cluster", "setslot", slot, "stable").Err())
		l.holds("")
		require.Equal(t, []string{l.member("B2")}, l.rdb.ZRangeByScore(ctx, l.key(), &redis.ZRangeBy{Min: "0", Max: "3e15"}).Val())
	}
}
