package rlock

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/goredis"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// Client makes locks on one Redis deployment and keeps them alive. A process needs one Client per deployment. A Client is safe for
// concurrent use.
type Client struct {
	client *client.Client
	prefix string // of names in Redis
}

// New fails only for an option or a redis client that cannot work, and sends nothing: an error is a mistake in the program. It returns a
// client that locks through rdb: a [redis.Client], which may be one of Sentinel's, or a [redis.ClusterClient]. Either may be in a struct
// that embeds it, or has a method Unwrap() redis.UniversalClient. It may add a hook to rdb, see [WithCommandTimeout].
//
// The error is [ErrInvalidOption] for an option that cannot work, for a nil rdb, for a cluster client without a ReadTimeout, and for a
// [redis.Ring], which moves names to another server when one fails: two owners could hold one lock.
//
// rdb stays the caller's: [Client.Close] does not close it, and sends releases through it, so close rdb after that. Renewals need a
// connection of rdb's pool. Do not share a pool that blocking commands of the application may exhaust.
func New(rdb redis.UniversalClient, opts ...Option) (*Client, error) {
	return newClient(opts, func(cfg driver.Config) (driver.Driver, error) { return goredis.New(rdb, cfg) })
}

// The modules that bring another driver make their clients by this.
var _ = driver.Provide(func(open driver.Open, options any) (any, error) {
	opts, _ := options.([]Option)
	return newClient(opts, open)
})

// newClient returns a client on the driver that open makes.
func newClient(opts []Option, open driver.Open) (*Client, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	d, err := open(driver.Config{CommandTimeout: s.Table.CommandTimeout, Batches: s.Table.Crowd >= 0, Acks: s.Acks != 0})
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("rlock: make a client id: %w", err)
	}
	s.Table.ClientID = id.String()
	c := &Client{prefix: s.prefix}
	s.Client = c
	s.IdentityKey = func(clientID string) string { return s.prefix + wire.ClientKey(clientID) }
	c.client = client.New(s.Config, d)
	c.client.Reports().Begins(c)
	return c, nil
}

// inRedis returns the name in Redis of a lock. An empty name stays empty: it is refused.
func (c *Client) inRedis(name string) string {
	if name == "" {
		return ""
	}
	return c.prefix + name
}

// ID returns the random UUID that begins the holder field of every lock that this client holds.
func (c *Client) ID() string {
	if c == nil || c.client == nil {
		return ""
	}
	return c.client.Config().Table.ClientID
}

// Close stops the client. Methods that wait return [ErrClosed], renewals stop, and every [Hold.Context] ends with cause ErrClosed. Close
// waits for commands in flight and background releases, for at most the command timeout.
//
// It releases no lock, because the critical sections that hold them may still run; they can unlock. To let them finish first, use
// [Client.Shutdown]. The redis client stays open. Close returns nil, and may be called again.
func (c *Client) Close() error {
	if c != nil && c.client != nil {
		c.client.Close()
	}
	return nil
}

// Shutdown ends the client in good order, for a process that is about to exit. From the call on, methods that wait or acquire return
// [ErrClosed], and every [Hold.Context] ends with cause ErrClosed, which tells the critical sections to wind up. The locks stay held, and
// are renewed, until they are unlocked; [Hold.Err] stays nil. Unlocks, queries, [Hold.Extend] and re-entries still work, with a context
// that has not ended.
//
// Shutdown waits until every lock is unlocked, then closes the client and returns nil. It does not wait for locks that are lost. A server
// first stops accepting requests and lets them finish ([net/http.Server.Shutdown]); Shutdown follows.
//
// If ctx ends first, Shutdown closes the client, which takes up to the command timeout more, and returns the error and the cause of ctx; the
// text names locks that were left. If the client was closed meanwhile, it returns ErrClosed. With a context that carries a hold of this
// client, it would wait for its own caller: it returns [ErrInvalidOption] at once, and stops nothing.
func (c *Client) Shutdown(ctx context.Context) error {
	if c == nil || c.client == nil {
		return nil
	}
	return c.client.Shutdown(ctx)
}

// Stats returns what the client does at this moment, and what it has done since [New]: the package observe has the fields. It is cheap,
// sends nothing, and works after [Client.Close].
func (c *Client) Stats() observe.Stats {
	if c == nil || c.client == nil {
		return observe.Stats{}
	}
	n := c.client.Counts()
	return observe.Stats{
		Held: n.Held, Waiting: n.Waiting, InDoubt: n.InDoubt, Acquired: n.Acquired, HandOvers: n.HandOvers,
		Renewals: n.Renewals, RenewalFailures: n.RenewalFailures, Losses: n.Losses,
		DroppedReports: c.client.Reports().Dropped(),
	}
}
