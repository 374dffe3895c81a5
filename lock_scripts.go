package rlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/lua"
)

// All scripts share one calling convention, so that one algorithm can run any of them. KEYS are the lock, what else the
// kind needs, and last, where a holder may be created or given up, the numbers abandoned on the lock. A script gets only
// the keys it touches, because a cluster refuses a script with several keys while it moves their slot. ARGV are
//
//	[1] the holder's field
//	[2] a time in ms: the lease; of a release, for how long its number stays abandoned
//	[3] the holder's number
//	[4] the channel on which a release is announced
//	[5] the command that announces it there
//	[6] of a count, what it is; else how long a waiter in a queue may go without asking, in ms, negative: it does not queue
//	[7] of an acquire, the field by which the same owner holds the other side of a read-write lock; empty: it does not. Of a
//	    hand-over, the field that gives the lock up
//
// Renewals differ: they speak of many locks. An acquire answers the token, 0 where there are none, or when it is refused
// -1 less the ms until asking again may help.
//
// Every script may run more than once, late, and after any other: it changes nothing that is not its holder's, and
// creates a holder only for a number that nobody gave up.
var (
	lockAcquire  = newScript(1, lua.LockAcquire)
	lockCount    = newScript(1, lua.LockCount)
	lockRelease  = newScript(1, lua.LockRelease)
	lockRenew    = newScript(1, lua.LockRenew)
	lockForce    = newScript(1, lua.LockForce)
	lockInspect  = newScript(1, lua.LockInspect)
	lockHandOver = newScript(1, lua.HandOverPrelude, lua.LockHandOver)

	fencedAcquire  = newScript(2, lua.FencedPrelude, lua.FencedAcquire)
	fencedHandOver = newScript(2, lua.FencedPrelude, lua.HandOverPrelude, lua.FencedHandOver)

	fairAcquire = newScript(3, lua.FairPrelude, lua.FairAcquire)
	fairRelease = newScript(3, lua.FairPrelude, lua.FairRelease)
	fairForce   = newScript(3, lua.FairPrelude, lua.FairForce)

	readAcquire = newScript(2, lua.ReadAcquire)
	readCount   = newScript(2, lua.ReadCount)
	readRelease = newScript(2, lua.RWPrelude, lua.ReadRelease)
	readRenew   = newScript(2, lua.ReadRenew)
	readForce   = newScript(1, lua.ReadForce)
	readInspect = newScript(2, lua.ReadInspect)

	writeAcquire = newScript(1, lua.WriteAcquire)
	writeRelease = newScript(1, lua.RWPrelude, lua.WriteRelease)
	writeForce   = newScript(1, lua.RWPrelude, lua.WriteForce)
	writeInspect = newScript(1, lua.WriteInspect)
)

type script struct {
	source string
	keys   int    // how many it touches for each lock, besides the abandoned numbers
	run    [2]any // the beginning of the command that runs it by its digest, made once
}

func newScript(keys int, parts ...string) *script {
	last := len(parts) - 1
	source := lua.With(parts[last], append([]string{lua.Prelude}, parts[:last]...)...)
	return &script{source, keys, [2]any{"evalsha", redis.NewScript(source).Hash()}}
}

// of returns the keys of a script, among all keys of a possession or a handle.
func (s *script) of(keys []any) []any { return keys[:min(s.keys, len(keys)-1)] }

// withAbandoned is like of, with the abandoned numbers.
func (s *script) withAbandoned(keys []any) []any {
	if len(keys) == s.keys+1 {
		return keys
	}
	return append(slices.Clip(s.of(keys)), keys[len(keys)-1])
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

// runNumber runs a script that answers a number. With an error it is -1.
func (c *Client) runNumber(ctx context.Context, s *script, keys []any, args ...any) (int64, error) {
	cmd, err := c.run(ctx, s, keys, args...)
	if err != nil {
		return -1, err
	}
	return number(cmd)
}

// number returns the number that is an answer, or -1 with an error.
func number(cmd *redis.Cmd) (int64, error) {
	n, ok := cmd.Val().(int64)
	if !ok {
		return -1, fmt.Errorf("%w: %T for a number", errReply, cmd.Val())
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
