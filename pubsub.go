package rlock

// WithClassicPubSub has a client of a Redis Cluster announce releases across the whole cluster (SUBSCRIBE, PUBLISH), and not on the node of
// the lock's slot alone (SSUBSCRIBE, SPUBLISH). All clients of a fleet must agree: waiters of others are not woken, and poll instead.
//
// Use it if the cluster has no sharded pub/sub, as before Redis 7, or if Java processes of the fleet have a Redisson older than 3.22.0, or
// its shardedSubscriptionMode OFF. A release then wakes all processes that wait for the lock, and not the first one alone. Outside a
// cluster the option has no effect.
func WithClassicPubSub() Option {
	return option(func(s *settings) error {
		s.Classic = true
		return nil
	})
}
