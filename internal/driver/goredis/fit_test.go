package goredis

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestClientsThatCannotKeepALock(t *testing.T) {
	t.Parallel()
	rdb := redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1"}) // New sends nothing
	pipeliner, err := rdb.AutoPipeline()
	require.NoError(t, err)
	ring := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { _ = ring.Close() })
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadTimeout: -1})
	t.Cleanup(func() { _ = cluster.Close() })
	another := struct{ redis.UniversalClient }{rdb}
	for text, rdb := range map[string]redis.UniversalClient{
		"nil":                 nil,
		"is nil":              (*redis.Client)(nil),
		"redis.Ring":          ring,
		"redis.AutoPipeliner": pipeliner,
		"ReadTimeout":         cluster,
	} {
		_, err := New(rdb, driver.Config{CommandTimeout: time.Second})
		require.ErrorIs(t, err, fault.ErrInvalidOption)
		require.ErrorContains(t, err, text)
	}
	d, err := New(another, driver.Config{CommandTimeout: time.Second, Batches: true})
	require.NoError(t, err)
	plain, err := New(rdb, driver.Config{CommandTimeout: time.Second, Batches: true})
	require.NoError(t, err)
	require.Equal(t, plain.Info(), d.Info(), "a wrapper hides nothing")
	unknown, err := New(struct{ redis.UniversalClient }{}, driver.Config{CommandTimeout: time.Second, Batches: true})
	require.NoError(t, err, "a fake")
	require.Zero(t, unknown.Info())
}

func TestShares(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		opt  redis.Options
		cfg  driver.Config
		want driver.Info
	}{
		{redis.Options{PoolSize: 10}, driver.Config{}, driver.Info{Connections: 10, Slots: 9}},
		{redis.Options{PoolSize: 1}, driver.Config{}, driver.Info{Connections: 1, Slots: 1}},
		{redis.Options{PoolSize: 10, MaxActiveConns: 4}, driver.Config{}, driver.Info{Connections: 4, Slots: 3}},
		{redis.Options{PoolSize: 10, ReadTimeout: time.Hour}, driver.Config{Batches: true}, driver.Info{Connections: 10, Slots: 5, Batches: 4, Spare: 5}},
		{redis.Options{PoolSize: 7}, driver.Config{Batches: true}, driver.Info{Connections: 7, Slots: 3, Batches: 3, Spare: 3}},
		{redis.Options{PoolSize: 3}, driver.Config{Batches: true}, driver.Info{Connections: 3, Slots: 1, Batches: 1, Spare: 1}},
		{redis.Options{PoolSize: 2}, driver.Config{Batches: true}, driver.Info{Connections: 2, Slots: 1}},
		{redis.Options{PoolSize: 1}, driver.Config{Batches: true}, driver.Info{Connections: 1, Slots: 1}},
		{redis.Options{PoolSize: 10}, driver.Config{Batches: true, Acks: true}, driver.Info{Connections: 10, Slots: 8, Batches: 1, Spare: 8}},
		{
			redis.Options{PoolSize: 10, PipelineReadBufferSize: 1 << 16, PipelinePoolSize: 3},
			driver.Config{Batches: true},
			driver.Info{Connections: 10, Slots: 7, Batches: 2},
		},
		{
			redis.Options{PoolSize: 10, PipelineReadBufferSize: 1 << 16, PipelinePoolSize: 8},
			driver.Config{Batches: true},
			driver.Info{Connections: 10, Slots: 5, Batches: 4, Spare: 3},
		},
	} {
		test.opt.Addr, test.cfg.CommandTimeout, test.want.Bounded = "127.0.0.1:1", 5*time.Second, true
		d, err := New(redistest.Open(t, &test.opt), test.cfg)
		require.NoError(t, err)
		require.Equal(t, test.want, d.Info())
	}
}
