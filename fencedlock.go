package rlock

var fencedKind = &kind{
	family:   plainFamily,
	acquire:  fencedAcquire,
	count:    lockCount,
	release:  lockRelease,
	renew:    lockRenew,
	force:    lockForce,
	inspect:  lockInspect,
	handOver: fencedHandOver,
	keys:     []string{"redisson_lock_token"},
	channel:  "redisson_lock__channel",
}

// NewFencedLock returns a handle on the reentrant lock of that name whose every outermost acquisition bears a token that
// is greater than all before it: [Hold.Token]. A resource that remembers the greatest token it has seen, and refuses
// lower ones, is safe from a holder that lost the lock and does not know yet. It ports getFencedLock, and
// lockAndGetToken.
//
// Tokens are drawn from the clock of Redis, in microseconds since 1970, so they keep growing through a failover that lost
// the latest ones: they need 64 bits. A re-entry has the token of the acquisition that it re-enters; that is 0 if the
// owner took the name through a handle of another kind.
func (c *Client) NewFencedLock(name string, opts ...LockOption) *Lock {
	return c.newLock(fencedKind, name, opts)
}
