package rlock

import "github.com/go-rlock/rlock/internal/wire"

// NewFairLock returns a handle on the reentrant lock of that name that serves its waiters in the order in which they asked,
// across all processes, as far as Redis can reach them. It ports getFairLock. A waiter that gives up leaves the queue. A waiter
// whose process was killed is passed over at once; [WithFairWait] says for how long it may stand in the way of Redisson's
// waiters. TryLock without [Wait] does not queue, and takes the lock only if no other owner waits for it. With
// [Fenced], its holds have tokens.
func (c *Client) NewFairLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Fair, name, opts)
}
