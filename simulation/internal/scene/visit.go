package scene

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// visit does one of the things that an owner may do while it has a target, and none of which ends its hold.
func (w *worker) visit(lock handles.Any, hold *rlock.Hold, p plan) {
	switch p.visit {
	case 0:
		w.borrows(lock, hold)
	case 1:
		w.another(lock, hold, p)
	case 2:
		w.asksAbout(lock, hold, p)
	case 3:
		if s, ok := lock.(*rlock.Semaphore); ok {
			w.besides(s, hold)
		}
	case 5:
		w.nested(hold, p)
	}
}

// nested asks for a lock that its owner has, by a handle that refuses that, or for its other side.
func (w *worker) nested(hold *rlock.Hold, p plan) {
	t, c := p.of, w.clients[0]
	if t.kind != kindLock && !t.shares() || len(w.clients) > 1 {
		return
	}
	lock, want := c.NewLock(t.name, rlock.NonReentrant()), rlock.ErrReentered
	w.mu.Lock()
	ticket := t.exported
	w.mu.Unlock()
	var opts []rlock.AcquireOption
	switch {
	case t.kind == kindLock && p.verb < 4:
		lock, want = c.NewLock(t.name, rlock.Fenced()), rlock.ErrInvalidOption // the hold has no token
	case t.kind == kindLock && p.verb < 6:
		lock, opts = c.NewLock(t.name), []rlock.AcquireOption{rlock.AtLeast(time.Second)}
	case t.shares() && p.reads:
		lock, want = w.side(t, false), rlock.ErrUpgrade
	case t.shares():
		lock, want = w.side(t, true), nil
	}
	w.occupied(w.process, 1)
	defer w.occupied(w.process, -1)
	before := hold.Err()
	acquire := lock.TryAcquire
	switch {
	case want == nil && p.verb >= 6: // a writer that reads waits for nobody
		acquire, opts = lock.Acquire, append(opts, rlock.Wait(10*time.Second))
	case t.kind == kindLock && p.verb >= 8 && ticket != "": // whoever has the lock needs no ticket
		acquire = func(ctx context.Context, _ ...rlock.AcquireOption) (*rlock.Hold, error) {
			return c.NewLock(t.name).Adopt(ctx, ticket)
		}
	}
	inner, err := acquire(rlock.EnsureOwner(hold.Context()), opts...)
	known := errors.Is(err, want) || errors.Is(err, rlock.ErrUnavailable) || errors.Is(err, rlock.ErrClosed) || w.isFull(err)
	if ended := hold.Context().Err() != nil; !ended && !known {
		w.judge(hold, before, "nested: %v has %s, and got %v instead of %v", w.process, t.name, err, want)
	}
	if err == nil {
		_ = inner.Unlock(context.Background())
	}
}

// side returns a side of a read-write lock.
func (w *worker) side(t *target, reads bool) *rlock.Lock {
	lock, _ := w.acquirer(t, reads).(*rlock.Lock)
	return lock
}

// besides sets up the semaphore that would have the same leases as the one of which an owner has permits. Where somebody deletes keys, that may
// succeed, and nobody could set up the other one from then on.
func (w *worker) besides(s *rlock.Semaphore, hold *rlock.Hold) {
	if w.Unsafe {
		return
	}
	before := hold.Err()
	w.occupied(w.process, 1)
	defer w.occupied(w.process, -1)
	ok, err := w.clients[0].NewSemaphore("{"+s.Name()+"}").TrySetPermits(w.ctx, 1)
	if ok || err == nil {
		w.judge(hold, before, "names: %v could set up {%s} besides %s", w.process, s.Name(), s.Name())
	}
}

