package rlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/lua"
)

// All scripts share one calling convention, so that one algorithm can run any of them. KEYS are the lock and the numbers
// abandoned on it, then what else the kind needs; a script that touches the lock alone gets it alone, because a cluster
// refuses a script with several keys while it moves their slot. ARGV begin with the holder's field, a time in ms, the
// number of the holder and the channel. Renewals differ: they speak of many locks.
//
// Every script may run more than once, late, and after any other: it changes nothing that is not its holder's, and
// creates a holder only for a number that nobody gave up.
var (
	lockAcquire = newScript(lua.LockAcquire)
	lockCount   = newScript(lua.LockCount)
	lockRelease = newScript(lua.LockRelease)
	lockRenew   = newScript(lua.LockRenew)
	lockForce   = newScript(lua.LockForce)
	lockInspect = newScript(lua.LockInspect)
)

type script struct {
	source string
	run    [2]any // the beginning of the command that runs it by its digest, made once
}

func newScript(source string) *script {
	source = lua.Prelude + source
	return &script{source, [2]any{"evalsha", redis.NewScript(source).Hash()}}
}

var (
	// errReply is in the error for an answer that no script of ours gives.
	errReply = errors.New("unexpected reply from Redis")

	// errNotSent is in the error of a command that ended before it was sent.
	errNotSent = errors.New("not sent")
)

// once is a command that go-redis sends a single time. Left to itself it sends a script again when an answer was lost,
// up to four times, sixteen on a cluster; we repeat what must be repeated, and know it.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis before it sends a command again.
func (once) NoRetry() bool { return true }

// command makes the command that runs a script, by its digest or in full.
func (s *script) command(ctx context.Context, full bool, keys []any, args ...any) once {
	all := make([]any, 0, 3+len(keys)+len(args))
	if full {
		all = append(all, "eval", s.source)
	} else {
		all = append(all, s.run[:]...)
	}
	all = append(append(append(all, len(keys)), keys...), args...)
	cmd := once{redis.NewCmd(ctx, all...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// run runs a script once. Redis may not know the script yet, and says so without running anything.
func (c *Client) run(ctx context.Context, s *script, keys []any, args ...any) (*redis.Cmd, error) {
	cmd := s.command(ctx, false, keys, args...)
	err := c.rdb.Process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = s.command(ctx, true, keys, args...)
		err = c.rdb.Process(ctx, cmd)
	}
	if err != nil {
		c.sawError(err)
	}
	return cmd.Cmd, err
}

// runNumber runs a script that answers a number.
func (c *Client) runNumber(ctx context.Context, s *script, keys []any, args ...any) (int64, error) {
	cmd, err := c.run(ctx, s, keys, args...)
	if err != nil {
		return 0, err
	}
	n, ok := cmd.Val().(int64)
	if !ok {
		return 0, fmt.Errorf("%w: %T for a number", errReply, cmd.Val())
	}
	return n, nil
}

// numbers returns the numbers of an answer that must have n of them.
func numbers(cmd *redis.Cmd, n int) ([]int64, error) {
	got, err := cmd.Int64Slice()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReply, err)
	}
	if len(got) != n {
		return nil, fmt.Errorf("%w: %d numbers, not %d", errReply, len(got), n)
	}
	return got, nil
}
