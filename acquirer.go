package rlock

import (
	"context"
	"errors"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// Acquirer is the part of [Locker] that [HoldFrom] and [DoValue] need. All kinds of lock, and groups of them, have its
// methods. It cannot be implemented outside this package. For tests, there is the module rlocktest.
type Acquirer interface {
	Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error)
	TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error)
	Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error
	TryDo(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) (ran bool, err error)

	// member returns the implementation of the methods. It seals the interface.
	member() client.Member
}

// Locker has the methods that all kinds of lock share, and groups of locks too. It cannot be implemented outside this package. For
// tests, there is the module rlocktest.
type Locker interface {
	Acquirer
	Lock(ctx context.Context, opts ...AcquireOption) error
	TryLock(ctx context.Context, opts ...AcquireOption) (bool, error)
	Unlock(ctx context.Context) error
}

var (
	_ Locker = (*Lock)(nil)
	_ Locker = (*MultiLock)(nil)
	_ Locker = (*RedLock)(nil)
)

// TryDo is [Lock.Do] with a [Wait] of 0 unless another is given: it runs fn unless another owner holds the lock. It reports
// whether fn ran. It returns false and nil if another owner holds the lock. It returns false and an error if the lock could
// not be acquired for another reason, or if ctx ended a longer wait. If fn ran, the error is that of Do.
//
// ran says more than the error can: fn may itself return the [ErrNotAcquired] of another lock.
func (l *Lock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, l.in(), fn, opts)
}

// TryDo is [Lock.TryDo] for all members.
func (m *MultiLock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, m.in(), fn, opts)
}

// TryDo is [Lock.TryDo] for a majority of the members.
func (r *RedLock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, r.in(), fn, opts)
}

// tryDo is the TryDo of every Acquirer.
func tryDo(
	ctx context.Context, m client.Member, fn func(context.Context) error, opts []AcquireOption,
) (ran bool, err error) {
	counted := fn
	if fn != nil {
		counted = func(ctx context.Context) error {
			ran = true
			return fn(ctx)
		}
	}
	err = do(ctx, m, counted, terms("try do", true, true, opts))
	if !ran && errors.Is(err, fault.ErrRefused) && !errors.Is(err, ErrNoPermits) {
		return false, nil
	}
	return ran, err
}
