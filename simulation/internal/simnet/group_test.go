package simnet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// join returns a driver of one more process for a group.
func join(t *testing.T, g *Group) driver.Driver {
	t.Helper()
	var links []*Link
	for _, s := range g.Nodes {
		links = append(links, s.NewLink("a"))
	}
	d, err := g.Open(links, true)(driver.Config{CommandTimeout: timeout})
	require.NoError(t, err)
	return d
}

func acquire(t *testing.T, d driver.Driver, name string, acks *driver.Acks) wire.Reply {
	t.Helper()
	at, err := d.Node(t.Context(), name)
	require.Nil(t, err)
	out := make([]wire.Reply, 1)
	d.Pipe(t.Context(), at, []wire.Call{drivertest.Acquire(wire.Plain, name, "a:1")}, acks, out)
	return out[0]
}

// acquired reports whether a holder gets a lock, wherever that is.
func acquired(t *testing.T, d driver.Driver, name, holder string) bool {
	t.Helper()
	r := d.Run(t.Context(), nil, drivertest.Acquire(wire.Plain, name, holder))
	require.Nil(t, r.Err)
	return r.Acquired()
}

// TestReplicasAcknowledge has an acquisition wait for replicas, of which some get nothing for a while.
func TestReplicasAcknowledge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(2, 1, NewTrace(nil), Faults{Latency: time.Millisecond})
		d := join(t, g)
		one := &driver.Acks{Replicas: 1, Timeout: 100 * time.Millisecond}
		require.Nil(t, acquire(t, d, "x", one).Err)
		g.Nodes[1].Part(time.Second)
		require.Nil(t, acquire(t, d, "y", one).Err)
		g.Nodes[2].Part(time.Second)
		began := time.Now()
		require.Equal(t, fault.Unreplicated, acquire(t, d, "z", one).Err.Fate)
		require.InDelta(t, one.Timeout, time.Since(began), float64(5*time.Millisecond))
		began = time.Now()
		g.Nodes[0].With(func(r *simredis.Server) { r.Do("HSET", "taken", "b:1", "1") })
		require.Nil(t, acquire(t, d, "taken", one).Err)
		require.Less(t, time.Since(began), one.Timeout, "a refusal has written nothing for which WAIT waits")
		time.Sleep(2 * time.Second)
		require.Nil(t, acquire(t, d, "v", &driver.Acks{Replicas: 2, Timeout: time.Second}).Err)
		require.Equal(t, fault.Unreplicated, acquire(t, d, "w", &driver.Acks{Replicas: 3, Timeout: time.Second}).Err.Fate)
	})
}

// TestAFailoverForgets has a master fail whose last write its replicas do not have. In a switch, nothing is lost.
func TestAFailoverForgets(t *testing.T) {
	t.Parallel()
	for what, group := range map[string]func() *Group{
		"replicas": func() *Group { return NewGroup(2, 1, NewTrace(nil), Faults{Latency: time.Millisecond}) },
		"cluster":  func() *Group { return NewCluster(3, 1, NewTrace(nil), Faults{Latency: time.Millisecond}) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := group()
				d := join(t, g)
				require.True(t, acquired(t, d, "x", "a:1"))
				time.Sleep(time.Second)
				master := g.Home("x")
				for _, r := range master.Replicas() {
					r.Part(time.Minute)
				}
				require.True(t, acquired(t, d, "{x}y", "a:1"))
				time.Sleep(time.Second)
				masters := len(g.Masters())
				g.Fail(master, time.Second, 500*time.Millisecond)
				require.NotEqual(t, master, g.Home("x"))
				require.Len(t, g.Masters(), masters)
				require.NotContains(t, g.Masters(), master)
				master.Start(nil)
				require.Len(t, g.Masters(), masters)
				time.Sleep(time.Second)
				d.Refresh()
				time.Sleep(time.Second)
				require.False(t, acquired(t, d, "x", "a:2"), "it was replicated")
				require.True(t, acquired(t, d, "{x}y", "a:2"), "it was lost")

				second := g.Home("x")
				require.NotEmpty(t, second.Replicas())
				g.Switch(second, time.Second)
				require.NotEqual(t, second, g.Home("x"))
				r := d.Run(t.Context(), nil, drivertest.Acquire(wire.Plain, "{x}z", "a:3"))
				if what == "replicas" {
					require.Equal(t, "READONLY", r.Err.Code, "the process has not heard of it")
				} else {
					require.Nil(t, r.Err, "the old master redirects")
				}
				time.Sleep(time.Second)
				require.False(t, acquired(t, d, "{x}y", "a:3"))
			})
		})
	}
}

