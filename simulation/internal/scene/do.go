package scene

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// errOwn is an error of the application, which Do must pass on.
var errOwn = errors.New("the application's own error")

// byDo uses a target once with Do, whose function finds its hold in the context.
func (w *worker) byDo(t *target, p plan) {
	ctx, opts, cancel := w.terms(&p)
	defer cancel()
	lock := w.acquirer(t, p.reads)
	a := w.asks(p)
	var h *holder
	var before, own error
	var deadline, began time.Time
	run := func(ctx context.Context) error {
		w.answered(ctx, a, nil)
		hold, ok := handles.HoldFrom(ctx, lock)
		h = &holder{plan: p, p: w.process, asked: a.asked, since: time.Now(), err: func() error { return nil }, unsure: true}
		if !ok {
			w.note("do: the context of %v carries no hold of %s", w.process, t.name)
			return nil
		}
		h.err, h.deadline = hold.Err, hold.Deadline()
		w.enters(a, h, hold.Token())
		w.visit(lock, hold, p)
		w.use(hold, p)
		if w.one(2) {
			own = errOwn
		}
		deadline, before, began = hold.Deadline(), hold.Err(), time.Now()
		w.leaves(h, before)
		return own
	}
	var err error
	if p.try {
		var ran bool
		if ran, err = lock.TryDo(ctx, run, opts...); !ran && err == nil {
			err = rlock.ErrNotAcquired
		}
	} else {
		err = lock.Do(ctx, run, opts...)
	}
	if h == nil {
		w.answered(ctx, a, err)
		return
	}
	w.unlocked(h, before, w.done(own, err), deadline, time.Since(began))
}

// done judges what Do returned, given what its function did. It returns what that says about the unlock.
func (w *worker) done(own, err error) error {
	if !w.dead() {
		promises.Judge(w.note).Done(w.process, own, err)
	}
	if errors.Is(err, errOwn) && !errors.Is(err, rlock.ErrLost) {
		return nil
	}
	return err
}

// byLock uses a target once with Lock and Unlock, as the owner of a context.
func (w *worker) byLock(t *target, p plan) {
	p.atLeast = 0 // which is not for Lock
	ctx, opts, cancel := w.terms(&p)
	defer cancel()
	lock := w.side(t, p.reads)
	owned := p.past != nil || p.owned || w.one(2)
	if owned {
		ctx = rlock.WithOwner(ctx)
	}
	a := w.asks(p)
	var err error
	if p.try {
		var ok bool
		if ok, err = lock.TryLock(ctx, opts...); !ok && err == nil {
			err = rlock.ErrNotAcquired
		}
	} else {
		err = lock.Lock(ctx, opts...)
	}
	w.answered(ctx, a, err)
	if err != nil || w.dead() {
		return
	}
	h := &holder{plan: p, p: w.process, asked: a.asked, since: time.Now(), err: func() error { return nil }, blind: true}
	w.enters(a, h, 0)
	if owned && w.one(3) {
		w.relocks(ctx, lock, t)
	}
	time.Sleep(p.hold)
	if w.dead() {
		return
	}
	w.leaves(h, nil)
	began := time.Now()
	err = lock.Unlock(ctx)
	w.unlocked(h, nil, err, began, time.Since(began))
	if err == nil && !w.dead() {
		w.unlocksAgain(lock.Unlock(context.WithoutCancel(ctx)), t)
	}
}

// locker is what relocks needs of a lock.
type locker interface {
	Lock(ctx context.Context, opts ...rlock.AcquireOption) error
	Unlock(ctx context.Context) error
}

// relocks locks what the owner of a context has a second time, and unlocks it once.
func (w *worker) relocks(ctx context.Context, lock locker, t *target) {
	w.occupied(w.process, 1)
	defer w.occupied(w.process, -1)
	err := lock.Lock(ctx)
	if err == nil {
		err = lock.Unlock(context.WithoutCancel(ctx))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class(err)
	refused := errors.Is(err, rlock.ErrNotAcquired) || errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost)
	if refused && ctx.Err() == nil && !w.dead() {
		w.brokenf("re-entry: %v has %s, and locked and unlocked it once more with %v", w.process, t.name, err)
	}
}

// unlocksAgain checks the error of an unlock that has nothing to end.
func (w *worker) unlocksAgain(err error, t *target) {
	if (!errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost)) && !errors.Is(err, rlock.ErrClosed) {
		w.note("unlock: that of %s by %v, which has unlocked it, returned %v", t.name, w.process, err)
	}
}

// note records a broken promise.
func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.brokenf(format, args...)
}
