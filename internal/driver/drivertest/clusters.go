package drivertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

func cluster(t *testing.T, open Open) { // the subtests share a cluster
	c := redistest.StartCluster(t)
	d := open(t, Server{Cluster: c.Options()}, driver.Config{CommandTimeout: commandTimeout})
	ctx, name := t.Context(), NewName()
	require.True(t, d.Info().Cluster)
	require.False(t, d.Info().Sentinel)
	at, err := d.Node(ctx, name)
	require.Nil(t, err)
	require.Equal(t, c.MasterOf(t, name).Addr, at.Addr())
	again, err := d.Node(ctx, name)
	require.Nil(t, err)
	require.True(t, at == again, "nodes are comparable")

	require.Nil(t, d.Run(ctx, nil, Acquire(wire.Plain, name, "a:1")).Err)
	out := make([]wire.Reply, 2)
	d.Pipe(ctx, at, []wire.Call{Release(wire.Plain, name, "a:1")}, nil, out[:1])
	require.Nil(t, out[0].Err)
	require.EqualValues(t, 1, out[0].N)
	r := d.Run(ctx, nil, Renew("a:1", name, NewName()))
	require.Equal(t, "CROSSSLOT", r.Err.Code)
	d.Pipe(ctx, at, []wire.Call{Acquire(wire.Plain, name, "a:1")}, &driver.Acks{Replicas: 1, Timeout: time.Second}, out[:1])
	require.Nil(t, out[0].Err)
	d.Pipe(ctx, nil, []wire.Call{Release(wire.Plain, name, "a:1"), Inspect(NewName(), "a:1")}, nil, out)
	require.Nil(t, out[0].Err)
	require.Nil(t, out[1].Err, "each goes to its own node")

	t.Run("subscriptions", func(t *testing.T) { clusterSubscriptions(t, d, c, name, at) })
	t.Run("moved slot", func(t *testing.T) { movedSlot(t, d, c, name, at) })
	t.Run("a client for one server", func(t *testing.T) { clientForOneServer(t, open, c) })
}

// clientForOneServer sends commands to a node of a cluster through a client for one server. Whatever it sends, the error says what is
// wrong, and has the server's reply.
func clientForOneServer(t *testing.T, open Open, c *redistest.Cluster) {
	ctx, name, out := t.Context(), NewName(), make([]wire.Reply, 1)
	for c.MasterOf(t, name) == c.Nodes[0] {
		name = NewName()
	}
	d := open(t, Server{Addr: c.Nodes[0].Addr}, driver.Config{CommandTimeout: commandTimeout})
	explains := func(err *fault.Error, code string, transient bool) {
		t.Helper()
		require.NotNil(t, err)
		require.Equal(t, code, err.Code)
		require.Equal(t, transient, err.Transient)
		require.Regexp(t, "^this server .* a node of a cluster[:,] use (redis|rueidis|valkey)[.]New[A-Za-z ]+: "+code+" ", err.Error())
	}
	explains(d.Run(ctx, nil, Acquire(wire.Plain, name, "a:1")).Err, "MOVED", false)
	d.Pipe(ctx, nil, []wire.Call{Renew("a:1", name)}, nil, out)
	explains(out[0].Err, "MOVED", false)
	_, err := d.Raw(ctx, nil, "hgetall", name)
	explains(err, "MOVED", false)
	s := d.Subscribe(ctx, nil, true)
	defer func() { require.NoError(t, s.Close()) }()
	if err = s.Subscribe(ctx, name); err == nil {
		_, err = s.Receive(ctx)
	}
	explains(err, "MOVED", false)
	explains(d.Run(ctx, nil, Renew("a:1", name, NewName())).Err, "CROSSSLOT", false)
	alone := redistest.Start(t, "--cluster-enabled", "yes") // which serves no slot
	d = open(t, Server{Addr: alone.Addr}, driver.Config{CommandTimeout: commandTimeout})
	explains(d.Run(ctx, nil, Acquire(wire.Plain, name, "a:1")).Err, "CLUSTERDOWN", true)
}