// outlives has a re-entry outlive its hold. It is unlocked through the same handle, with the context of the hold, which is over then.
func (w *worker) outlives(h *holder, hold *rlock.Hold, lock *rlock.Lock) bool {
	ctx := hold.Context()
	w.occupied(w.process, 1)
	err := lock.Lock(ctx)
	w.occupied(w.process, -1)
	if err != nil {
		return false
	}
	w.mu.Lock()
	h.err, h.blind, h.ctx, h.term = func() error { return nil }, true, nil, nil
	w.mu.Unlock()
	first := hold.Unlock(context.Background())
	time.Sleep(w.upTo(w.Hold))
	if w.dead() {
		return true
	}
	w.mu.Lock()
	w.class(first)
	w.mu.Unlock()
	w.leaves(h, nil)
	began := time.Now()
	err = lock.Unlock(context.WithoutCancel(ctx))
	if errors.Is(first, rlock.ErrLost) || errors.Is(first, rlock.ErrClosed) {
		err = first
	}
	w.unlocked(h, nil, err, began, time.Since(began))
	return true
}

// judge records a broken promise about a hold, if the hold was good before a call and still is, and Redis forgets nothing.
func (w *worker) judge(hold *rlock.Hold, before error, format string, args ...any) {
	if before == nil && hold.Err() == nil && !w.Unsafe && !w.dead() {
		w.note(format, args...)
	}
}

// borrows gets the hold from its context. The unlock of what was borrowed ends nothing.
func (w *worker) borrows(lock handles.Any, hold *rlock.Hold) {
	promises.Judge(w.note).Borrowed(hold.Context(), w.process, lock, hold)
}

// another tries to acquire what an owner has as another owner, within the context of the first one.
func (w *worker) another(lock handles.Any, hold *rlock.Hold, p plan) {
	if p.of.counts() || p.reads {
		return
	}
	w.occupied(w.process, len(p.of.atoms()))
	defer w.occupied(w.process, -len(p.of.atoms()))
	before := hold.Err()
	other, err := lock.TryAcquire(rlock.WithOwner(hold.Context()))
	w.mu.Lock()
	w.class(err)
	w.mu.Unlock()
	if err == nil {
		w.judge(hold, before, "owner: another owner got what %v has of %s", w.process, p.of.name)
		_ = other.Unlock(context.Background())
	}
}

// asksAbout asks Redis about what an owner has.
func (w *worker) asksAbout(lock handles.Any, hold *rlock.Hold, p plan) {
	w.occupied(w.process, 1)
	defer w.occupied(w.process, -1)
	before, ctx := hold.Err(), context.WithoutCancel(hold.Context())
	var err error
	_, _, _ = hold.LogValue(), hold.String(), w.clients[0].Stats()
	says := func(ok bool, what string, value any) {
		if err == nil && !ok {
			w.judge(hold, before, "query: %v has %s, but %s says %v", w.process, p.of.name, what, value)
		}
		w.mu.Lock()
		w.class(err)
		w.mu.Unlock()
	}
	switch l := lock.(type) {
	case *rlock.Lock:
		w.asksAboutLock(ctx, l, says, &err)
	case *rlock.Semaphore:
		var n int
		n, err = l.Permits(ctx)
		says(n >= permits, "Permits", n)
		n, err = l.AvailablePermits(ctx)
		says(n <= w.most(p.of)-p.permits, "AvailablePermits", n)
		says(len(hold.PermitIDs()) == p.permits, "PermitIDs", hold.PermitIDs())
		_ = l.String()
	}
}

func (w *worker) asksAboutLock(ctx context.Context, l *rlock.Lock, says func(bool, string, any), err *error) {
	var ok bool
	ok, *err = l.IsLocked(ctx)
	says(ok, "IsLocked", ok)
	var n int
	n, *err = l.HoldCount(ctx)
	says(n >= 1, "HoldCount", n)
	var left time.Duration
	left, *err = l.TTL(ctx)
	says(left > 0, "TTL", left)
	_ = l.String()
	var info rlock.LockInfo
	info, *err = l.Inspect(ctx)
	mine := false
	for _, holder := range info.Holders {
		mine = mine || strings.HasPrefix(holder.Holder, w.clients[0].ID())
	}
	says(mine, "Inspect", info.Holders)
}
