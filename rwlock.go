package rlock

var readKind = &kind{
	family:  rwFamily,
	side:    readSide,
	acquire: readAcquire,
	count:   readCount,
	release: readRelease,
	renew:   readRenew,
	force:   readForce,
	inspect: readInspect,
	holdKey: ":rwlock_timeout:1",
	channel: "redisson_rwlock",
}

var writeKind = &kind{
	family:      rwFamily,
	side:        mainSide,
	acquire:     writeAcquire,
	count:       lockCount,
	release:     writeRelease,
	renew:       lockRenew,
	force:       writeForce,
	inspect:     writeInspect,
	handOver:    lockHandOver,
	lazy:        true,
	fieldSuffix: ":write",
	channel:     "redisson_rwlock",
	noUpgrade:   true,
	messages:    2,
}

// RWLock is a pair of handles on one read-write lock: many owners may read, or one may write. It is made by
// [Client.NewRWLock], and is safe for concurrent use. New readers are let in while a writer waits, but not past one that
// waits in the same process.
type RWLock struct {
	read, write *Lock
}

// NewRWLock returns handles on the read-write lock of that name. It ports getReadWriteLock.
//
// An owner that writes may take the read lock too, and go on reading when it has unlocked the write lock; that needs an
// owner made by [WithOwner], because what is locked with the context of a hold ends with the hold. An owner that reads
// cannot take the write lock: it gets [ErrUpgrade].
func (c *Client) NewRWLock(name string, opts ...LockOption) *RWLock {
	return &RWLock{read: c.newLock(readKind, name, opts), write: c.newLock(writeKind, name, opts)}
}

// ReadLock returns the handle on the read lock, the same at every call. It ports readLock, and locks nothing itself.
func (rw *RWLock) ReadLock() *Lock {
	if rw == nil {
		return nil
	}
	return rw.read
}

// WriteLock returns the handle on the write lock, the same at every call. It ports writeLock, and locks nothing itself.
func (rw *RWLock) WriteLock() *Lock {
	if rw == nil {
		return nil
	}
	return rw.write
}
