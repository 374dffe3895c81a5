package rlock

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
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
	asking atomic.Bool  // whether somebody asks
}

const (
	notAsked int32 = iota
	isSharded
	isPlain
)

// sharded tells how channels are announced: notAsked when that is not known yet. In Auto it has the node that has a key
// asked, the first time and whenever the cluster has changed; meanwhile, and when there is no answer, the last one stands.
// It waits for nothing, for the node may hang.
func (c *Client) sharded(key string) int32 {
	switch {
	case c.cluster == nil || c.shardedMode == Off:
		return isPlain
	case c.shardedMode == On:
		return isSharded
	}
	is := c.sharding.answer.Load()
	if (is == notAsked || c.sharding.stale.Load()) && !c.isClosed() && c.sharding.asking.CompareAndSwap(false, true) {
		c.background(func() {
			defer c.sharding.asking.Store(false)
			c.askSharded(key)
		})
	}
	return is
}

// askSharded asks one node, and has all channels rerouted if the answer is new.
func (c *Client) askSharded(key string) {
	c.sharding.stale.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), routeWithin)
	defer cancel()
	node, err := c.cluster.MasterForKey(ctx, key)
	if err == nil {
		err = node.PubSubShardNumSub(ctx, "0").Err()
	}
	is := isSharded
	switch {
	case err == nil:
	case replied(err) && !c.transient(err) && !redis.IsAuthError(err):
		is = isPlain
	default:
		c.sharding.stale.Store(true)
		return
	}
	if c.sharding.answer.Swap(is) != is {
		c.pubsub.reroute()
	}
}

// publisher returns how scripts announce what they do with a lock: the command, or BOTH while it is not known which one
// reaches the waiters.
func (l *Lock) publisher() any {
	if l.kind.channel == "" {
		return "PUBLISH"
	}
	return [...]any{notAsked: "BOTH", isSharded: "SPUBLISH", isPlain: "PUBLISH"}[l.client.sharded(l.nameKey.name)]
}
