package goredis

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestCluster(t *testing.T) { // the subtests share a cluster
	t.Parallel()
	needServer(t)
	cluster := redistest.StartCluster(t)
	d := open(t, cluster.Client(t))
	ctx, name := context.Background(), newName()
	require.True(t, d.Info().Cluster)
	at, err := d.Node(ctx, name)
	require.Nil(t, err)
	require.Equal(t, cluster.MasterOf(t, name).Addr, at.Addr())
	again, err := d.Node(ctx, name)
	require.Nil(t, err)
	require.True(t, at == again, "nodes are comparable")

	require.Nil(t, d.Run(ctx, nil, acquire(wire.Plain, name, "a:1")).Err)
	out := make([]wire.Reply, 1)
	d.Pipe(ctx, at, []wire.Call{release(wire.Plain, name, "a:1")}, nil, out)
	require.Nil(t, out[0].Err)
	require.EqualValues(t, 1, out[0].N)
	r := d.Run(ctx, nil, renew("a:1", name, newName()))
	require.Equal(t, "CROSSSLOT", r.Err.Code)

	t.Run("sharded subscription", func(t *testing.T) {
		s := d.Subscribe(ctx, at, true)
		defer func() { require.NoError(t, s.Close()) }()
		channel := "{" + name + "}"
		require.Nil(t, s.Subscribe(ctx, channel))
		m, err := s.Receive(ctx)
		require.Nil(t, err)
		require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: channel}, m)
		_, err = d.Raw(ctx, at, "spublish", channel, "0")
		require.Nil(t, err)
		m, err = s.Receive(ctx)
		require.Nil(t, err)
		require.Equal(t, driver.Message{Sort: driver.Published, Channel: channel, Payload: "0"}, m)
	})

	t.Run("moved slot", func(t *testing.T) {
		cluster.MoveSlot(t, name)
		for what, acks := range map[string]*driver.Acks{"gathered": nil, "WAIT cannot follow": {Replicas: 1, Timeout: time.Second}} {
			d.Pipe(ctx, at, []wire.Call{acquire(wire.Plain, name, "a:2")}, acks, out)
			require.Equal(t, "MOVED", out[0].Err.Code, what)
			require.True(t, out[0].Err.Stale)
			require.True(t, out[0].Err.Transient)
		}
		d.Pipe(ctx, nil, []wire.Call{acquire(wire.Plain, name, "a:2")}, nil, out)
		require.Nil(t, out[0].Err, "go-redis follows for a renewal")
		require.Nil(t, d.Run(ctx, nil, release(wire.Plain, name, "a:2")).Err)
		d.Refresh()
		redistest.Eventually(t, "the topology is new", func() bool {
			now, err := d.Node(ctx, name)
			return err == nil && now.Addr() != at.Addr()
		})
	})
}
