package rlock

import (
	"context"
	"fmt"
	"sync/atomic"
)

// ShardedPubSub says how releases are announced on a Redis Cluster, see [WithShardedPubSub].
type ShardedPubSub uint8

// The modes of sharded pub/sub. They are Redisson's.
const (
	Auto ShardedPubSub = iota // as the cluster can: sharded from Redis 7 on
	On                        // sharded
	Off                       // not sharded
)

// WithShardedPubSub sets whether waiters subscribe, and releases publish, on the node of the lock's slot alone
// (SSUBSCRIBE, SPUBLISH) or across the whole cluster (SUBSCRIBE, PUBLISH). Neither kind of message reaches the other kind
// of waiter, so all clients of a fleet must agree: those that do not are woken by polling alone, see
// [WithPollInterval]. The default is [Auto], as it is Redisson's. [Off] is for fleets in which Redisson is older than
// 3.22.0, or has its shardedSubscriptionMode OFF. Outside a cluster the option says nothing, and pub/sub is never sharded.
func WithShardedPubSub(mode ShardedPubSub) Option {
	return func(s *settings) error {
		if mode > Off {
			return fmt.Errorf("%w: %d is no mode of sharded pub/sub", ErrInvalidOption, mode)
		}
		s.shardedMode = mode
		return nil
	}
}

// sharding is what the cluster was found to be capable of.
type sharding struct {
	answer atomic.Int32 // notAsked, or what was answered last
	stale  atomic.Bool  // whether the nodes may be others since
}

const (
	notAsked int32 = iota
	isSharded
	isPlain
)

// sharded tells how channels are announced: notAsked when that cannot be known now. In Auto it asks the node that has a
// key, the first time and whenever the cluster has changed; meanwhile, and when there is no answer, the last one stands.
func (c *Client) sharded(ctx context.Context, key string) int32 {
	switch {
	case c.cluster == nil || c.shardedMode == Off:
		return isPlain
	case c.shardedMode == On:
		return isSharded
	}
	was := c.sharding.answer.Load()
	if was != notAsked && !c.sharding.stale.CompareAndSwap(true, false) {
		return was
	}
	node, err := c.cluster.MasterForKey(ctx, key)
	if err == nil {
		err = node.PubSubShardNumSub(ctx, "0").Err()
	}
	is := isSharded
	switch {
	case err == nil:
	case replied(err) && !c.transient(err):
		is = isPlain
	default:
		c.sharding.stale.Store(true)
		return was
	}
	if c.sharding.answer.Swap(is) != is && was != notAsked {
		c.pubsub.reroute()
	}
	return is
}

// publisher returns how scripts announce what they do with a lock: the command, or BOTH while it is not known which one
// reaches the waiters.
func (l *Lock) publisher(ctx context.Context) any {
	if l.channel == "" {
		return "PUBLISH"
	}
	return [...]any{notAsked: "BOTH", isSharded: "SPUBLISH", isPlain: "PUBLISH"}[l.client.sharded(ctx, l.nameKey.name)]
}
