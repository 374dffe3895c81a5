package hold

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-rlock/rlock"
)

func work(ctx context.Context) error { return nil }
func busy() bool                     { return false }
func keep(h *rlock.Hold)             {}

func dropped(ctx context.Context, lock *rlock.Lock) {
	lock.Acquire(ctx) // want `^the hold is dropped, so nothing can unlock it: unlock it, as with defer, or use Do$`
}

func blank(ctx context.Context, lock *rlock.Lock, group *rlock.MultiLock) error {
	if _, err := lock.TryAcquire(ctx); err != nil { // want `the hold is dropped`
		return err
	}
	_, _ = group.Acquire(ctx, rlock.Wait(time.Second), rlock.RenewedLease(time.Second)) // want `the hold is dropped`
	var _, err = lock.Acquire(ctx)                                                      // want `the hold is dropped`
	return err
}

func never(ctx context.Context, sem *rlock.Semaphore) error {
	hold, err := sem.Acquire(ctx, rlock.Permits(3)) // want `^hold is never unlocked: unlock it, as with defer, or use Do$`
	if err != nil {
		return err
	}
	return work(hold.Context())
}

func neverOfAGroup(ctx context.Context, a *rlock.RedLock) (err error) {
	var hold *rlock.Hold
	hold, err = a.Acquire(ctx) // want `hold is never unlocked`
	if err == nil {
		fmt.Println(hold.Deadline(), hold.Token(), hold != nil)
		_ = hold
	}
	return err
}

func earlyReturn(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx) // want `^hold is not unlocked on all paths: the function may return in line 54 with the lock held: unlock it, as with defer, or use Do$`
	if err != nil {
		return err
	}
	if err := work(hold.Context()); err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

func handled(ctx context.Context, lock *rlock.Lock) {
	hold, err := lock.TryAcquire(ctx) // want `may return in line 72`
	switch {
	case errors.Is(err, rlock.ErrNotAcquired):
		return
	case err != nil:
		log.Print(err)
		return
	}
	if busy() {
		hold.Unlock(ctx)
		return
	}
}

func errorDropped(ctx context.Context, lock *rlock.Lock) {
	hold, _ := lock.Acquire(ctx) // want `may return in line 77`
	if busy() {
		return
	}
	hold.Unlock(ctx)
}

func stored(ctx context.Context, lock *rlock.Lock, all map[string]*rlock.Hold) error {
	hold, err := lock.Acquire(ctx) // want `may return in line 88`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	all["lock"] = hold
	return nil
}

func loop(ctx context.Context, locks []*rlock.Lock) error {
	for _, lock := range locks {
		hold, err := lock.TryAcquire(ctx) // want `may return in line 101`
		if err != nil {
			continue
		}
		if busy() {
			return nil
		}
		_ = hold.Unlock(ctx)
	}
	return nil
}

func inLiteral(ctx context.Context, lock *rlock.Lock) {
	go func() {
		hold, err := lock.Acquire(ctx) // want `hold is never unlocked`
		if err != nil {
			return
		}
		_ = work(hold.Context())
	}()
	_ = func() error {
		hold, err := lock.Acquire(ctx) // want `may return in line 122`
		if err != nil {
			return err
		}
		if busy() {
			return nil
		}
		return hold.Unlock(ctx)
	}
}

// The end of the hold's context says nothing about the lock if the context of the caller ended.
func ended(ctx context.Context, lock *rlock.Lock, results chan int) error {
	hold, err := lock.Acquire(ctx) // want `may return in line 136`
	if err != nil {
		return err
	}
	select {
	case <-hold.Context().Done():
		return context.Cause(hold.Context())
	case <-results:
	}
	return hold.Unlock(ctx)
}

func extends(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx) // want `may return in line 148`
	if err != nil {
		return err
	}
	if err := hold.Extend(ctx, time.Minute); err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

func reassigned(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx) // want `may return in line 160`
	if err != nil {
		return err
	}
	err = work(ctx)
	if err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

func caseReturns(ctx context.Context, lock *rlock.Lock, n int) error {
	hold, err := lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if err != nil {
		return err
	}
	switch n {
	case 1:
		return hold.Unlock(ctx)
	}
	return nil
}

func clauseReturns(ctx context.Context, lock *rlock.Lock, ticks, stop chan int) error {
	hold, err := lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if err != nil {
		return err
	}
	select {
	case <-stop:
		return hold.Unlock(ctx)
	case <-ticks:
	}
	return nil
}

func acquired(ctx context.Context, lock *rlock.Lock) {
	hold, err := lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if err == nil {
		if busy() {
			return
		}
		_ = hold.Unlock(ctx)
	}
}

func negated(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if !(err == nil) {
		return err
	}
	if busy() {
		return nil
	}
	return hold.Unlock(ctx)
}

func either(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if err != nil && hold == nil {
		return err
	}
	if busy() {
		return nil
	}
	return hold.Unlock(ctx)
}

func selected(ctx context.Context, lock *rlock.Lock, ticks, stop chan int) error {
	hold, err := lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if err != nil {
		return err
	}
	select {
	case <-hold.Done():
		return nil
	case <-ticks:
		return nil
	case <-stop:
	}
	return hold.Unlock(ctx)
}

func heldStill(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if err != nil {
		return err
	}
	if err := hold.Err(); err != nil {
		return err
	}
	if busy() {
		return nil
	}
	return hold.Unlock(ctx)
}

func _(ctx context.Context, lock *rlock.Lock) {
	lock.Acquire(ctx) // want `the hold is dropped`
}

func init() {
	var locks *rlock.Client
	locks.NewLock("a").Acquire(context.Background())                             // want `the hold is dropped`
	hold, err := (*rlock.Lock).Acquire(locks.NewLock("a"), context.Background()) // want `hold is never unlocked`
	log.Print(hold.Token(), err)
	_ = (*rlock.Lock).Do(locks.NewLock("a"), context.Background(), func(ctx context.Context) error { return work(ctx) })
}

type generic[T any] struct{ lock *rlock.Lock }

func (g *generic[T]) run(ctx context.Context) (value T, err error) {
	hold, err := g.lock.Acquire(ctx) // want `hold is not unlocked on all paths`
	if err != nil {
		return value, err
	}
again:
	if busy() {
		goto again
	}
	if busy() {
		return value, nil
	}
	return value, hold.Unlock(ctx)
}
