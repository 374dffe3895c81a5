package rlock

import (
	"context"
	"errors"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// acquirer is a handle whose acquisitions are holds: a [Lock], a [Semaphore], a [MultiLock] or a [RedLock].
type acquirer interface {
	Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error
	member() client.Member
}

// TryDo is [Lock.Do] with a [Wait] of 0 unless another is given: it runs fn unless another owner holds the lock. It reports
// whether fn ran. It returns false and nil if another owner holds the lock. It returns false and an error if the lock could
// not be acquired for another reason, or if ctx ended a longer wait. If fn ran, the error is that of Do.
//
// ran says more than the error can: fn may itself return the [ErrNotAcquired] of another lock.
func (l *Lock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, l.in(), fn, terms("try do", true, true, l.in(), opts))
}

// TryDo is [Lock.TryDo] for all members.
func (m *MultiLock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, m.in(), fn, terms("try do", true, true, nil, opts))
}

// TryDo is [Lock.TryDo] for a majority of the members.
func (r *RedLock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, r.in(), fn, terms("try do", true, true, nil, opts))
}

// tryDo is the TryDo of every acquirer.
func tryDo(
	ctx context.Context, m client.Member, fn func(context.Context) error, t client.Terms,
) (ran bool, err error) {
	counted := fn
	if fn != nil {
		counted = func(ctx context.Context) error {
			ran = true
			return fn(ctx)
		}
	}
	err = do(ctx, m, counted, t)
	if !ran && errors.Is(err, fault.ErrRefused) && !errors.Is(err, ErrNoPermits) {
		return false, nil
	}
	return ran, err
}