func clusterSubscriptions(t *testing.T, d driver.Driver, c *redistest.Cluster, name string, at driver.Node) {
	ctx := t.Context()
	t.Run("subscription", func(t *testing.T) {
		s := d.Subscribe(ctx, nil, false)
		defer func() { require.NoError(t, s.Close()) }()
		require.Nil(t, s.Subscribe(ctx, "a", "b"))
		next(t, s)
		next(t, s)
		require.NoError(t, c.Nodes[0].Client(t).Publish(ctx, "b", "0").Err())
		require.Equal(t, driver.Message{Sort: driver.Published, Channel: "b", Payload: "0"}, next(t, s))
	})
	t.Run("sharded subscription", func(t *testing.T) {
		s := d.Subscribe(ctx, at, true)
		defer func() { require.NoError(t, s.Close()) }()
		channel, other := "{"+name+"}", "{"+name+"}:2"
		require.Nil(t, s.Subscribe(ctx, channel, other))
		require.ElementsMatch(t, []driver.Message{
			{Sort: driver.Subscribed, Channel: channel}, {Sort: driver.Subscribed, Channel: other},
		}, []driver.Message{next(t, s), next(t, s)})
		_, err := d.Raw(ctx, at, "spublish", channel, "0")
		require.Nil(t, err)
		require.Equal(t, driver.Message{Sort: driver.Published, Channel: channel, Payload: "0"}, next(t, s))
		require.Nil(t, s.Unsubscribe(ctx, other))
		require.Equal(t, driver.Message{Sort: driver.Unsubscribed, Channel: other}, next(t, s))
		elsewhere := NewName()
		for {
			if node, err := d.Node(ctx, elsewhere); err == nil && node != at {
				break
			}
			elsewhere = NewName()
		}
		if err := s.Subscribe(ctx, elsewhere); err == nil {
			_, err = s.Receive(ctx)
			require.NotNil(t, err)
			require.Equal(t, "MOVED", err.Code)
		}
	})
}

// movedSlot has the slot of a name move to another node. While it moves, the nodes reply ASK and TRYAGAIN, and then MOVED.
func movedSlot(t *testing.T, d driver.Driver, c *redistest.Cluster, name string, at driver.Node) {
	ctx, out := t.Context(), make([]wire.Reply, 1)
	s := d.Subscribe(ctx, at, true)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Subscribe(ctx, name))
	next(t, s)
	c.MoveSlot(t, name, func() {
		asked := "{" + name + "}:asked"
		require.Nil(t, d.Run(ctx, nil, Inspect(asked, "a:3")).Err, "the driver follows ASK")
		d.Pipe(ctx, nil, []wire.Call{Renew("a:3", asked)}, nil, out[:1])
		require.Nil(t, out[0].Err)
		require.Equal(t, []int64{0}, out[0].List)
		r := d.Run(ctx, nil, Acquire(wire.Plain, asked, "a:3"))
		require.Equal(t, "TRYAGAIN", r.Err.Code, "two keys that neither node has")
		require.Equal(t, fault.Rejected, r.Err.Fate)
		require.True(t, r.Err.Transient)
	})
	require.Equal(t, driver.Message{Sort: driver.Unsubscribed, Channel: name}, next(t, s), "Redis ends it by itself")
	for what, acks := range map[string]*driver.Acks{"gathered": nil, "WAIT cannot follow": {Replicas: 1, Timeout: time.Second}} {
		d.Pipe(ctx, at, []wire.Call{Acquire(wire.Plain, name, "a:2")}, acks, out[:1])
		require.Equal(t, "MOVED", out[0].Err.Code, what)
		require.True(t, out[0].Err.Stale)
		require.True(t, out[0].Err.Transient)
	}
	d.Pipe(ctx, nil, []wire.Call{Acquire(wire.Plain, name, "a:2")}, nil, out[:1])
	require.Nil(t, out[0].Err, "a renewal follows")
	require.Nil(t, d.Run(ctx, nil, Release(wire.Plain, name, "a:2")).Err)
	d.Refresh()
	redistest.Eventually(t, "the topology is new", func() bool {
		now, err := d.Node(ctx, name)
		return err == nil && now.Addr() != at.Addr()
	})
}

// silentFailover has a master hang, and its replica take over. Nobody hears of that, and nothing breaks. After Refresh, calls reach the
// new master.
func silentFailover(t *testing.T, open Open) {
	const timeout = 500 * time.Millisecond
	c := redistest.StartCluster(t)
	d := open(t, Server{Cluster: c.Options()}, driver.Config{CommandTimeout: timeout})
	name := NewName()
	redistest.Eventually(t, "it is connected", func() bool { return d.Run(t.Context(), nil, Inspect(name, "a:1")).Err == nil })
	old := c.MasterOf(t, name)
	replica := c.ReplicaOf(t, old)
	old.Pause()
	defer old.Resume()
	require.NoError(t, replica.Client(t).Do(t.Context(), "cluster", "failover", "takeover").Err())
	began := time.Now()
	redistest.EventuallyWithin(t, 30*time.Second, "calls reach the new master", func() bool {
		d.Refresh()
		return d.Run(t.Context(), nil, Inspect(name, "a:1")).Err == nil
	})
	t.Logf("after %v", time.Since(began))
	redistest.EventuallyWithin(t, 30*time.Second, "renewals do", func() bool {
		out := make([]wire.Reply, 1)
		d.Pipe(t.Context(), nil, []wire.Call{Renew("a:1", name)}, nil, out)
		return out[0].Err == nil
	})
	redistest.EventuallyWithin(t, 30*time.Second, "the node is known", func() bool {
		d.Refresh()
		at, err := d.Node(t.Context(), name)
		return err == nil && at.Addr() == replica.Public()
	})
}
