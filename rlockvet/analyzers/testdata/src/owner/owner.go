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

func derivedOwner(ctx context.Context, lock *rlock.Lock) error {
	owner, cancel := context.WithTimeout(rlock.WithOwner(ctx), time.Second)
	defer cancel()
	if err := lock.Lock(owner); err != nil {
		return err
	}
	defer lock.Unlock(ctx) // want `this unlocks with another owner`
	return nil
}

func ownerUnlocks(ctx context.Context, locks *rlock.Client) error {
	if err := locks.NewLock("a").Lock(ctx); err != nil {
		return err
	}
	ctx = rlock.WithOwner(ctx)
	defer locks.NewLock("a").Unlock(ctx) // want `this unlocks with another owner`
	return work(ctx)
}

func requestUnlocks(r *http.Request, lock *rlock.Lock) {
	owner := rlock.WithOwner(r.Context())
	_ = lock.Lock(owner)
	defer lock.Unlock(r.Context()) // want `this unlocks with another owner`
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
	lock := locks.NewLock("a", rlock.Fenced())
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
	ctx = rlock.WithOwner(ctx) // want `^WithOwner in pay, which locks, hides what its caller holds: it is called with the context of a hold in line 105 of owner.go; use EnsureOwner$`
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
