package rlock

import "github.com/go-rlock/rlock/internal/wire"

// NewFairLock returns a handle on the reentrant lock of that name that serves its waiters in the order in which they asked,
// across all processes. It ports getFairLock. A waiter that gives up leaves the queue. A waiter that died blocks the queue
// for the time of [WithFairWait]. TryLock without [Wait] does not queue, and takes the lock only if no other owner waits for
// it. With [Fenced], its holds have tokens.
func (c *Client) NewFairLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Fair, name, opts)
}
