// Package catalog finds the locks and semaphores that are in Redis, of rlock and of Redisson, without being told their names. It shows
// one of them, and frees one.
//
// Redis has no list of locks, so the catalog recognizes their keys. A lock is a hash whose fields look like holders. A semaphore is a
// counter beside a sorted set of permits that are out. What Redis does not say, the catalog cannot show: a fair lock for which nobody
// waits looks like any other lock, and a semaphore of which no permit is out, a plain semaphore and a latch look like any other counter, so
// they are not listed. All commands only read, and none is a script: users with the rights +@read and +@connection may look.
package catalog

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/wire"
)

// Kind is what a row is, by the name that observers get of it: see [observe.AcquireStart]. A spin lock has that of a lock, which it
// looks like. A lock has that of a fenced one from its first token on.
type Kind string

// The kinds.
var (
	Lock        = kind(wire.Plain)
	Fenced      = kind(wire.Fenced)
	Fair        = kind(wire.Fair)
	FencedFair  = kind(wire.FencedFair)
	Read        = kind(wire.Read)
	Write       = kind(wire.Write)
	FencedWrite = kind(wire.FencedWrite)
	Semaphore   = kind(wire.Permit)
)

// Counter is a number that may be a latch, a plain semaphore, or a semaphore of which no permit is out. It is in no list, because any other
// number looks like it.
const Counter Kind = "counter"

// Kinds returns what a row in a list can be.
func Kinds() (all []string) {
	for _, k := range []Kind{Lock, Fenced, Fair, FencedFair, Read, Write, FencedWrite, Semaphore} {
		all = append(all, string(k))
	}
	return all
}

// Overlap is the warning for an operator who frees a lock. The interval is a third of the lease, which is 30 s unless the services say otherwise.
const Overlap = "The holder is not stopped. It works on until its next renewal, up to 10 s, and both may run until then."

func kind(k *wire.Kind) Kind { return Kind(k.Name()) }

// Row is what Redis has of one lock or semaphore at one moment.
type Row struct {
	Name string
	Kind Kind
	// Mode is read or write for a read-write lock, and empty for all others.
	Mode string
	// Holder is one of the holders, by which it can be freed: the field of a lock's holder, or the id of a permit. It is empty if there is
	// none. Holders is how many there are.
	Holder  string
	Holders int
	// Kept means that the holder has unlocked the lock, which stays taken until its lease ends: see [rlock.AtLeast].
	Kept bool
	// Waiters is how many wait, as far as Redis knows them: see [rlock.LockInfo], and [Row.Waiting] for what they are. It is -1 for a counter
	// if the user may not ask who listens.
	Waiters int
	// Processes is how many processes the waiters are of, or 0 if that is not known: of a fair lock with more than 100 of them.
	Processes int
	// Lease is what remains of the lease: of a semaphore, of the permit whose lease ends first. It is negative without a lease.
	Lease time.Duration
	// Token is the latest fencing token, or 0.
	Token rlock.Token
	// Free is how many permits of a semaphore are free, or the value of a counter.
	Free int
	// Client is the id of Holder's client, and Identity what that says about itself, or nil. A permit does not tell the whole id of its
	// client.
	Client   string
	Identity *rlock.Identity
}

// Waiting returns how many calls and how many processes wait, and -1 for what is not known. Each call that waits for a fair lock has a
// place in Redis. Of all other kinds, each process has one, for the first of its calls.
func (r *Row) Waiting() (calls, processes int) {
	switch {
	case r.Waiters < 0:
		return -1, -1
	case r.Kind != Fair && r.Kind != FencedFair:
		return -1, r.Waiters
	case r.Processes == 0 && r.Waiters > 0:
		return r.Waiters, -1
	}
	return r.Waiters, r.Processes
}

// owner returns what [wire.ClientKey] takes for the client of the holder.
func (r *Row) owner() string {
	if r.Client == "" {
		return r.Holder // a permit
	}
	return r.Client
}

// Details is all that Redis has of one lock, semaphore or counter.
type Details struct {
	Row
	// At is when Redis was asked, by its clock.
	At time.Time
	// HolderList are at most 100 of the holders, or of the permits of a semaphore that are out, the one whose lease ends first at first. A
	// permit is a Holder without a Client.
	HolderList []rlock.HolderInfo
	// WaiterList are at most 100 of the waiters, the first one first.
	WaiterList []rlock.WaiterInfo
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
