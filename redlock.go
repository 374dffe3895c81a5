package rlock

import (
	"context"
	"log/slog"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/group"
)

// RedLock is one lock on several independent Redis masters. It is held while a majority of them confirms it, and so outlives
// the failure of the others. It is made by [NewRedLock], holds nothing by itself, and is safe for concurrent use.
//
// It follows the Redlock algorithm. It asks all members side by side, each for a short time: a thirtieth of the lease, but at
// least 50 ms. The lock is acquired once a majority has granted it while its leases still run. Otherwise it is released
// everywhere, including where no reply came. [Hold.Deadline] is the moment until which a majority is guaranteed.
//
// After a refusal it waits for the members that it was not granted. Where processes queue, it stands in the queues of all of
// them, and holds no member meanwhile. Once one is granted, it asks the others, and waits for a majority only a moment: at
// first about 10 ms, then longer, at most a thirtieth of the lease. A hold for a fixed time may be shorter by that. If the wait
// in the queues differs by more, it may never get a majority.
//
// Without [Lease] every member is renewed. Every third of a lease, it asks the members again that were not acquired, or that
// lost the lock because they were restarted. But once the majority was lost, or may have been between two renewals, the hold
// is lost for good.
type RedLock struct{ g *group.Group }

// NewRedLock returns a handle on the majority of the locks. Each must be on a Redis of its own that shares nothing with the
// others, not even replication. An odd number of them is best. It ports RedissonRedLock. It does not fail: the first method
// that is called reports an empty list, a nil lock, or a lock that is given twice, with [ErrInvalidOption].
func NewRedLock(locks ...Locker) *RedLock {
	return &RedLock{group.NewRed(members(locks), newQuorumError)}
}

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

// LogValue returns the names of the locks and the kind, for a log line. It implements [slog.LogValuer].
func (r *RedLock) LogValue() slog.Value { return r.in().LogValue() }

// Lock is [Lock.Lock] for a majority of the members: it waits until the context's owner holds one. After an error nothing is
// held, and everything that was granted, or may still be, is released. [Wait] bounds the wait for all members together, and
// so does ctx.
//
// The errors are those of [Lock.Lock], with a [*QuorumError] that names the members. The error matches [ErrNotAcquired] if so
// many members refused that the others make no majority. It matches neither that nor [ErrUnavailable] if so many members
// failed for a reason against which waiting does not help. Otherwise it matches [ErrUnavailable].
//
// If ctx has neither an owner nor a hold of a member, the call makes an owner, for which all members are asked.
func (r *RedLock) Lock(ctx context.Context, opts ...AcquireOption) error {
	return lock(ctx, r.in(), opts)
}

// TryLock is [RedLock.Lock] with a [Wait] of 0 unless another is given. It returns false and nil if another owner holds so many
// members that there is no majority.
func (r *RedLock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	return tryLock(ctx, r.in(), opts)
}

// Unlock ends one acquisition made by Lock or TryLock, as [Lock.Unlock] does. It unlocks all members. It returns nil once so few
// are left that another owner can have a majority; the rest are unlocked in the background. It is [ErrLost] if the majority had been
// lost, or may have been: if a member turns out to have lost its data, that may have happened right after its latest renewal, and a
// member that was granted later does not count for the time before. If too many members could not be unlocked, it is a [*QuorumError].
func (r *RedLock) Unlock(ctx context.Context) error { return r.in().Unlock(ctx) }

// Do is [Lock.Do] for a majority of the members.
func (r *RedLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, r.in(), fn, terms("do", false, true, opts))
}

// Acquire is [RedLock.Lock], but returns the acquisition as a value. Its context re-enters every member.
func (r *RedLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, r.in(), terms("acquire", false, true, opts))
}

// TryAcquire is [RedLock.Acquire] with a [Wait] of 0 unless another is given. If another owner holds so many members that there
// is no majority, the error is [ErrNotAcquired].
func (r *RedLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, r.in(), terms("try acquire", true, true, opts))
}
