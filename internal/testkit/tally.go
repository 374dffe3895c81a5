package testkit

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Tally is a hook of a redis client that counts the scripts of rlock. The zero value has counted none. It is safe for concurrent
// use.
type Tally struct{ scripts atomic.Int64 }

// Scripts returns how many scripts were sent.
func (h *Tally) Scripts() int64 { return h.scripts.Load() }

// DialHook does nothing.
func (*Tally) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts one command.
func (h *Tally) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts the commands of a pipeline.
func (h *Tally) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.count(cmds...)
		return next(ctx, cmds)
	}
}

func (h *Tally) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if cmd.Name() == "evalsha" {
			h.scripts.Add(1)
		}
	}
}