// TestASplitMasterForgets has a process write to a master that has not heard of its successor.
func TestASplitMasterForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(2, 1, NewTrace(nil), Faults{Latency: time.Millisecond})
		d := join(t, g)
		require.True(t, acquired(t, d, "x", "a:1"))
		old := g.Home("x")
		time.Sleep(time.Second)
		g.Split(time.Second)
		require.True(t, acquired(t, d, "y", "a:1"), "the old master takes it")
		time.Sleep(2 * time.Second)
		old.Stop()
		require.True(t, acquired(t, d, "y", "a:2"))
		require.False(t, acquired(t, d, "x", "a:2"))
		old.Start(nil)
		require.Contains(t, g.Home("x").Replicas(), old)
	})
}

// TestAMovingSlot has calls follow a slot that moves, and a sharded subscription end.
func TestAMovingSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewCluster(3, 1, NewTrace(nil), Faults{Latency: time.Millisecond})
		d := join(t, g)
		ctx, out := t.Context(), make([]wire.Reply, 2)
		require.True(t, acquired(t, d, "x", "a:1"))
		at, err := d.Node(ctx, "x")
		require.Nil(t, err)
		other := "y"
		for g.Home(other) == g.Home("x") {
			other += "y"
		}
		sub := d.Subscribe(ctx, at, true)
		require.Nil(t, sub.Subscribe(ctx, "x", other))
		m, err := sub.Receive(ctx)
		require.Nil(t, err)
		require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "x"}, m)
		_, err = sub.Receive(ctx)
		require.Equal(t, "MOVED", err.Code, "it is of another node")
		from := g.Home("x")
		to := g.Masters()[0]
		if to == from {
			to = g.Masters()[1]
		}
		paused := 0
		g.MoveSlot("x", to, func() {
			paused++
			require.Nil(t, d.Run(ctx, nil, drivertest.Inspect("{x}asked", "a:3")).Err, "the driver follows ASK")
			r := d.Run(ctx, nil, drivertest.Acquire(wire.Plain, "{x}asked", "a:3"))
			require.Equal(t, "TRYAGAIN", r.Err.Code, "two keys that neither node has")
		})
		require.Equal(t, 2, paused)
		m, err = sub.Receive(ctx)
		require.Nil(t, err)
		require.Equal(t, driver.Message{Sort: driver.Unsubscribed, Channel: "x"}, m)
		d.Pipe(ctx, at, []wire.Call{drivertest.Acquire(wire.Plain, "x", "a:2")}, nil, out[:1])
		require.Equal(t, "MOVED", out[0].Err.Code)
		require.True(t, out[0].Err.Transient)
		d.Pipe(ctx, nil, []wire.Call{drivertest.Release(wire.Plain, "x", "a:1"), drivertest.Inspect(other, "a:1")}, nil, out)
		require.Nil(t, out[0].Err)
		require.EqualValues(t, 1, out[0].N, "the lock has moved with its slot")
		require.Nil(t, out[1].Err)
		time.Sleep(time.Second)
		now, err := d.Node(ctx, "x")
		require.Nil(t, err)
		require.False(t, now == at, "the topology is new")
		require.NoError(t, sub.Close())
	})
}

// TestAClusterTellsAllNodes subscribes at some node, and publishes at another one.
func TestAClusterTellsAllNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewCluster(3, 1, NewTrace(nil), Faults{Latency: time.Millisecond})
		d := join(t, g)
		sub := d.Subscribe(t.Context(), nil, false)
		require.Nil(t, sub.Subscribe(t.Context(), "a", "b"))
		require.Equal(t, []string{"a", "b"}, confirmed(t, sub))
		for _, s := range g.Nodes {
			s.With(func(r *simredis.Server) { r.Do("PUBLISH", "a", s.name) })
			m, err := sub.Receive(t.Context())
			require.Nil(t, err)
			require.Equal(t, s.name, m.Payload)
		}
		require.NoError(t, sub.Close())
	})
}
