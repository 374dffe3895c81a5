package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// recorder is a hook that keeps the latest two commands of a client.
type recorder struct{ latest [2][]string }

// DialHook changes nothing.
func (*recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing.
func (*recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook keeps the command.
func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		words := make([]string, len(cmd.Args()))
		for i, arg := range cmd.Args() {
			words[i] = fmt.Sprint(arg)
		}
		r.latest = [2][]string{r.latest[1], words}
		return next(ctx, cmd)
	}
}

var errRecorded = errors.New("rlock did not send a pair of scripts")

// checksPair is the very pair that rlock sends. It records a pair after all masters have got the scripts, and a semaphore is set up.
func checksPair(ctx context.Context, c *Cell) (p rawPair, err error) {
	r := &recorder{}
	var rdb redis.UniversalClient
	var client *rlock.Client
	lib, err := openOn(func(c Cell, options ...rlock.Option) (*rlock.Client, error) {
		if rdb, err = c.goRedis(); err != nil {
			return nil, err
		}
		rdb.AddHook(r)
		client, err = rlock.New(rdb, options...)
		return client, err
	}, rlock.WithoutAutoPipeline())(*c)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, client.Close(), rdb.Close()) }()
	names := []string{oneName, oneName}
	if c.isCluster() {
		names = slices.Insert(names, 0, lockNames(64)...) // so many have slots of each master
	}
	for _, name := range names {
		h := lib.Handle(name)
		if err := errors.Join(h.Lock(ctx), h.Unlock(ctx)); err != nil {
			return p, err
		}
	}
	for i, command := range []*rawCommand{&p.take, &p.give} {
		words := r.latest[i]
		if len(words) < 4 || words[0] != "evalsha" {
			return p, fmt.Errorf("%w: %q", errRecorded, words)
		}
		keys, err := strconv.Atoi(words[2])
		if err != nil || len(words) < 3+keys {
			return p, fmt.Errorf("%w: %q", errRecorded, words)
		}
		command.digest, command.keys, command.args = words[1], words[3:3+keys], words[3+keys:]
		command.boxed = boxed(command.args)
	}
	return p, nil
}
