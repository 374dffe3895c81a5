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
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestRun(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	d := open(t, rdb)
	ctx, name := context.Background(), newName()
	r := d.Run(ctx, nil, acquire(wire.Plain, name, "a:1"))
	require.Nil(t, r.Err, "the server gets the script in full")
	require.True(t, r.Acquired())
	require.Positive(t, r.Took)
	r = d.Run(ctx, nil, acquire(wire.Plain, name, "b:1"))
	require.Nil(t, r.Err)
	require.False(t, r.Acquired())
	require.InDelta(t, 30*time.Second, r.Hint(), float64(10*time.Second))

	inspect := wire.Call{Script: wire.Plain.Inspect, Keys: []any{name}, Args: wire.Args{Holder: "a:1"}}
	r = d.Run(ctx, nil, inspect)
	require.Nil(t, r.Err)
	require.Len(t, r.List, 3)
	require.Equal(t, []int64{1, 1}, r.List[1:])

	require.EqualValues(t, 1, d.Run(ctx, nil, release(wire.Plain, name, "a:1")).N)
	require.NoError(t, rdb.Set(ctx, name, "no lock", 0).Err())
	require.True(t, d.Run(ctx, nil, acquire(wire.Plain, name, "a:2")).Err.WrongType())
}

// TestNobodyEndsACommand checks the context with which a command is sent: the caller's values, but the command timeout.
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
	require.Nil(t, d.Run(ctx, nil, acquire(wire.Plain, newName(), "a:1")).Err)
	require.NoError(t, sent.Err())
	require.Nil(t, sent.Done())
	require.Equal(t, "value", sent.Value(key{}))
	deadline, _ := sent.Deadline()
	require.WithinRange(t, deadline, before.Add(d.timeout), time.Now().Add(d.timeout))
}

// TestShortReplies runs scripts that reply a list, or a single number, on all ways to Redis.
func TestShortReplies(t *testing.T) {
	t.Parallel()
	d := open(t, redistest.Embedded(t))
	ctx := context.Background()
	for way, run := range map[string]func(wire.Call) wire.Reply{
		"alone": func(c wire.Call) wire.Reply { return d.Run(ctx, nil, c) },
		"in a pipeline": func(c wire.Call) wire.Reply {
			out := make([]wire.Reply, 1)
			d.Pipe(ctx, nil, []wire.Call{c}, nil, out)
			return out[0]
		},
	} {
		n := wire.NewNames(wire.Plain, newName(), "client")
		one, other := wire.NewHolder(wire.Plain, n, "client", 1), wire.NewHolder(wire.Plain, n, "client", 2)
		send := func(c wire.Call) wire.Reply {
			c.Args.Publish = wire.PublishPlain
			r := run(c)
			require.Nil(t, r.Err, way)
			return r
		}
		r := send(one.Stand(n, time.Minute, 0))
		require.True(t, r.Acquired(), way)
		require.Nil(t, r.List, way)
		r = send(other.Stand(n, time.Minute, time.Second))
		require.False(t, r.Acquired(), way)
		require.InDelta(t, time.Minute, r.Hint(), float64(time.Second), way)
		place, ok := r.Stood()
		require.True(t, ok, way)
		require.Zero(t, place.Ahead, way)
		r = send(other.Give(n, 0, time.Second, nil))
		require.Equal(t, wire.Given{}, r.Gave(), way)
		r = send(one.Give(n, 0, 0, &wire.Next{Holder: &other, Lease: time.Minute, Term: time.Second}))
		require.EqualValues(t, 1, r.N, way)
		require.Equal(t, wire.ToNext, r.Gave().What, way)
	}
}

func TestUnexpectedReply(t *testing.T) {
	t.Parallel()
	d := open(t, redistest.Embedded(t))
	script := *wire.Plain.Inspect // which replies a list
	for numbers, text := range map[int]string{0: "for a number", 2: "3 numbers, not 2"} {
		script.Numbers = numbers
		r := d.Run(context.Background(), nil, wire.Call{Script: &script, Keys: []any{newName()}})
		require.Equal(t, fault.InDoubt, r.Err.Fate)
		require.False(t, r.Err.Transient)
		require.ErrorIs(t, r.Err, fault.ErrReply)
		require.ErrorContains(t, r.Err, text)
	}
}

func TestClosedClient(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	d := open(t, rdb)
	require.NoError(t, rdb.Close())
	r := d.Run(context.Background(), nil, acquire(wire.Plain, newName(), "a:1"))
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.False(t, r.Err.Transient)
	require.ErrorIs(t, r.Err, redis.ErrClosed)
	require.EqualValues(t, -1, r.N)
}

