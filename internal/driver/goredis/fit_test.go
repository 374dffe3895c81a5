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
	for text, test := range map[string]struct {
		rdb    redis.UniversalClient
		gather bool
	}{
		"nil":                   {},
		"is nil":                {rdb: (*redis.Client)(nil)},
		"redis.Ring":            {rdb: ring},
		"redis.AutoPipeliner":   {rdb: pipeliner},
		"ReadTimeout":           {rdb: cluster},
		"not a redis.Client":    {rdb: another, gather: true},
		"3 connections to a no": {rdb: redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1", PoolSize: 2}), gather: true},
	} {
		_, err := New(test.rdb, Config{CommandTimeout: time.Second, Gather: test.gather})
		require.ErrorIs(t, err, fault.ErrInvalidOption)
		require.ErrorContains(t, err, text)
	}
	d, err := New(another, Config{CommandTimeout: time.Second})
	require.NoError(t, err)
	require.Zero(t, d.Info())
}

func TestShares(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		opt    redis.Options
		gather bool
		want   driver.Info
	}{
		{redis.Options{PoolSize: 10}, false, driver.Info{Connections: 10, Slots: 9, Bounded: true}},
		{redis.Options{PoolSize: 1}, false, driver.Info{Connections: 1, Slots: 1, Bounded: true}},
		{redis.Options{PoolSize: 10, MaxActiveConns: 4}, false, driver.Info{Connections: 4, Slots: 3, Bounded: true}},
		{redis.Options{PoolSize: 10, ReadTimeout: time.Hour}, true, driver.Info{Connections: 10, Slots: 5, Bounded: true}},
		{
			redis.Options{PoolSize: 10, PipelineReadBufferSize: 1 << 16, PipelinePoolSize: 3},
			true,
			driver.Info{Connections: 10, Slots: 7, Bounded: true},
		},
	} {
		test.opt.Addr = "127.0.0.1:1"
		d, err := New(redistest.Open(t, &test.opt), Config{CommandTimeout: 5 * time.Second, Gather: test.gather})
		require.NoError(t, err)
		require.Equal(t, test.want, d.Info())
	}
}
