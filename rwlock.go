package rlock

import (
	"fmt"

	"github.com/go-rlock/rlock/internal/wire"
)

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

// WriterPreference makes readers wait while a writer of any process waits, as [sync.RWMutex] does. It is for [Client.NewRWLock]. When the
// writer unlocks, all readers that wait by then may read together, before the next writer. One that needs more than a millisecond to answer
// may miss that turn. An owner that reads may re-enter, one that writes may read. Without it, a writer waits until nobody reads.
//
// Use it for all handles of a name. Readers of Redisson, and of older versions, pass the writers that wait. If they read all the time, those
// writers starve, and readers with the option wait behind them. Nobody waits for Redisson's writers, nor without a line: see docs/line.md.
//
// Do not read twice without an owner: while a writer waits, the second call waits for it, and it waits for the first one. The same happens
// if a reader calls another process that reads the same name, and waits for its answer.
func WriterPreference() LockOption {
	return func(h *lockSettings) error {
		if h.Kind.Family != wire.RWFamily {
			return fmt.Errorf("%w: WriterPreference is for read-write locks", ErrInvalidOption)
		}
		h.Yields = h.Kind.Side == wire.ReadSide
		return nil
	}
}
