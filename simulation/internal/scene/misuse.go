package scene

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock"
)

// misuse asks for something that is not possible. It must be refused.
func (w *worker) misuse(t *target) {
	c := w.clients[0]
	short, negative := rlock.Lease(time.Microsecond+w.upTo(998*time.Microsecond)), rlock.AtLeast(-time.Second)
	switch w.random.IntN(6) {
	case 0:
		w.impossible(t, w.acquirer(t, false), short)
	case 1:
		w.impossible(t, w.acquirer(t, false), negative)
	case 2: // a group that would wait for itself
		w.impossible(t, rlock.NewMultiLock(c.NewLock("apart"), c.NewFairLock("apart")))
	case 3: // names that are derived from another one
		w.impossible(t, c.NewLock("redisson_lock_queue:{"+t.name+"}"))
	case 4:
		if len(w.Panics) > 0 {
			w.panics(t)
		}
	case 5:
		w.nothing()
	}
}

// impossible checks that an acquisition is refused because nothing can be like that.
func (w *worker) impossible(t *target, lock rlock.Acquirer, opts ...rlock.AcquireOption) {
	w.occupied(w.process, 1+len(t.atoms()))
	defer w.occupied(w.process, -1-len(t.atoms()))
	ctx, end := context.WithTimeout(w.ctx, time.Second)
	defer end()
	hold, err := lock.Acquire(ctx, opts...)
	if err == nil {
		_ = hold.Unlock(context.Background())
	}
	known := errors.Is(err, rlock.ErrInvalidOption) || errors.Is(err, rlock.ErrInvalidName) || errors.Is(err, rlock.ErrClosed)
	if !known && w.ctx.Err() == nil {
		w.note("misuse: %v asked for the impossible, and got %v", w.process, err)
	}
}

// faulty is a context of the application that panics in one of its methods.
type faulty struct {
	context.Context //nolint:containedctx // it is one

	random *rand.Rand
}

func (c faulty) may() {
	if c.random.IntN(3) == 0 {
		panic("a context of the application")
	}
}

// Done implements [context.Context].
func (c faulty) Done() <-chan struct{} {
	c.may()
	return c.Context.Done()
}

// Err implements [context.Context].
func (c faulty) Err() error {
	c.may()
	return c.Context.Err()
}

// Value implements [context.Context].
func (c faulty) Value(key any) any {
	c.may()
	return c.Context.Value(key)
}

// panics uses a target with a context that panics. The panic may come back in this goroutine, but nothing is left behind.
func (w *worker) panics(t *target) {
	w.occupied(w.process, len(t.atoms()))
	defer w.occupied(w.process, -len(t.atoms()))
	defer func() { _ = recover() }()
	ctx, end := context.WithTimeout(w.ctx, time.Second)
	defer end()
	_ = w.acquirer(t, false).Do(faulty{ctx, w.random}, func(context.Context) error { return nil })
}
