package rlock

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// LockInfo describes the holders and the waiters of a lock at one moment. They may have changed since, so do not decide by it.
type LockInfo struct {
	// Name is the name of the lock, without the prefix. Time is when Redis was asked, by its clock.
	Name string
	Time time.Time
	// Lease is the rest of the lease: 0 if nobody holds the lock, and negative if it has none.
	Lease time.Duration
	// Holders are at most 100 of the HolderCount holders, in no order, expired readers included.
	Holders     []HolderInfo
	HolderCount int
	// Waiters are, in order, at most 100 of the WaiterCount waiters: each call for a fair lock, each process for another one. Those that
	// have died stay until it is their turn. Waiters of spin locks, and Redisson's for locks that are not fair, are not known.
	Waiters     []WaiterInfo
	WaiterCount int
	// Token is the latest fencing token of a fenced lock, or 0.
	Token Token
}

// HolderInfo describes one holder of a lock.
type HolderInfo struct {
	// Holder is the holder's field in Redis. Do not log it: whoever knows it and may write to the key can free the lock.
	Holder string
	// Client is the id of the client: that of [Client.ID], or Redisson's. Own means that it is the client that called Inspect.
	Client string
	Own    bool
	// Mode is read or write, or empty for a lock without sides.
	Mode string
	// Acquisitions is how many acquisitions are not yet unlocked. Kept means that there is none, and [AtLeast] keeps the lock taken.
	Acquisitions int
	Kept         bool
	// Lease is the rest of its lease. Expired means that it is a reader that did not renew its hold, and no longer has the lock.
	Lease   time.Duration
	Expired bool
	// Identity describes the client, if it is known: see [WithIdentity].
	Identity *Identity
}

// WaiterInfo describes one waiter for a lock.
type WaiterInfo struct {
	// Client is the id of its client. Own means that it is the client that called Inspect.
	Client string
	Own    bool
	// Since is when it joined the line, by Redis's clock. It is zero for a fair lock, whose queue has no times.
	Since time.Time
	// Redisson means that it is Redisson's, and not rlock's.
	Redisson bool
	// Identity is as in [HolderInfo].
	Identity *Identity
}

// Inspect returns who holds the lock and who waits for it: at most 100 of each. Either side of a read-write lock shows the holders of
// both. It asks the master, and then reads the identities one by one until ctx ends; a missing one is no error. It does not work for
// groups, semaphores and latches, and returns the errors of [Lock.IsLocked].
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
