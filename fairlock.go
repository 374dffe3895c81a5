package rlock

var fairKind = &kind{
	family:  fairFamily,
	acquire: fairAcquire,
	count:   lockCount,
	release: fairRelease,
	renew:   lockRenew,
	force:   fairForce,
	inspect: lockInspect,
	keys:    []string{"redisson_lock_queue", "redisson_lock_timeout"},
	channel: "redisson_lock__channel",
	queues:  true,
}

// NewFairLock returns a handle on the reentrant lock of that name that is given to those who wait in the order in which
// they asked, in whichever process. It ports getFairLock. A waiter that gives up leaves the queue; one that died blocks
// it for as long as [WithFairWait] says. TryLock without [Wait] does not queue, and takes the lock only if nobody does.
func (c *Client) NewFairLock(name string, opts ...LockOption) *Lock {
	return c.newLock(fairKind, name, opts)
}
