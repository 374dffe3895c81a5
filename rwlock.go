package rlock

import (
	"fmt"

	"github.com/go-rlock/rlock/internal/wire"
)

// RWLock is a read-write lock: many owners may read, or one may write. It is made by [Client.NewRWLock], and safe for concurrent use. New
// readers may acquire while a writer waits in another process; with [WriterPreference] they pass none, and within a process they never do.
// So do not read twice without an owner: while a writer waits, the second call waits for it, and it waits for the first one.
type RWLock struct{ read, write *Lock }

// NewRWLock returns handles on the read-write lock of that name. The options are those of both sides, except that [Fenced] applies to the
// write side only.
//
// A writer may also take the read lock, and keep it after it releases the write lock: lock both sides with one context made by
// [WithOwner]. An owner that holds the read lock cannot take the write lock: it gets [ErrUpgrade].
func (c *Client) NewRWLock(name string, opts ...LockOption) *RWLock {
	return &RWLock{read: c.newLock(wire.Read, name, opts), write: c.newLock(wire.Write, name, opts)}
}

// Reader returns the handle on the read lock, the same at every call.
func (rw *RWLock) Reader() *Lock {
	if rw == nil {
		return nil
	}
	return rw.read
}

// Writer returns the handle on the write lock, the same at every call.
func (rw *RWLock) Writer() *Lock {
	if rw == nil {
		return nil
	}
	return rw.write
}

// String implements [fmt.Stringer]: the kind and the name.
func (rw *RWLock) String() string { return rw.Reader().in().Text("read-write lock") }

// WriterPreference makes readers wait while a writer of any process waits, as [sync.RWMutex] does. Readers that wait when the writer
// unlocks read together before the next writer. Without it, a writer waits until nobody reads.
//
// Use it for all handles of a name. Readers of Redisson pass the writers that wait, and nobody waits for Redisson's writers.
func WriterPreference() LockOption {
	return lockOption(func(h *handle) error {
		if h.Kind.Family != wire.RWFamily {
			return fmt.Errorf("%w: WriterPreference is for read-write locks", ErrInvalidOption)
		}
		h.Yields = h.Kind.Side == wire.ReadSide
		return nil
	})
}
