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
	d := open(t, cluster.Client(t), true)
	ctx, name := context.Background(), newName()
	require.True(t, d.Info().Cluster)
	_, ok := d.Gather(ctx, acquire(wire.Plain, name, "a:1"))
	require.False(t, ok, "the topology is not known yet")
	at, err := d.Node(ctx, name)
	require.Nil(t, err)
	require.Equal(t, cluster.MasterOf(t, name).Addr, at.Addr())
	again, err := d.Node(ctx, name)
	require.Nil(t, err)
	require.True(t, at == again, "nodes are comparable")

	require.Nil(t, d.Run(ctx, nil, acquire(wire.Plain, name, "a:1")).Err)
	f, ok := d.Gather(ctx, release(wire.Plain, name, "a:1"))
	require.True(t, ok)
	r, ok := f.Wait(ctx)
	require.True(t, ok)
	require.Nil(t, r.Err)
	require.EqualValues(t, 1, r.N)
	r = d.Run(ctx, nil, renew("a:1", name, newName()))
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
		acks := &driver.Acks{Replicas: 1, Timeout: time.Second}
		out := make([]wire.Reply, 1)
		d.Pipe(ctx, at, []wire.Call{acquire(wire.Plain, name, "a:2")}, acks, out)
		require.Equal(t, "MOVED", out[0].Err.Code, "WAIT cannot follow")
		require.True(t, out[0].Err.Stale)
		require.True(t, out[0].Err.Transient)
		f, ok := d.Gather(ctx, acquire(wire.Plain, name, "a:2"))
		if ok && f.(*future).pipeliner == d.pipelines.of(at.(node).Client) {
			r, _ := f.Wait(ctx)
			require.ErrorIs(t, r.Err, driver.ErrNotGathered)
		}
		d.Pipe(ctx, at, []wire.Call{acquire(wire.Plain, name, "a:2")}, nil, out)
		require.Nil(t, out[0].Err, "go-redis follows for a renewal")
		require.Nil(t, d.Run(ctx, nil, release(wire.Plain, name, "a:2")).Err)
		d.Refresh()
		redistest.Eventually(t, "the topology is new", func() bool {
			now, err := d.Node(ctx, name)
			return err == nil && now.Addr() != at.Addr()
		})
	})
}
