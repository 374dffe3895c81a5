package hold

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-rlock/rlock"
)

// In this file, all is as it should be.

func deferred(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx)
	if busy() {
		return nil
	}
	return work(hold.Context())
}

func deferredLiteral(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := hold.Unlock(context.WithoutCancel(ctx)); err != nil {
			log.Print(err)
		}
	}()
	return work(hold.Context())
}

func cleanup(ctx context.Context, lock *rlock.Lock, cleanup func(func())) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	cleanup(func() { _ = hold.Unlock(ctx) })
	return work(ctx)
}

func value(ctx context.Context, lock *rlock.Lock) (func(context.Context) error, error) {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return hold.Unlock, nil
}

func joined(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	return errors.Join(work(ctx), hold.Unlock(ctx))
}

func conditions(ctx context.Context, lock *rlock.Lock) {
	if hold, err := lock.TryAcquire(ctx); err == nil {
		defer hold.Unlock(ctx)
	}
	hold, err := lock.TryAcquire(ctx)
	if errors.Is(err, rlock.ErrNotAcquired) || errors.Is(err, rlock.ErrUnavailable) {
		return
	}
	if !(err == nil) {
		return
	}
	if hold != nil && err == nil {
		hold.Unlock(ctx)
		return
	}
	if hold == nil {
		return
	}
	hold.Unlock(ctx)
}

func contradictions(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.TryAcquire(ctx)
	if err != nil && !errors.Is(err, rlock.ErrNotAcquired) {
		return err
	}
	if err == nil {
		log.Print("acquired")
	}
	if errors.Is(err, rlock.ErrNotAcquired) {
		return nil
	}
	return hold.Unlock(ctx)
}

func lostAtOnce(ctx context.Context, lock *rlock.Lock) {
	hold, err := lock.TryAcquire(ctx)
	if err == nil && hold.Err() != nil {
		return
	}
	defer hold.Unlock(ctx)
}

// The second hold takes the place of the first.
func replaced(ctx context.Context, a, b *rlock.Lock) error {
	hold, err := a.Acquire(ctx)
	if err != nil {
		return err
	}
	if busy() {
		return hold.Unlock(ctx)
	}
	hold, err = b.Acquire(ctx)
	if err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

func tag(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.TryAcquire(ctx)
	switch err {
	case nil:
		return hold.Unlock(ctx)
	case rlock.ErrNotAcquired:
		return nil
	}
	return err
}

func wrapped(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.TryAcquire(ctx)
	refused := errors.Is(err, rlock.ErrNotAcquired)
	if refused {
		return nil
	}
	if err != nil {
		return fmt.Errorf("paying: %w", err)
	}
	return hold.Unlock(ctx)
}

func returned(ctx context.Context, lock *rlock.Lock) (*rlock.Hold, error) {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return hold, nil
}

func directly(ctx context.Context, lock *rlock.Lock) (*rlock.Hold, error) { return lock.Acquire(ctx) }

func result(ctx context.Context, lock *rlock.Lock) (hold *rlock.Hold, err error) {
	hold, err = lock.Acquire(ctx)
	return
}

type service struct{ hold *rlock.Hold }

var global *rlock.Hold

func (s *service) start(ctx context.Context, lock *rlock.Lock) (err error) {
	if s.hold, err = lock.Acquire(ctx); err != nil {
		return err
	}
	global, err = lock.Acquire(ctx)
	return err
}

func passedOn(ctx context.Context, lock *rlock.Lock, all []*rlock.Hold, to chan *rlock.Hold) error {
	a, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	keep(a)
	b, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	all = append(all, b)
	c, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	to <- c
	d, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	_ = service{hold: d}
	return nil
}

// A lock with a fixed lease becomes free by itself: so programs limit how often something is done.
func leased(ctx context.Context, lock *rlock.Lock, opts ...rlock.AcquireOption) (bool, error) {
	if _, err := lock.TryAcquire(ctx, opts...); err != nil {
		return false, err
	}
	if _, err := lock.TryAcquire(ctx, rlock.Lease(time.Minute), rlock.Wait(0)); errors.Is(err, rlock.ErrNotAcquired) {
		return false, nil
	}
	hold, err := lock.TryAcquire(ctx, rlock.Lease(time.Minute))
	if err != nil {
		return false, err
	}
	return time.Until(hold.Deadline()) > time.Second, nil
}

// What is lost need not be unlocked.
func lost(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	for hold.Err() == nil {
		time.Sleep(time.Second)
	}
	<-hold.Context().Done()
	return context.Cause(hold.Context())
}

func isLost(err error) bool { return errors.Is(err, rlock.ErrLost) }

func untilLost(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	<-hold.Done()
	return nil
}

func watched(ctx context.Context, lock *rlock.Lock, ticks chan int) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	for {
		select {
		case <-hold.Done():
			return nil
		case <-ticks:
			if err := hold.Err(); err != nil {
				return err
			}
			if isLost(hold.Err()) {
				return nil
			}
			if errors.Is(context.Cause(hold.Context()), rlock.ErrLost) {
				return nil
			}
		case <-ctx.Done():
			return hold.Unlock(ctx)
		}
	}
}

