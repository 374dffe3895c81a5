package testkit

import (
	"context"
	"errors"

	"github.com/go-rlock/rlock"
)

// Verb is a method that acquires. Its error is nil if it acquired the lock.
type Verb func(ctx context.Context, l Locker, opts ...rlock.AcquireOption) error

// Verbs contains every method that acquires. The function of Do fails: it should not run.
var Verbs = map[string]Verb{
	"Lock": func(ctx context.Context, l Locker, opts ...rlock.AcquireOption) error { return l.Lock(ctx, opts...) },
	"TryLock": func(ctx context.Context, l Locker, opts ...rlock.AcquireOption) error {
		ok, err := l.TryLock(ctx, opts...)
		if !ok && err == nil {
			return rlock.ErrNotAcquired
		}
		return err
	},
	"Acquire": func(ctx context.Context, l Locker, opts ...rlock.AcquireOption) error {
		return Second(l.Acquire(ctx, opts...))
	},
	"TryAcquire": func(ctx context.Context, l Locker, opts ...rlock.AcquireOption) error {
		return Second(l.TryAcquire(ctx, opts...))
	},
	"Do": func(ctx context.Context, l Locker, opts ...rlock.AcquireOption) error {
		return l.Do(ctx, func(context.Context) error { return errors.New("it ran") }, opts...)
	},
}
