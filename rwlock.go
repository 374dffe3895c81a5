package rlock

import "github.com/go-rlock/rlock/internal/wire"

// RWLock is a pair of handles on one read-write lock: many owners may read, or one may write. It is made by
// [Client.NewRWLock], and is safe for concurrent use. New readers may acquire while a writer waits, but they do not pass a
// writer that waits in the same process. With [WriterPreference] they pass none.
type RWLock struct{ read, write *Lock }

// NewRWLock returns handles on the read-write lock of that name. It ports getReadWriteLock.
//
// A writer may also take the read lock, and keep it after it releases the write lock. Lock both sides with a context made by
// [WithOwner]. The context of a hold of the write lock works too, but ends with that hold, and so do the contexts derived from
// it. An owner that holds the read lock cannot take the write lock: it gets [ErrUpgrade].
//
// The options are those of both sides, except that [Fenced] applies to the write side only.
func (c *Client) NewRWLock(name string, opts ...LockOption) *RWLock {
	return &RWLock{read: c.newLock(wire.Read, name, opts), write: c.newLock(wire.Write, name, opts)}
}

// ReadLock returns the handle on the read lock, the same at every call. It ports readLock, and locks nothing by itself.
func (rw *RWLock) ReadLock() *Lock {
	if rw == nil {
		return nil
	}
	return rw.read
}

// WriteLock returns the handle on the write lock, the same at every call. It ports writeLock, and locks nothing by itself.
func (rw *RWLock) WriteLock() *Lock {
	if rw == nil {
		return nil
	}
	return rw.write
}

// String implements [fmt.Stringer]: the kind and the name.
func (rw *RWLock) String() string { return rw.ReadLock().in().Text("read-write lock") }
