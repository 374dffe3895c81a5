package goredis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// noRetry is a command that go-redis sends a single time. By default go-redis sends a script again when a reply is lost: up
// to four times, or sixteen on a cluster. rlock itself repeats the commands that must be repeated, and has to know of every
// repetition.
type noRetry struct{ *redis.Cmd }

// NoRetry returns true. go-redis asks before it sends a command again.
func (noRetry) NoRetry() bool { return true }

// The first words of the commands that run a script, boxed once.
var evalsha, eval any = "evalsha", "eval"

// block is a command and its arguments, in one allocation.
type block struct {
	cmd  redis.Cmd
	args [16]any // enough for most scripts, but not for a batch of renewals
}

// bounded is a block with the context of its command.
type bounded struct {
	block
	ctx driver.Ending
}

// command makes the command that runs a call's script, by its digest or in full.
func command(ctx context.Context, full bool, c *wire.Call) *block {
	return new(block).command(ctx, full, c)
}

func (b *block) command(ctx context.Context, full bool, c *wire.Call) *block {
	all := b.args[:0]
	if n := 3 + len(c.Keys) + max(c.Script.Argv, len(c.Argv)); n > len(b.args) {
		all = make([]any, 0, n)
	}
	if full {
		all = append(all, eval, c.Script.Source)
	} else {
		all = append(all, evalsha, c.Script.Digest)
	}
	all = append(append(all, len(c.Keys)), c.Keys...)
	b.cmd = *redis.NewCmd(ctx, c.AppendArgv(all)...)
	b.cmd.SetFirstKeyPos(3)
	return b
}

// once returns the command, for go-redis.
func (b *block) once() noRetry { return noRetry{&b.cmd} }

// Run sends a call once. If Redis does not know the script, it says so without running anything, and Run sends the
// script in full. On a cluster without a node, go-redis follows redirections.
func (d *Driver) Run(ctx context.Context, at driver.Node, c wire.Call) wire.Reply {
	sent := time.Now()
	r := d.usual
	if at != nil {
		r = d.to(at)
	}
	b := &bounded{ctx: d.deadlines.Bound(ctx, sent)}
	cmd := b.command(&b.ctx, false, &c)
	err := d.rdb.Process(&b.ctx, r.aim(cmd.once()))
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = command(&b.ctx, true, &c)
		err = d.rdb.Process(&b.ctx, r.aim(cmd.once()))
	}
	if errors.Is(err, context.DeadlineExceeded) && b.ctx.Err() != nil { // it was not the caller's deadline
		err = fault.ErrNoAnswer
	}
	reply := d.outcome(&cmd.cmd, err, &c)
	reply.Took = time.Since(sent)
	return reply
}

// outcome returns the outcome of a call's command.
func (d *Driver) outcome(cmd *redis.Cmd, err error, c *wire.Call) wire.Reply {
	if err != nil {
		return driver.Failed(d.classify(err))
	}
	switch v := cmd.Val().(type) {
	case int64:
		return driver.Replied(c, v, nil)
	case []any:
		if list, err := cmd.Int64Slice(); err == nil {
			return driver.Replied(c, 0, list)
		}
	}
	return driver.Unexpected("%T for a number", cmd.Val())
}
