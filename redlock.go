package rlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// RedLock is one lock on several independent Redis masters: it is held while a majority of them says so, and so outlives
// the failure of the others. It is made by [NewRedLock], holds nothing by itself, and is safe for concurrent use.
//
// It follows the Redlock algorithm. All members are asked side by side, each for a short time (a thirtieth of the lease,
// 50 ms at least), and the lock is acquired when a majority has granted it and its leases still run; else it is released
// everywhere, also where no answer came. [Hold.Deadline] is the moment until which a majority is guaranteed. Without
// [Lease] every member is renewed, and members that were not acquired, or lost the lock because they were restarted, are
// asked again every third of a lease; but once the majority was lost, or may have been between two renewals, the hold is
// lost for good.
type RedLock struct {
	group *group
}

var _ Locker = (*RedLock)(nil)

// NewRedLock returns a handle on the majority of the locks, each of which must be on a Redis of its own that shares
// nothing with the others, no replication either; an odd number of them is best. It ports RedissonRedLock. It does not
// fail: no lock, a nil one, or the same one twice, is reported by the first verb, with [ErrInvalidOption].
func NewRedLock(locks ...Locker) *RedLock {
	g := newGroup("red lock", slices.Clone(locks))
	g.need = len(locks)/2 + 1
	seen := make(map[lockKey]bool)
	for _, l := range g.all {
		if seen[l.key()] {
			g.err = fmt.Errorf("%w: a red lock has the lock %s twice, which would count twice", ErrInvalidOption, quote(l.name))
		}
		seen[l.key()] = true
	}
	g.take = (*groupRequest).takeMajority
	return &RedLock{g}
}

// QuorumError tells of an acquisition or a release of a [RedLock] for which too few members could be had. It matches,
// with [errors.Is], what the errors of its members match.
type QuorumError struct {
	Need   int     // how many members are needed
	Errors []error // of each member, in the order in which they were given; nil: it is none of those that failed
}

// Error names each member that failed, and why.
func (e *QuorumError) Error() string {
	var failed []string
	for _, err := range e.Errors {
		if err != nil {
			failed = append(failed, err.Error())
		}
	}
	return fmt.Sprintf("rlock: %d of %d members failed, %d are needed: %s",
		len(failed), len(e.Errors), e.Need, strings.Join(failed, "; "))
}

// Unwrap returns the errors of the members that failed.
func (e *QuorumError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errors), func(err error) bool { return err == nil })
}

func (r *RedLock) of() *group {
	if r == nil {
		return nil
	}
	return r.group
}

// Lock is [Lock.Lock] for a majority of the members: it waits until the context's owner holds one. After an error nothing
// is held, and what was or may yet be granted is released. Errors are those of [Lock.Lock], with a [*QuorumError] that
// names the members; members that could not be asked make it no [ErrNotAcquired] unless enough others refused.
//
// When neither an owner nor a hold of a member is in ctx, all members are asked for one owner that is made for it.
func (r *RedLock) Lock(ctx context.Context, opts ...AcquireOption) error {
	return lock(ctx, r, opts)
}

// TryLock is [RedLock.Lock] with a [Wait] of 0 unless another is given. It returns false and nil when so many members are
// held by another owner that there is no majority.
func (r *RedLock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	return tryLock(ctx, r, opts)
}

// Unlock settles one Lock or TryLock, as [Lock.Unlock] does. It unlocks all members, and returns nil when a majority was
// unlocked, and else a [*QuorumError].
func (r *RedLock) Unlock(ctx context.Context) error { return r.of().unlock(ctx) }

// Do is [Lock.Do] for a majority of the members.
func (r *RedLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, r, fn, opts)
}

// Acquire is [RedLock.Lock], and returns the acquisition as a value. Its context re-enters every member.
func (r *RedLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, r, acquisition{op: "acquire", byHold: true}, opts)
}

// TryAcquire is [RedLock.Acquire] with a [Wait] of 0 unless another is given. When so many members are held by another
// owner that there is no majority the error is [ErrNotAcquired].
func (r *RedLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, r, acquisition{op: "try acquire", byHold: true, try: true}, opts)
}

func (r *RedLock) take(ctx context.Context, a acquisition, opts []AcquireOption) (holding, error) {
	return r.of().takeOne(ctx, a, opts)
}

func (r *RedLock) leaves() []*Lock { return r.of().leaves() }

func (r *RedLock) warn(message string, err error) { r.of().warn(message, err) }
