package rlock

import "github.com/go-rlock/rlock/internal/wire"

// NewFairLock returns a handle on the reentrant lock of that name that serves its waiters in the order in which they asked, across all
// processes. A waiter whose process was killed is passed over at once, but may stand in the way of Redisson's waiters for a minute.
// TryLock without [Wait] does not queue, and takes the lock only if nobody waits for it. Do not use a plain and a fair lock of one name: a
// call that finds the other kind's queue fails with an error of Redis, WRONGTYPE.
func (c *Client) NewFairLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Fair, name, opts)
}
