package owner

import (
	"context"
	"net/http"
	"time"

	"github.com/go-rlock/rlock"
)

// In this file, all is as it should be.

func request(w http.ResponseWriter, r *http.Request, lock, other *rlock.Lock) {
	ctx := rlock.WithOwner(r.Context())
	if err := lock.Lock(ctx); err != nil {
		return
	}
	defer lock.Unlock(ctx)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = lock.Lock(ctx)
	_ = lock.Unlock(ctx)
	_ = other.Do(ctx, work)
}

func downgrade(ctx context.Context, locks *rlock.Client) error {
	rw := locks.NewRWLock("config")
	owner := rlock.WithOwner(ctx)
	if err := rw.Writer().Lock(owner); err != nil {
		return err
	}
	if err := rw.Reader().Lock(owner); err != nil {
		return err
	}
	defer rw.Reader().Unlock(owner)
	return rw.Writer().Unlock(owner)
}

func readers(ctx context.Context, locks *rlock.Client) error {
	read := locks.NewRWLock("config").Reader()
	_ = read.Lock(ctx)
	defer read.Unlock(ctx)
	if err := read.Do(rlock.WithOwner(ctx), work); err != nil {
		return err
	}
	return read.Do(ctx, func(ctx context.Context) error {
		return read.Do(rlock.WithOwner(ctx), work)
	})
}

func unlockedBefore(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewLock("a")
	owner := rlock.WithOwner(ctx)
	_ = lock.Lock(ctx)
	_ = lock.Unlock(ctx)
	_ = lock.Lock(owner)
	defer lock.Unlock(owner)
	return lock.Do(owner, work)
}

func sameOwner(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewLock("a")
	owner := rlock.WithOwner(ctx)
	return lock.Do(owner, func(held context.Context) error {
		if err := lock.Lock(owner); err != nil {
			return err
		}
		defer lock.Unlock(held)
		return lock.Do(rlock.EnsureOwner(held), work)
	})
}

func again(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewLock("a")
	owner := rlock.WithOwner(ctx)
	_ = lock.Lock(owner)
	defer lock.Unlock(owner)
	return lock.Do(owner, work)
}

// Nobody is seen to make an owner here, and EnsureOwner keeps the one that it is given.
func notSeen(ctx, other context.Context, lock, second *rlock.Lock) {
	_ = lock.Lock(ctx)
	defer lock.Unlock(other)
	owner := rlock.WithOwner(ctx)
	_ = second.Lock(rlock.EnsureOwner(owner))
	defer second.Unlock(owner)
}

func otherLock(ctx context.Context, locks *rlock.Client) error {
	return locks.NewLock("a").Do(ctx, func(ctx context.Context) error {
		return locks.NewLock("b").Do(rlock.WithOwner(ctx), work)
	})
}

func goroutines(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewLock("a")
	return lock.Do(ctx, func(ctx context.Context) error {
		go func() {
			owner := rlock.WithOwner(ctx)
			_ = lock.Lock(owner)
			_ = lock.Unlock(owner)
		}()
		return nil
	})
}

// It depends on the branch which owner it is.
func branches(ctx context.Context, lock *rlock.Lock, own bool) {
	_ = lock.Lock(ctx)
	if own {
		_ = lock.Unlock(ctx)
		ctx = rlock.WithOwner(ctx)
		_ = lock.Lock(ctx)
	}
	defer lock.Unlock(ctx)
}

func perhapsUnlocks(ctx context.Context, lock *rlock.Lock, own bool) {
	_ = lock.Lock(ctx)
	if !own {
		ctx = rlock.WithOwner(ctx)
	}
	_ = lock.Unlock(ctx)
}

func inCondition(ctx context.Context, lock *rlock.Lock, own bool) {
	_ = lock.Lock(ctx)
	if ctx = rlock.WithOwner(ctx); own {
		return
	}
	_ = lock.Unlock(ctx)
}

// A function literal runs at another time.
func captured(ctx context.Context, lock *rlock.Lock) {
	unlock := func() { _ = lock.Unlock(ctx) }
	ctx = rlock.WithOwner(ctx)
	_ = lock.Lock(ctx)
	defer unlock()
}

func setLater(ctx context.Context, lock *rlock.Lock) func() {
	_ = lock.Lock(ctx)
	set := func() {
		ctx = rlock.WithOwner(ctx)
	}
	_ = lock.Unlock(ctx)
	return set
}

func ensured(ctx context.Context, lock *rlock.Lock) {
	_ = lock.Lock(rlock.EnsureOwner(ctx))
	_ = lock.Unlock(rlock.EnsureOwner(ctx))
}

func leased(ctx context.Context, lock *rlock.Lock) (bool, error) {
	return lock.TryLock(rlock.WithOwner(ctx), rlock.Lease(time.Minute))
}

// Here a goroutine begins, so the owner is new on purpose.
func worker(ctx context.Context, lock *rlock.Lock) {
	ctx = rlock.WithOwner(ctx)
	_ = lock.Lock(ctx)
	defer lock.Unlock(ctx)
}

func starts(ctx context.Context, lock, other *rlock.Lock) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		go worker(ctx, other)
		return nil
	})
}

func listener(ctx context.Context, lock *rlock.Lock) {
	ctx = rlock.WithOwner(ctx)
	_ = lock.Lock(ctx)
	defer lock.Unlock(ctx)
}

func group(ctx context.Context, lock, other *rlock.Lock, start func(func())) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		start(func() { listener(ctx, other) })
		return nil
	})
}

func later(ctx context.Context, lock *rlock.Lock) error {
	ctx = rlock.WithOwner(ctx)
	return lock.Do(ctx, work)
}

func detached(ctx context.Context, lock, other *rlock.Lock) error {
	return lock.Do(ctx, func(held context.Context) error {
		held = context.Background()
		return later(held, other)
	})
}

// Nobody is seen to call it under a lock.
func handler(ctx context.Context, lock *rlock.Lock) error {
	ctx = rlock.WithOwner(ctx)
	_ = lock.Lock(ctx)
	defer lock.Unlock(ctx)
	return nil
}

func serve(ctx context.Context, lock *rlock.Lock) error { return handler(ctx, lock) }

// It passes the owner on, and does not lock.
func middleware(ctx context.Context) error { return work(rlock.WithOwner(ctx)) }

func underLock(ctx context.Context, lock *rlock.Lock) error {
	return lock.Do(ctx, func(ctx context.Context) error { return middleware(ctx) })
}
