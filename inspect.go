package rlock

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// LockInfo describes the holders and the waiters of a lock in Redis at one moment. They may have changed since, so no decision should rest
// on it.
type LockInfo struct {
	// Name is the name of the lock, before any prefix or mapper.
	Name string
	// Time is when Redis was asked, by Redis's clock.
	Time time.Time
	// Lease is how long the lock is held at most, unless it is renewed: for a read-write lock, by the longest hold of either side. It is
	// 0 if nobody holds the lock, and negative for a lock without a lease, which neither rlock nor Redisson makes.
	Lease time.Duration
	// Holders are the holders, at most 100 of them, in no order. HolderCount is how many there are. Both include expired readers.
	Holders     []HolderInfo
	HolderCount int
	// Waiters are, in order, the queue of a fair lock with an entry for each call that waits, or the line of another lock with an entry
	// for each process that waits. They are at most 100, and WaiterCount is how many there are. Waiters that died are among them until
	// it is their turn. Redisson's waiters for locks that are not fair, and all waiters for spin locks, are not listed. Neither are any
	// if Redis does not let the user read them.
	Waiters     []WaiterInfo
	WaiterCount int
	// Token is the latest fencing token of a fenced lock, or 0. Its holder may have released the lock since.
	Token Token
}

// HolderInfo describes one holder of a lock.
type HolderInfo struct {
	// Holder is the field of the holder in Redis: the id of its client, a number (or the id of a thread, if it is Redisson's), and for a
	// writer ":write". Do not log it: whoever knows it and may write to the key can free the lock.
	Holder string
	// Client is the id of the client: that of [Client.ID], or Redisson's. Own means that it is the client that called Inspect.
	Client string
	Own    bool
	// Mode is read or write, or empty for a lock without sides.
	Mode string
	// Acquisitions is how many acquisitions are not yet unlocked: 1, and the re-entries. Kept means that there is none: the client has
	// unlocked it, and [AtLeast] keeps it taken until its lease ends.
	Acquisitions int
	Kept         bool
	// Lease is what remains of its lease, unless it is renewed. Expired means that it is a reader that did not renew its hold: it does
	// not hold the lock any more, although its field is still there.
	Lease   time.Duration
	Expired bool
	// Identity describes the client: see [WithIdentity]. It is nil for Redisson, for rlock without an identity, for an identity that has
	// expired, and if Redis did not answer in time.
	Identity *Identity
}

// WaiterInfo describes one waiter for a lock.
type WaiterInfo struct {
	// Client is the id of its client. Own means that it is the client that called Inspect.
	Client string
	Own    bool
	// Since is when it joined the line, by Redis's clock. It is the zero time for a fair lock, whose queue has an order and no times.
	Since time.Time
	// Redisson means that it is Redisson's, and not rlock's.
	Redisson bool
	// Identity is as in [HolderInfo].
	Identity *Identity
}

// Inspect returns who holds the lock and who waits for it. Of a read-write lock, either side shows the holders of both. It asks the
// master, and reads no more than 100 holders and 100 waiters, whatever is in Redis.
//
// The identities are read after that, one by one, until ctx ends: a missing one fails nothing. So Inspect takes a round trip, and one for
// each client that holds or waits. It does not work for groups, semaphores and latches.
//
// It returns the errors of [Lock.IsLocked]. If ctx ends before Redis has answered, the error is that of ctx, joined with its cause.
func (l *Lock) Inspect(ctx context.Context) (LockInfo, error) {
	seen, err := l.in().Inspect(ctx)
	if err != nil {
		return LockInfo{}, err
	}
	own := l.l.Client().Config().Table.ClientID
	info := LockInfo{
		Name: l.Name(), Time: time.UnixMicro(seen.At), Lease: wire.Lease(seen.Millis), Token: Token(seen.Token),
		HolderCount: int(seen.Held), WaiterCount: int(seen.Waiting),
	}
	for _, h := range seen.Holders {
		client := wire.Client(h.Field)
		info.Holders = append(info.Holders, HolderInfo{
			Holder: h.Field, Client: client, Own: client == own, Mode: h.Role, Acquisitions: int(h.Count),
			Kept: h.Kept(), Lease: wire.Lease(h.Millis), Expired: h.Role == "read" && h.Millis == wire.NoKey,
			Identity: identityOf(seen.Identities[client]),
		})
	}
	for _, w := range seen.Waiters {
		client := wire.Client(w.Field)
		waiter := WaiterInfo{Client: client, Own: client == own, Redisson: !w.Ours, Identity: identityOf(seen.Identities[client])}
		if w.Since > 0 {
			waiter.Since = time.UnixMicro(w.Since)
		}
		info.Waiters = append(info.Waiters, waiter)
	}
	return info, nil
}
