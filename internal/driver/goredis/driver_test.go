package goredis

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
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

func TestDriver(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redis.Options){
		"default":                   func(*redis.Options) {},
		"longer than commands last": func(o *redis.Options) { o.ReadTimeout = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(tb testing.TB, s drivertest.Server, cfg driver.Config) driver.Driver {
				tb.Helper()
				var rdb redis.UniversalClient
				switch {
				case s.Cluster != nil:
					rdb = redis.NewClusterClient(s.Cluster)
				case s.Sentinel != nil:
					rdb = redis.NewFailoverClient(s.Sentinel)
				default:
					opt := &redis.Options{Addr: s.Addr}
					change(opt)
					rdb = redis.NewClient(opt)
				}
				tb.Cleanup(func() { _ = rdb.Close() })
				d, err := New(rdb, cfg)
				require.NoError(tb, err)
				return d
			})
		})
	}
}

// TestNobodyEndsACommand checks the context with which a command is sent: the caller's values, but the command timeout and no other end.
func TestNobodyEndsACommand(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	d := open(t, rdb)
	var sent context.Context
	rdb.AddHook(hook{process: func(next redis.ProcessHook) redis.ProcessHook {
		return func(ctx context.Context, cmd redis.Cmder) error {
			sent = ctx
			return next(ctx, cmd)
		}
	}})
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	cancel()
	before := time.Now()
	require.Nil(t, d.Run(ctx, nil, drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1")).Err)
	require.NoError(t, sent.Err())
	require.Equal(t, "value", sent.Value(key{}))
	deadline, _ := sent.Deadline()
	require.WithinRange(t, deadline, before.Add(d.timeout), time.Now().Add(d.timeout))
}

func TestClosedClient(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	d := open(t, rdb)
	require.NoError(t, rdb.Close())
	r := d.Run(context.Background(), nil, drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1"))
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.False(t, r.Err.Transient)
	require.ErrorIs(t, r.Err, redis.ErrClosed)
	require.EqualValues(t, -1, r.N)
}

// TestABrokenPipeline has a connection break after the first line of the replies to a pipeline. A whole reply counts: its caller
// holds the lock. A list that was cut off does not.
func TestABrokenPipeline(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	var breaks atomic.Bool
	rdb.AddHook(hook{dial: func(next redis.DialHook) redis.DialHook {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := next(ctx, network, addr)
			return &breakable{Conn: c, now: &breaks}, err
		}
	}})
	d := open(t, rdb)
	ctx := context.Background()
	inspect := wire.Call{Script: wire.Plain.Inspect, Keys: []any{drivertest.NewName()}, Args: wire.Args{Holder: "a:1"}}
	require.Nil(t, d.Run(ctx, nil, drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:0")).Err, "the script is known")
	out := make([]wire.Reply, 3)
	for _, first := range []wire.Call{drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1"), inspect} {
		require.Nil(t, d.Run(ctx, nil, inspect).Err, "there is a connection")
		breaks.Store(true)
		d.Pipe(ctx, nil, []wire.Call{
			first, drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:2"), drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:3"),
		}, nil, out)
		cut := out
		if first.Script != wire.Plain.Inspect {
			require.Nil(t, out[0].Err)
			require.True(t, out[0].Acquired())
			cut = out[1:]
		}
		for _, r := range cut {
			require.Equal(t, fault.InDoubt, r.Err.Fate)
			require.True(t, r.Err.Transient)
		}
	}
}

// hook is a hook of those parts that are not nil.
type hook struct {
	dial     func(redis.DialHook) redis.DialHook
	process  func(redis.ProcessHook) redis.ProcessHook
	pipeline func(redis.ProcessPipelineHook) redis.ProcessPipelineHook
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	if h.dial == nil {
		return next
	}
	return h.dial(next)
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if h.process == nil {
		return next
	}
	return h.process(next)
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if h.pipeline == nil {
		return next
	}
	return h.pipeline(next)
}

// breakable is a connection that breaks behind the next line that it reads, once now is true.
type breakable struct {
	net.Conn
	now    *atomic.Bool
	broken bool
}

func (c *breakable) Read(b []byte) (int, error) {
	if c.broken {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b)
	if end := bytes.IndexByte(b[:n], '\n'); end >= 0 && c.now.CompareAndSwap(true, false) {
		c.broken, n = true, end+1
	}
	return n, err
}

// TestAHookFailsAPipeline has a hook of the user's return an error without sending anything. No command has it as its own.
func TestAHookFailsAPipeline(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	refused := errors.New("refused by a hook")
	rdb.AddHook(hook{pipeline: func(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
		return func(ctx context.Context, cmds []redis.Cmder) error {
			if cmds[0].Name() == "evalsha" {
				return refused
			}
			return next(ctx, cmds)
		}
	}})
	out := make([]wire.Reply, 1)
	open(t, rdb).Pipe(context.Background(), nil, []wire.Call{drivertest.Acquire(wire.Plain, drivertest.NewName(), "a:1")}, nil, out)
	require.ErrorIs(t, out[0].Err, refused)
}
