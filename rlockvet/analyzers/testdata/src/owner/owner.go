package owner

import (
	"context"
	"net/http"
	"time"

	"github.com/go-rlock/rlock"
)

func work(ctx context.Context) error { return nil }

func dropped(ctx context.Context) {
	rlock.WithOwner(ctx)       // want `^the context that WithOwner returns is dropped, so nothing has the owner: lock with that context$`
	_ = rlock.EnsureOwner(ctx) // want `the context that EnsureOwner returns is dropped`
}

func inline(ctx context.Context, lock *rlock.Lock) error {
	if err := lock.Lock(rlock.WithOwner(ctx), rlock.Wait(time.Second)); err != nil { // want `^nobody can re-enter or unlock with an owner that only Lock gets: keep the context that WithOwner returns$`
		return err
	}
	ok, err := lock.TryLock(rlock.WithOwner(ctx)) // want `an owner that only TryLock gets`
	if !ok {
		return err
	}
	return lock.Unlock(rlock.WithOwner(ctx)) // want `^this owner is new and holds nothing: give Unlock the context with which the lock was taken$`
}

func otherUnlocks(ctx context.Context, lock *rlock.Lock) error {
	owner := rlock.WithOwner(ctx)
	if err := lock.Lock(owner); err != nil {
		return err
	}
	defer lock.Unlock(ctx) // want `^this unlocks with another owner than the one that locked: use the context of the Lock$`
	return work(owner)
}

func ownerUnlocks(ctx context.Context, locks *rlock.Client) error {
	if err := locks.NewLock("a").Lock(ctx); err != nil {
		return err
	}
	ctx = rlock.WithOwner(ctx)
	defer locks.NewLock("a").Unlock(ctx) // want `this unlocks with another owner`
	return work(ctx)
}

func twoOwners(ctx context.Context, lock *rlock.Lock) {
	a, b := rlock.WithOwner(ctx), rlock.WithOwner(ctx)
	_ = lock.Lock(a)
	defer func() { _ = lock.Unlock(b) }() // want `this unlocks with another owner`
}

func waits(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewLock("a")
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	owner := rlock.WithOwner(ctx)
	if _, err := lock.TryAcquire(owner); err != nil { // want `this never gets the lock: the lock is held here by another owner`
		return err
	}
	return lock.Do(owner, work) // want `^this waits for itself: the lock is held here by another owner; lock with the context of that one, or use EnsureOwner$`
}

func inside(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewFencedLock("a")
	return lock.Do(ctx, func(ctx context.Context) error {
		owner := rlock.WithOwner(ctx)
		if ok, err := lock.TryLock(owner); !ok { // want `this never gets the lock`
			return err
		}
		return lock.Lock(owner) // want `this waits for itself`
	})
}

// A function that is called under a lock must not hide what its caller holds.
func pay(ctx context.Context, lock *rlock.Lock) error {
	ctx = rlock.WithOwner(ctx) // want `^WithOwner in pay, which locks, hides what its caller holds: it is called with the context of a hold in line 89 of owner.go; use EnsureOwner$`
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return work(ctx)
}

func order(ctx context.Context, lock, other *rlock.Lock) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		return pay(ctx, other)
	})
}

type shop struct{ lock *rlock.Lock }

func (s *shop) pay(ctx context.Context, n int) error {
	owner := rlock.WithOwner(ctx) // want `WithOwner in pay, which locks, hides what its caller holds: it is called with the context of an owner in line`
	return s.lock.Do(owner, work)
}

func (s *shop) order(ctx context.Context) error {
	owner, cancel := context.WithTimeout(rlock.WithOwner(ctx), time.Second)
	defer cancel()
	return s.pay(owner, 1)
}

// From here on, all is as it should be.

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
	if err := rw.WriteLock().Lock(owner); err != nil {
		return err
	}
	if err := rw.ReadLock().Lock(owner); err != nil {
		return err
	}
	defer rw.ReadLock().Unlock(owner)
	return rw.WriteLock().Unlock(owner)
}

func readers(ctx context.Context, locks *rlock.Client) error {
	read := locks.NewRWLock("config").ReadLock()
	_ = read.Lock(ctx)
	defer read.Unlock(ctx)
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
	if own {
		ctx = rlock.WithOwner(ctx)
	}
	_ = lock.Lock(ctx)
	defer lock.Unlock(ctx)
}

func captured(ctx context.Context, lock *rlock.Lock) {
	_ = lock.Lock(ctx)
	unlock := func() { _ = lock.Unlock(ctx) }
	ctx = rlock.WithOwner(ctx)
	defer unlock()
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
