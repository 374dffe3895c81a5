package goredis

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// pings is a hook that puts a PING before each pipeline, and counts connections.
type pings struct{ dialed atomic.Int32 }

func (p *pings) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		p.dialed.Add(1)
		return next(ctx, network, addr)
	}
}

func (*pings) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (*pings) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return next(ctx, append([]redis.Cmder{redis.NewStatusCmd(ctx, "ping")}, cmds...))
	}
}

func TestAHookMayAddCommandsToAPipeline(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t).WithTimeout(-1)
	hook := &pings{}
	rdb.AddHook(hook)
	d := open(t, rdb)
	out := make([]wire.Reply, 2)
	d.Pipe(context.Background(), nil, []wire.Call{drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1"), drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:2")}, nil, out)
	require.Nil(t, out[0].Err)
	require.Nil(t, out[1].Err)
	reply, err := d.Raw(context.Background(), nil, "echo", "raw")
	require.Nil(t, err)
	require.Equal(t, "raw", reply)
}

// silent is a server that takes connections and never says anything. It returns its address.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	stop := make(chan struct{})
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _, _ = io.Copy(io.Discard, conn) })
			serving.Go(func() {
				<-stop
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// Drivers of one redis client keep their own command timeouts.
func TestEachDriverHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	rdb := redistest.Open(t, &redis.Options{Addr: silent(t), ReadTimeout: -1})
	short, err := New(rdb, driver.Config{CommandTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	long, err := New(rdb, driver.Config{CommandTimeout: time.Hour})
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() {
		waiting <- long.Run(context.Background(), nil, drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1")).Err
	}()
	for range 3 {
		var timeout net.Error
		err := short.Run(context.Background(), nil, drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1")).Err
		require.True(t, errors.Is(err, fault.ErrNoAnswer) || errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
	}
	require.Empty(t, waiting)
	require.NoError(t, rdb.Close())
	require.ErrorIs(t, short.Run(context.Background(), nil, drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1")).Err, redis.ErrClosed,
		"the clone is closed with its client")
	require.Error(t, <-waiting)
}

// The memory of which clients have the hook keeps no client alive, and no entry outlives its client.
func TestAnAbandonedClientIsForgotten(t *testing.T) { // not parallel: other tests remember clients too
	remembered := func() int {
		known.mu.Lock()
		defer known.mu.Unlock()
		return len(known.on)
	}
	runtime.GC()
	before := remembered()
	for range 100 {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1})
		for range 3 {
			_, err := New(rdb, driver.Config{CommandTimeout: time.Second})
			require.NoError(t, err)
		}
		require.NoError(t, rdb.Close())
	}
	redistest.Eventually(t, "the clients are collected", func() bool {
		runtime.GC()
		return remembered() <= before+10
	})
}
