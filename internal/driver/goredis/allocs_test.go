package goredis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestAllocationsOfRun compares with the same command, made by hand.
func TestAllocationsOfRun(t *testing.T) { // not parallel: it counts allocations
	rdb := redistest.Start(t).Client(t)
	d := open(t, rdb)
	c := drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1")
	require.Nil(t, d.Run(context.Background(), nil, c).Err)
	var ctx context.Context = driver.Bound(context.Background(), d.timeout)
	bare := testing.AllocsPerRun(200, func() {
		cmd := noRetry{redis.NewCmd(ctx, "evalsha", c.Script.Digest, 2, c.Keys[0], c.Keys[1], "a:1", "30000", "1000", "", "", "0", "")}
		_ = rdb.Process(ctx, cmd)
	})
	ours := testing.AllocsPerRun(200, func() { d.Run(ctx, nil, c) })
	require.LessOrEqual(t, ours, bare+2, "the lease and the number, as they are sent")
}