// The condition may be the one under which the lock is held still.
func flag(ctx context.Context, lock *rlock.Lock, wanted bool) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	locked := true
	if busy() {
		locked = false
		hold.Unlock(ctx)
	}
	if err := work(ctx); err != nil && !locked {
		return err
	}
	if locked {
		hold.Unlock(ctx)
	}
	return nil
}

func perhaps(ctx context.Context, lock *rlock.Lock, wanted bool) (err error) {
	var hold *rlock.Hold
	if wanted {
		if hold, err = lock.Acquire(ctx); err != nil {
			return err
		}
	}
	if !wanted {
		return work(ctx)
	}
	return hold.Unlock(ctx)
}

func before(ctx context.Context, lock *rlock.Lock) error {
	var hold *rlock.Hold
	defer func() {
		if hold != nil {
			hold.Unlock(ctx)
		}
	}()
	var err error
	if hold, err = lock.Acquire(ctx); err != nil {
		return err
	}
	return work(ctx)
}

func cases(ctx context.Context, lock *rlock.Lock, n int) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	switch n {
	case 1:
		n++
	default:
		hold.Unlock(ctx)
	}
	return nil
}

func chain(ctx context.Context, lock *rlock.Lock, n int) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	if n == 1 {
		n++
	} else if n == 2 {
		hold.Unlock(ctx)
	}
	return nil
}

func exits(ctx context.Context, lock *rlock.Lock) {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if busy() {
		os.Exit(1)
	}
	if busy() {
		panic("busy")
	}
	hold.Unlock(ctx)
}

func retries(ctx context.Context, lock *rlock.Lock) {
	for {
		hold, err := lock.TryAcquire(ctx)
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		if err := work(hold.Context()); err != nil {
			log.Print(err)
		}
		if err := hold.Unlock(ctx); err != nil {
			return
		}
	}
}

// The lock is held for as long as the process lives.
func alone(ctx context.Context, lock *rlock.Lock) (context.Context, error) {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return hold.Context(), nil
}

// The ids are what another process releases.
func ids(ctx context.Context, sem *rlock.Semaphore) ([]string, error) {
	hold, err := sem.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return hold.PermitIDs(), nil
}

func borrowed(ctx context.Context, lock *rlock.Lock) rlock.Token {
	hold, ok := rlock.HoldFrom(ctx, lock)
	if !ok {
		return 0
	}
	return hold.Token()
}

type pool struct{}

func (pool) Acquire() (*rlock.Hold, error) { return nil, nil }

func foreign(p pool) error {
	_, err := p.Acquire()
	return err
}