func TestPipe(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	d := open(t, rdb)
	ctx, one, other := context.Background(), newName(), newName()
	out := make([]wire.Reply, 2)
	d.Pipe(ctx, nil, []wire.Call{acquire(wire.Plain, one, "a:1"), acquire(wire.Plain, other, "a:2")}, nil, out)
	require.Nil(t, out[0].Err)
	require.Nil(t, out[1].Err)
	d.Pipe(ctx, nil, []wire.Call{renew("a:1", one, other), renew("a:2", other)}, nil, out)
	require.Nil(t, out[0].Err)
	require.Equal(t, []int64{1, 0}, out[0].List)
	require.Equal(t, []int64{1}, out[1].List)
	require.Positive(t, out[0].Took)
}

func TestAcks(t *testing.T) {
	t.Parallel()
	needServer(t)
	d := open(t, redistest.Start(t).Client(t))
	ctx, name := context.Background(), newName()
	acks := &driver.Acks{Replicas: 1, Timeout: time.Millisecond}
	out := make([]wire.Reply, 1)
	d.Pipe(ctx, nil, []wire.Call{acquire(wire.Fenced, name, "a:1")}, acks, out)
	require.Equal(t, fault.Unreplicated, out[0].Err.Fate)
	require.Positive(t, out[0].N, "the number is valid")
	require.True(t, out[0].Acquired())
	require.ErrorContains(t, out[0].Err, "0 of 1 replicas within 1ms")
	d.Pipe(ctx, nil, []wire.Call{acquire(wire.Fenced, name, "b:1")}, acks, out)
	require.Nil(t, out[0].Err, "a refusal waits for nothing")
	require.False(t, out[0].Acquired())
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
	inspect := wire.Call{Script: wire.Plain.Inspect, Keys: []any{newName()}, Args: wire.Args{Holder: "a:1"}}
	require.Nil(t, d.Run(ctx, nil, acquire(wire.Plain, newName(), "a:0")).Err, "the script is known")
	out := make([]wire.Reply, 3)
	for _, first := range []wire.Call{acquire(wire.Plain, newName(), "a:1"), inspect} {
		require.Nil(t, d.Run(ctx, nil, inspect).Err, "there is a connection")
		breaks.Store(true)
		d.Pipe(ctx, nil, []wire.Call{
			first, acquire(wire.Plain, newName(), "a:2"), acquire(wire.Plain, newName(), "a:3"),
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
	open(t, rdb).Pipe(context.Background(), nil, []wire.Call{acquire(wire.Plain, newName(), "a:1")}, nil, out)
	require.ErrorIs(t, out[0].Err, refused)
}

func TestSubscription(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	d := open(t, rdb)
	ctx := context.Background()
	s := d.Subscribe(ctx, nil, false)
	require.Nil(t, s.Subscribe(ctx, "a"))
	require.Nil(t, s.Subscribe(ctx))
	next := func() driver.Message {
		m, err := s.Receive(ctx)
		require.Nil(t, err)
		return m
	}
	require.Equal(t, driver.Message{Sort: driver.Subscribed, Channel: "a"}, next())
	require.NoError(t, rdb.Publish(ctx, "a", "0").Err())
	require.Equal(t, driver.Message{Sort: driver.Published, Channel: "a", Payload: "0"}, next())
	require.Nil(t, s.Ping(ctx))
	require.Equal(t, driver.Message{}, next())
	require.Nil(t, s.Unsubscribe(ctx))
	require.Nil(t, s.Unsubscribe(ctx, "a"))
	require.Equal(t, driver.Message{Sort: driver.Unsubscribed, Channel: "a"}, next())
	require.NoError(t, s.Close())
	_, err := s.Receive(ctx)
	require.ErrorIs(t, err, driver.ErrSubscriptionClosed)
	require.ErrorIs(t, err, redis.ErrClosed)
}

func TestRaw(t *testing.T) {
	t.Parallel()
	d := open(t, redistest.Embedded(t))
	reply, err := d.Raw(context.Background(), nil, "ping")
	require.Nil(t, err)
	require.Equal(t, "PONG", reply)
	_, err = d.Raw(context.Background(), nil, "nonsense")
	require.Equal(t, "unknown", err.Code)
	require.True(t, err.Replied())
	require.False(t, err.Transient)
}
