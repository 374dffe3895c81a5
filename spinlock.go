package rlock

import "time"

var spinKind = &kind{
	family:  plainFamily,
	acquire: lockAcquire,
	count:   lockCount,
	release: lockRelease,
	renew:   lockRenew,
	force:   lockForce,
	inspect: lockInspect,
	first:   time.Millisecond,
	most:    128 * time.Millisecond,
}

// NewSpinLock returns a handle on the reentrant lock of that name that uses no pub/sub: it is not announced when it is
// released, and who waits for it tries again and again, with the pauses of [Backoff]. One waiter of each process does.
// It ports getSpinLock. It excludes, and is excluded by, plain and fenced locks of the name; those who wait through one
// of these are not woken by its release, but try again at the end of the lease that they saw or after the poll interval.
func (c *Client) NewSpinLock(name string, opts ...LockOption) *Lock {
	return c.newLock(spinKind, name, opts)
}
