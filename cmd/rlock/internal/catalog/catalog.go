// Package catalog finds the locks and semaphores that are in Redis, of rlock and of Redisson, without being told their names. It shows
// one of them, and frees one.
//
// Redis has no list of locks, so the catalog recognizes their keys. A lock is a hash whose fields look like holders. A semaphore is a
// counter beside a sorted set of permits that are out. What Redis does not say, the catalog cannot show: a fair lock for which nobody
// waits looks like any other lock, and a semaphore of which no permit is out, a plain semaphore for which nobody waits and a latch look
// like any other counter, so they are not listed.
package catalog

import (
	"context"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/redis/go-redis/v9"
)

// Kind is what a row is. It is fit for people and for programs.
type Kind string

// The kinds.
const (
	Lock           Kind = "lock"
	Fair           Kind = "fair"
	ReadWrite      Kind = "read-write"
	Semaphore      Kind = "semaphore"
	PlainSemaphore Kind = "plain semaphore"
)

// Row is what Redis has of one lock or semaphore at one moment.
type Row struct {
	Name string
	Kind Kind
	// Mode is read or write for a read-write lock, and empty for all others.
	Mode string
	// Holder is one of the holders, by which it can be freed: the field of a lock's holder, or the id of a permit. It is empty if there is
	// none, and for a plain semaphore. Holders is how many there are.
	Holder  string
	Holders int
	// Waiters is how many wait: see [rlock.LockInfo].
	Waiters int
	// Lease is what remains of the lease: of a semaphore, of the permit whose lease ends first. It is negative without a lease.
	Lease time.Duration
	// Token is the latest fencing token, or 0.
	Token rlock.Token
	// Free is how many permits of a semaphore are free.
	Free int
	// Client is the id of Holder's client, and Identity what that says about itself, or nil. For permits there is neither.
	Client   string
	Identity *rlock.Identity
}

// Permit is a permit of a semaphore that is out.
type Permit struct {
	ID    string
	Lease time.Duration // negative without a lease
}

// Details is all that Redis has of one lock or semaphore.
type Details struct {
	Row
	// Lock has the holders and waiters of a lock. It is nil for a semaphore.
	Lock *rlock.LockInfo
	// Permits are the permits of a semaphore that are out, the one whose lease ends first at first, and at most 100 of them.
	Permits []Permit
	// Queue are the waiters for a semaphore, the first one first, and at most 100 of them.
	Queue []rlock.WaiterInfo
}

// Catalog reads one deployment of Redis. It is safe for concurrent use.
type Catalog struct {
	rdb    redis.UniversalClient
	locks  *rlock.Client
	prefix string
	within time.Duration // 0 means as long as it takes
}

// New returns a catalog. keyPrefix is what the services give to [rlock.WithKeyPrefix]: names have it in Redis alone. locks must have been
// made with it, and with rdb.
func New(rdb redis.UniversalClient, locks *rlock.Client, keyPrefix string) *Catalog {
	return &Catalog{rdb: rdb, locks: locks, prefix: keyPrefix}
}

// Within limits how long Redis may take for each question, and returns the catalog. The error is then [context.DeadlineExceeded]. Without
// it, or with 0, a question takes as long as the timeouts and the redirections of the client let it.
func (c *Catalog) Within(d time.Duration) *Catalog {
	c.within = d
	return c
}

// question returns a context for one question.
func (c *Catalog) question(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.within <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.within)
}
