package rlock

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/pubsub"
)

// The options of waiting, whose engine is internal/pubsub: it knows which channels are subscribed on which connection, and
// wakes the waiters.

// ShardedPubSub says how releases are announced on a Redis Cluster: see [WithShardedPubSub].
type ShardedPubSub uint8

// The modes of sharded pub/sub. They are Redisson's.
const (
	ShardedAuto ShardedPubSub = iota // as the cluster can: sharded from Redis 7 on
	ShardedOn                        // sharded
	ShardedOff                       // not sharded
)

// WithShardedPubSub sets whether waiters subscribe, and releases publish, on the node of the lock's slot alone (SSUBSCRIBE,
// SPUBLISH) or across the whole cluster (SUBSCRIBE, PUBLISH). Neither kind of message reaches the other kind of waiter, so
// all clients of a fleet must agree. Waiters of clients that do not agree are not woken, and poll instead: see
// [WithPollInterval].
//
// The default is [ShardedAuto], as it is Redisson's. [ShardedOff] is for fleets in which Redisson is older than 3.22.0, or
// has its shardedSubscriptionMode OFF. A release then wakes all processes that wait for the lock, and not the first one alone,
// because a cluster counts only the listeners of sharded channels. Outside a cluster the option has no effect, and pub/sub is
// never sharded.
func WithShardedPubSub(mode ShardedPubSub) Option {
	return func(s *settings) error {
		if mode > ShardedOff {
			return fmt.Errorf("%w: sharded pub/sub mode %d out of range [%d, %d]",
				ErrInvalidOption, mode, ShardedAuto, ShardedOff)
		}
		s.Sharded = pubsub.Mode(mode)
		return nil
	}
}

// WithPollInterval bounds how long a waiter sleeps before it tries again without a message. It is the delay after a release
// that was not announced, for example because the key was deleted by hand. The default is 5 s. The minimum is 1 ms.
func WithPollInterval(d time.Duration) Option {
	return durationOption("poll interval", d, time.Millisecond, func(s *settings) { s.Table.PollInterval = d })
}
