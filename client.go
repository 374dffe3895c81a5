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
)

// Client makes locks on one Redis deployment and keeps them alive. A process needs one Client per deployment. All locks of a
// client share one goroutine that renews them. While an owner waits, they also share one subscription connection; with
// sharded pub/sub, they share one per node. A Client is safe for concurrent use. It ports RedissonClient, as far as locks
// are concerned.
type Client struct {
	client  *client.Client
	mapName func(name string) string
}

// New returns a client that locks through rdb: a [redis.Client], which may be one of Sentinel's, or a [redis.ClusterClient].
// Either may be in a struct that embeds it, or has a method Unwrap() redis.UniversalClient. New sends nothing. It may add a hook to
// rdb, see [WithCommandTimeout].
//
// The error is [ErrInvalidOption] for an option that cannot work, for a nil rdb, for a cluster client without a ReadTimeout,
// and for a [redis.Ring]. When a server fails, a Ring moves its names to another server. Two owners could then hold one
// lock.
//
// rdb stays the caller's: [Client.Close] does not close it. Close rdb after that: Close still sends releases through it, and otherwise waits for
// them in vain. Renewals need a connection of rdb's pool. Do not share a pool that blocking commands of the application may exhaust.
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
	d, err := open(driver.Config{CommandTimeout: s.Table.CommandTimeout, Batches: s.Crowd >= 0, Acks: s.Acks != 0})
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("rlock: make a client id: %w", err)
	}
	s.Table.ClientID = id.String()
	c := &Client{mapName: s.mapName}
	s.Client = c
	s.IdentityKey = func(clientID string) string { return s.mapName(wire.ClientKey(clientID)) }
	c.client = client.New(s.Config, d)
	c.client.Reports().Begins(c)
	return c, nil
}

// ID returns the random UUID that begins the holder field of every lock that this client holds. A nil client has none.
func (c *Client) ID() string {
	if c == nil || c.client == nil {
		return ""
	}
	return c.client.Config().Table.ClientID
}

// Close stops the client. Methods that wait return [ErrClosed], renewals stop, and every [Hold.Context] ends with cause
// ErrClosed. Close waits for commands in flight, and for background releases, for at most the command timeout.
//
// It releases no lock, because the critical sections that hold them may still run. They can unlock. A lock that they do not
// unlock becomes free when its lease ends: to let the sections finish first, use [Client.Shutdown]. The redis client stays
// open. Calling Close again does nothing. It returns nil.
func (c *Client) Close() error {
	if c != nil && c.client != nil {
		c.client.Close()
	}
	return nil
}

// Shutdown ends the client in good order, for a process that is about to exit. From the call on, methods that wait or acquire
// return [ErrClosed]. Every [Hold.Context] ends with cause ErrClosed, which tells the critical sections to wind up. The locks
// stay held, and are renewed, until they are unlocked. [Hold.Err] remains nil and [Hold.Done] open, so a section can ask
// whether the lock is still its own. Unlocks and queries work, and so does [Hold.Extend]. An owner that holds a lock can still
// re-enter it. Extend and a re-entry need a context that has not ended, such as [context.WithoutCancel] of the hold's context.
//
// A server first stops accepting requests, and lets them finish ([net/http.Server.Shutdown]). They still get the locks that they
// wait for. Shutdown follows when they are over, or when there is no more time for them.
//
// Shutdown waits until every lock is unlocked, also the members of groups. It then closes the client, waits as [Client.Close]
// does, and returns nil. It does not wait for locks that are lost, or that the program can no longer unlock.
//
// If ctx ends first, Shutdown closes the client, waits as [Client.Close] does, and returns the error and the cause of ctx. If
// Redis does not answer, it therefore returns up to the command timeout after the end of ctx. The text of the error has the number
// of acquisitions that were left, and names of their locks. Each member of a group counts. The locks become free when
// they are unlocked, or when their leases end.
//
// Several calls wait for the same end. The first context that ends closes the client for all of them. The others return
// ErrClosed with that number, as they do if Close is called meanwhile. On a closed or nil client, Shutdown returns nil.
//
// With a context that carries a hold of this client, Shutdown would wait for its own caller. It returns [ErrInvalidOption] at
// once, and stops nothing. With any other context, a call from within a critical section waits until that context ends.
func (c *Client) Shutdown(ctx context.Context) error {
	if c == nil || c.client == nil {
		return nil
	}
	return c.client.Shutdown(ctx)
}

// Stats is what a [Client] does at one moment, and what it has done since [New]. It counts locks: a group counts as its
// members, and a lock that its owner has re-entered counts once.
type Stats struct {
	// Held is how many locks are held. It is 0 once the client is closed.
	Held int
	// Waiting is how many calls wait for a lock after a first attempt failed, or behind another call of this client. A call
	// for a multi lock counts while it waits for a member, and one for a red lock at the client of the first member. Calls
	// that await a count-down latch count, too.
	Waiting int
	// InDoubt is how many locks Redis may hold for this client although no caller has them. An acquisition or a release of
	// them went unanswered, or the lock was lost. rlock releases them in the background.
	InDoubt int

	// Acquired counts the locks that were acquired, without re-entries.
	Acquired uint64
	// HandOvers counts the acquired locks that another owner of this client handed over.
	HandOvers uint64
	// Renewals counts the renewals that Redis confirmed, one for each lock.
	Renewals uint64
	// RenewalFailures counts the renewals without a reply, or with an error as the reply. rlock tries them again.
	RenewalFailures uint64
	// Losses counts the locks that were over before their last unlock. A lock that was taken with [Lease] and ran out is one
	// of them.
	Losses uint64
	// DroppedReports counts the calls of observers that were dropped because the observers were too slow: see [Observer].
	DroppedReports uint64
}

// Stats returns a snapshot of one moment. It is cheap enough to be called each second, sends nothing, and works after
// [Client.Close]. A nil client has done nothing. To check whether Redis answers, call [Lock.IsLocked] with a
// deadline.
func (c *Client) Stats() Stats {
	if c == nil || c.client == nil {
		return Stats{}
	}
	n := c.client.Table().Counts()
	return Stats{
		Held: n.Held, Waiting: n.Waiting, InDoubt: n.InDoubt, Acquired: n.Acquired, HandOvers: n.HandOvers,
		Renewals: n.Renewals, RenewalFailures: n.RenewalFailures, Losses: n.Losses,
		DroppedReports: c.client.Reports().Dropped(),
	}
}
