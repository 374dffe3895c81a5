package goredis

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// runner is a hook that runs a script as the test says.
type runner func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

func (runner) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h runner) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		return h(ctx, cmd, next)
	}
}

func (h runner) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" { // of a new connection
			return next(ctx, cmds)
		}
		return h(ctx, cmds[0], func(ctx context.Context, _ redis.Cmder) error { return next(ctx, cmds) })
	}
}

// rejection is an error that a server replied.
type rejection string

func (r rejection) Error() string { return string(r) }

func (rejection) RedisError() {}

// lose forgets the reply of a command.
func lose(cmd redis.Cmder) { cmd.(interface{ SetVal(any) }).SetVal(nil) }

// TestRepetitions releases a lock with hooks that run the command several times, and checks what the driver says of the reply.
func TestRepetitions(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for what, c := range map[string]struct {
		run      runner
		n        int64 // the reply
		repeated bool
		fate     fault.Fate // if it failed
		failed   bool
	}{
		"once": {n: 1, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error { return next(ctx, cmd) }},
		"again after a failure before it was sent": {n: 1, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			cmd.SetErr(refused)
			return next(ctx, cmd)
		}},
		"again after a lost reply": {n: 0, repeated: true, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			_ = next(ctx, cmd)
			lose(cmd)
			return next(ctx, cmd)
		}},
		"again after a reply": {n: 0, repeated: true, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			_ = next(ctx, cmd)
			return next(ctx, cmd)
		}},
		"three times": {n: 0, repeated: true, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			_, _ = next(ctx, cmd), next(ctx, cmd)
			return next(ctx, cmd)
		}},
		"again after a redirection": {n: 0, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			_ = next(ctx, cmd)
			lose(cmd)
			cmd.SetErr(rejection("MOVED 1 127.0.0.1:1"))
			return next(ctx, cmd)
		}},
		"again after a reply, while Redis forgets the script": {
			n: 0, repeated: true, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
				_, _ = next(ctx, cmd), next(ctx, cmd)
				lose(cmd)
				cmd.SetErr(rejection("NOSCRIPT No matching script. Please use EVAL."))
				return cmd.Err()
			},
		},
		"its arguments, in another command": {n: 0, repeated: true, run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			_ = next(ctx, redis.NewCmd(ctx, cmd.Args()...))
			return next(ctx, cmd)
		}},
		"a lost reply, and then no connection": {
			repeated: true, failed: true, fate: fault.InDoubt,
			run: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
				_ = next(ctx, cmd)
				lose(cmd)
				_ = next(ctx, cmd)
				lose(cmd)
				cmd.SetErr(refused)
				return refused
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Embedded(t)
			d := open(t, rdb)
			name := drivertest.NewName()
			acquired := drivertest.Acquire(wire.Plain, name, "a:1")
			released := acquired
			released.Script, released.Args.Millis, released.Args.Publish = wire.Plain.Release, 0, wire.PublishPlain
			require.Nil(t, d.Run(t.Context(), nil, released).Err, "the server knows the script")
			rdb.AddHook(c.run)
			pipe := func(call wire.Call) wire.Reply {
				var out [1]wire.Reply
				d.Pipe(t.Context(), nil, []wire.Call{call}, nil, out[:])
				return out[0]
			}
			for _, send := range []func(wire.Call) wire.Reply{
				func(call wire.Call) wire.Reply { return d.Run(t.Context(), nil, call) }, pipe,
			} {
				require.NoError(t, rdb.HSet(t.Context(), name, "a:1", 1).Err())
				r := send(released)
				require.Equal(t, c.repeated, r.Repeated)
				if c.failed {
					require.Equal(t, c.fate, r.Err.Fate)
					continue
				}
				require.Nil(t, r.Err)
				require.Equal(t, c.n, min(r.N, 1))
			}
		})
	}
}

// TestASingleScript has a hook run a script twice that must not run twice.
func TestASingleScript(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	d := open(t, rdb)
	name := drivertest.NewName()
	call := drivertest.Acquire(wire.Plain, name, "a:1")
	call.Script, call.Args.Publish = wire.Plain.Force, wire.PublishPlain
	require.Nil(t, d.Run(t.Context(), nil, call).Err, "the server knows the script")
	rdb.AddHook(runner(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		_ = next(ctx, cmd)
		lose(cmd)
		rdb.HSet(ctx, name, "b:2", 1)
		return next(ctx, cmd)
	}))
	require.NoError(t, rdb.HSet(t.Context(), name, "a:1", 1).Err())
	r := d.Run(t.Context(), nil, call)
	require.True(t, r.Err.InDoubt())
	require.ErrorIs(t, r.Err, fault.ErrUnavailable)
	require.True(t, rdb.HExists(t.Context(), name, "b:2").Val(), "the next holder still has the lock")
	require.NoError(t, rdb.Ping(t.Context()).Err())
}
