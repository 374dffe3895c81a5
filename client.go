package rlock

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver/goredis"
	"github.com/go-rlock/rlock/internal/lease"
)

// Client makes locks on one Redis deployment and keeps them alive. A process needs one Client per deployment. All locks of a
// client share one goroutine that renews them. While an owner waits, they also share one subscription connection; with
// sharded pub/sub, they share one per node. A Client is safe for concurrent use. It ports RedissonClient, as far as locks
// are concerned.
type Client struct {
	m       *lease.Manager
	mapName func(name string) string
}

// New returns a client that locks through rdb: a [redis.Client], which may be one of Sentinel's, or a [redis.ClusterClient].
// It sends nothing. It may add a hook to rdb, see [WithCommandTimeout].
//
// The error is [ErrInvalidOption] for an option that cannot work, for a nil rdb, for a cluster client without a ReadTimeout,
// and for a [redis.Ring]. When a server fails, a Ring moves its names to another server. Two owners could then hold one
// lock.
//
// rdb stays the caller's: [Client.Close] does not close it. Renewals need a connection of its pool. Do not share a pool
// that blocking commands of the application may exhaust.
func New(rdb redis.UniversalClient, opts ...Option) (*Client, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	d, err := goredis.New(rdb, goredis.Config{CommandTimeout: s.Table.CommandTimeout, Gather: s.Gather, Acks: s.Acks > 0})
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("rlock: make a client id: %w", err)
	}
	s.Table.ClientID = id.String()
	return &Client{m: lease.New(s.Config, d), mapName: s.mapName}, nil
}

// ID returns the random UUID that begins the holder field of every lock that this client holds. A nil client has none.
func (c *Client) ID() string {
	if c == nil || c.m == nil {
		return ""
	}
	return c.m.Config().Table.ClientID
}

// Close stops the client. Methods that wait return [ErrClosed], renewals stop, and every [Hold.Context] ends with cause
// ErrClosed. Close waits for commands in flight, and for background releases, for at most the command timeout.
//
// It releases no lock, because the critical sections that hold them may still run. They can unlock. A lock that they do not
// unlock becomes free when its lease ends. The redis client stays open. Calling Close again does nothing. It returns nil.
func (c *Client) Close() error {
	if c != nil && c.m != nil {
		c.m.Close()
	}
	return nil
}
