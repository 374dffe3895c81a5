// Package handles has the handles of all kinds as one type, for tests that treat them alike. The library exports none.
package handles

import (
	"context"

	"github.com/go-rlock/rlock"
)

// Any is a [rlock.Lock], a [rlock.Semaphore], a [rlock.MultiLock] or a [rlock.RedLock].
type Any interface {
	Acquire(ctx context.Context, opts ...rlock.AcquireOption) (*rlock.Hold, error)
	TryAcquire(ctx context.Context, opts ...rlock.AcquireOption) (*rlock.Hold, error)
	Do(ctx context.Context, fn func(context.Context) error, opts ...rlock.AcquireOption) error
	TryDo(ctx context.Context, fn func(context.Context) error, opts ...rlock.AcquireOption) (ran bool, err error)
}

// HoldFrom is [rlock.HoldFrom].
func HoldFrom(ctx context.Context, of Any) (*rlock.Hold, bool) {
	switch of := of.(type) {
	case *rlock.Lock:
		return rlock.HoldFrom(ctx, of)
	case *rlock.Semaphore:
		return rlock.HoldFrom(ctx, of)
	case *rlock.MultiLock:
		return rlock.HoldFrom(ctx, of)
	case *rlock.RedLock:
		return rlock.HoldFrom(ctx, of)
	}
	return rlock.HoldFrom(ctx, nil)
}

// DoValue is [rlock.DoValue].
func DoValue[T any](ctx context.Context, of Any, fn func(context.Context) (T, error), opts ...rlock.AcquireOption) (T, error) {
	switch of := of.(type) {
	case *rlock.Lock:
		return rlock.DoValue(ctx, of, fn, opts...)
	case *rlock.Semaphore:
		return rlock.DoValue(ctx, of, fn, opts...)
	case *rlock.MultiLock:
		return rlock.DoValue(ctx, of, fn, opts...)
	case *rlock.RedLock:
		return rlock.DoValue(ctx, of, fn, opts...)
	}
	return rlock.DoValue(ctx, nil, fn, opts...)
}
