package scene

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// misuse asks for something that is not possible. It must be refused.
func (w *worker) misuse(t *target) {
	c := w.clients[0]
	short, negative := rlock.Lease(time.Microsecond+w.upTo(998*time.Microsecond)), rlock.AtLeast(-time.Second)
	switch w.random.IntN(5) {
	case 0:
		w.impossible(t, w.acquirer(t, false), short)
	case 1:
		w.impossible(t, w.acquirer(t, false), negative)
	case 2: // a group that would wait for itself
		w.impossible(t, rlock.NewMultiLock(c.NewLock("apart"), c.NewFairLock("apart")))
	case 3: // names that are derived from another one
		w.impossible(t, c.NewLock("redisson_lock_queue:{"+t.name+"}"))
	case 4:
		w.nothing()
	}
}

// impossible checks that an acquisition is refused because nothing can be like that.
func (w *worker) impossible(t *target, lock handles.Any, opts ...rlock.AcquireOption) {
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
