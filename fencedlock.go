package rlock

import "github.com/go-rlock/rlock/internal/wire"

// NewFencedLock returns a handle on the reentrant lock of that name whose every outermost acquisition bears a token:
// [Hold.Token]. Each token is greater than all before it. A resource that remembers the greatest token it has seen, and
// refuses lower ones, is safe from a holder that has lost the lock without noticing. It ports getFencedLock and
// lockAndGetToken.
//
// Tokens come from the clock of Redis, in microseconds since 1970, so they keep growing through a failover that lost the
// latest ones. They need 64 bits. A re-entry has the token of the acquisition that it re-enters. That token is 0 if the
// owner took the name through a handle of another kind.
func (c *Client) NewFencedLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Fenced, name, opts)
}
