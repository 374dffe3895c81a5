package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// take runs an acquire, and waits for replicas to acknowledge it where [WithReplicaAcks] says so. The reply is -1 with
// every error but ErrNotReplicated: then the lock was granted, and must be released.
func (c *Client) take(ctx context.Context, s *script, keys []any, args ...any) (int64, error) {
	if c.acks == 0 {
		return c.runNumber(ctx, s, keys, args...)
	}
	for retries := 1; ; retries++ {
		reply, err := c.takeAcknowledged(ctx, s, keys, args...)
		if err == nil {
			return reply, nil
		}
		c.sawError(err)
		if retries == maxRedirects || !redis.HasErrorPrefix(err, "MOVED ") || c.cluster == nil {
			return reply, err
		}
		<-time.After(backoff(retries, time.Second)) // until the picture of the cluster is new
	}
}

// maxRedirects is how often an acquire is sent anew to where the slot is said to be.
const maxRedirects = 4

// takeAcknowledged sends the acquire and WAIT as one pipeline to the node that has the lock: WAIT speaks of what its own
// connection wrote, and has no key by which a cluster client could find that node.
func (c *Client) takeAcknowledged(ctx context.Context, s *script, keys []any, args ...any) (int64, error) {
	node := c.rdb
	if c.cluster != nil {
		master, err := c.cluster.MasterForKey(ctx, keys[0].(string)) //nolint:forcetypeassert // names are strings
		if err != nil {
			return -1, fmt.Errorf("%w: %w", errNotSent, err)
		}
		node = master
	}
	if plain, ok := node.(*redis.Client); ok && plain.Options().ReadTimeout < c.commandTimeout {
		node = plain.WithTimeout(c.commandTimeout) // WAIT is silent for as long as it waits
	}
	acquire, wait := c.pipeWait(ctx, node, s, false, keys, args)
	if redis.HasErrorPrefix(acquire.Err(), "NOSCRIPT") {
		acquire, wait = c.pipeWait(ctx, node, s, true, keys, args)
	}
	if err := acquire.Err(); err != nil {
		return -1, err
	}
	reply, err := number(acquire.Cmd)
	if err != nil || !granted(reply) {
		return reply, err
	}
	switch acks, err := wait.Int64(); {
	case err != nil && replied(err):
		return reply, fmt.Errorf("%w: Redis refuses WAIT: %w", ErrNotReplicated, err)
	case err != nil:
		return -1, err // it is not known, and asked again
	case acks < int64(c.acks):
		return reply, fmt.Errorf("%w: %d of %d replicas within %v", ErrNotReplicated, acks, c.acks, c.ackTimeout)
	}
	return reply, nil
}

func (c *Client) pipeWait(
	ctx context.Context, node redis.UniversalClient, s *script, full bool, keys, args []any,
) (acquire, wait once) {
	pipe := node.Pipeline()
	acquire = s.command(ctx, full, keys, args...)
	wait = once{redis.NewCmd(ctx, "wait", c.acks, millis(c.ackTimeout))}
	_ = pipe.Process(ctx, acquire) // queues; cannot fail
	_ = pipe.Process(ctx, wait)
	_, _ = pipe.Exec(ctx) // each command has its own error
	return acquire, wait
}
