package rlock

import (
	"context"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/group"
)

// RedLock is one lock on several independent Redis masters, held while a majority of them confirms it, so it outlives the failure of the
// others. It is made by [NewRedLock], holds nothing by itself, and is safe for concurrent use.
//
// It follows the Redlock algorithm: it asks all members at once, each for a thirtieth of the lease, but at least 50 ms, and is acquired
// once a majority has granted it while those leases run. Otherwise it gives everything back, and tries again after a random pause of at
// most 250 ms. Beside processes that queue for its members it may never get a majority. A member that is lost is not taken again: once the
// majority is lost, the hold is.
type RedLock struct{ g *group.Group }

// NewRedLock returns a handle on the majority of the locks. Each must be on a Redis of its own that shares nothing with the others, not
// even replication; an odd number is best. The first method that is called reports an empty list, a nil lock, or a lock that is given
// twice, with [ErrInvalidOption].
func NewRedLock(locks ...*Lock) *RedLock { return &RedLock{group.NewRed(members(locks))} }

// in returns the implementation of the handle, or nil.
func (r *RedLock) in() *group.Group {
	if r == nil {
		return nil
	}
	return r.g
}

func (r *RedLock) member() client.Member { return r.in() }

// String implements [fmt.Stringer]: the kind and the names of the locks.
func (r *RedLock) String() string { return r.in().Text("red lock") }

// Do is [Lock.Do] for a majority of the members.
func (r *RedLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, r.in(), fn, terms("do", false, true, nil, opts))
}

// Acquire is [Lock.Acquire] for a majority of the members. [Wait] and ctx bound the wait for all of them together. After an error nothing
// is held. The hold is lost when the majority is. [Hold.Deadline] is the moment until which a majority is guaranteed.
//
// The errors are those of [Lock.Lock], and name the members that failed. The error matches [ErrNotAcquired] if so many members refused that
// the others make no majority, and [ErrUnavailable] if too many gave no usable answer. The hold's Unlock returns [ErrLost] if the majority
// was lost, and otherwise an error that names the members if too many could not be unlocked.
func (r *RedLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, r.in(), terms("acquire", false, true, nil, opts))
}

// TryAcquire is [RedLock.Acquire] with a [Wait] of 0 unless the call has another. The error is [ErrNotAcquired] if so many members refused
// that the others make no majority.
func (r *RedLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, r.in(), terms("try acquire", true, true, nil, opts))
}
