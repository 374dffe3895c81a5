package unlock

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock"
)

func pay(ctx context.Context) error { return nil }

func statement(ctx context.Context, lock *rlock.Lock) error {
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	if err := pay(ctx); err != nil {
		lock.Unlock(ctx) // there is an error already
		return err
	}
	lock.Unlock(ctx) // want `^the error of Unlock is dropped before success is returned: it alone says that the lock was lost; check it for rlock.ErrLost, or use Do$`
	return nil
}

type shop struct{ lock *rlock.Lock }

func (s *shop) leased(ctx context.Context) (int, error) {
	ok, err := s.lock.TryLock(ctx, rlock.Wait(time.Second), rlock.Lease(10*time.Second))
	if !ok || err != nil {
		return 0, err
	}
	if err := pay(ctx); err != nil {
		_ = s.lock.Unlock(ctx)
		return 0, err
	}
	_ = s.lock.Unlock(ctx) // want `the error of Unlock is dropped`
	return 42, nil
}

func hold(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	err = pay(ctx)
	if err == nil {
		hold.Unlock(ctx) // want `the error of Unlock is dropped`
		return nil
	}
	return errors.Join(err, hold.Unlock(ctx))
}

func literal(ctx context.Context, lock *rlock.Lock) func() error {
	return func() error {
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		_ = pay(ctx)
		lock.Unlock(ctx) // want `the error of Unlock is dropped`
		return nil
	}
}

// From here on, all is as it should be.

func deferred(ctx context.Context, lock *rlock.Lock) error {
	if err := lock.Lock(ctx, rlock.Lease(time.Second)); err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	defer func() { _ = lock.Unlock(ctx) }()
	return nil
}

func explicit(ctx context.Context, lock *rlock.Lock, opts ...rlock.AcquireOption) error {
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	_ = pay(ctx)
	_ = lock.Unlock(ctx) // the lock is renewed, and the program says that it does not care
	return nil
}

func checked(ctx context.Context, lock *rlock.Lock) error {
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	_ = pay(ctx)
	if err := lock.Unlock(ctx); errors.Is(err, rlock.ErrLost) {
		return err
	}
	return nil
}

func noError(ctx context.Context, lock *rlock.Lock) *shop {
	if err := lock.Lock(ctx); err != nil {
		return &shop{}
	}
	_ = pay(ctx)
	lock.Unlock(ctx)
	return nil
}

func elsewhere(ctx context.Context, lock, other *rlock.Lock) error {
	_ = other.Lock(ctx)
	_ = pay(ctx)
	lock.Unlock(ctx)
	return nil
}

func after(ctx context.Context, lock *rlock.Lock) error {
	lock.Unlock(ctx)
	return nil
}

// A hold says by itself whether it is lost.
func watched(ctx context.Context, lock *rlock.Lock) error {
	a, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	if err := pay(a.Context()); err != nil {
		return errors.Join(err, a.Unlock(ctx))
	}
	a.Unlock(ctx)
	return nil
}

func asked(ctx context.Context, lock *rlock.Lock) error {
	a, err := lock.Acquire(ctx, rlock.Lease(time.Second))
	if err != nil {
		return err
	}
	_ = pay(ctx)
	if err := a.Err(); err != nil {
		return err
	}
	_ = a.Unlock(ctx)
	return nil
}

func handedOn(ctx context.Context, lock *rlock.Lock, watch func(*rlock.Hold)) error {
	a, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	watch(a)
	a.Unlock(ctx)
	return nil
}

// A program that only waits until the lock is free has nothing to lose.
func barrier(ctx context.Context, lock *rlock.Lock) error {
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	lock.Unlock(ctx)
	return nil
}

func unknownOptions(ctx context.Context, lock *rlock.Lock, opts ...rlock.AcquireOption) error {
	if err := lock.Lock(ctx, opts...); err != nil {
		return err
	}
	_ = pay(ctx)
	lock.Unlock(ctx)
	return nil
}

// The resource refuses late writes.
func fenced(ctx context.Context, lock *rlock.Lock, write func(rlock.Token)) error {
	a, err := lock.Acquire(ctx, rlock.Lease(time.Second))
	if err != nil {
		return err
	}
	write(a.Token())
	_ = a.Unlock(ctx)
	return nil
}

func another(ctx context.Context, lock, other *rlock.Lock) error {
	current := lock
	if err := current.Lock(ctx); err != nil {
		return err
	}
	_ = pay(ctx)
	current = other
	current.Unlock(ctx)
	return nil
}
