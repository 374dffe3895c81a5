package scene

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// answer is what a method returned that must fail.
type answer struct {
	of  string
	err error
}

// nothing uses handles and holds that are none, and arguments that are out of range. Each method says so, and sends nothing.
func (w *worker) nothing() {
	var none *rlock.Client
	var all []answer
	for _, l := range []*rlock.Lock{nil, new(rlock.Lock), none.NewLock("x")} {
		all = append(all, w.noLock(l)...)
	}
	for _, s := range []*rlock.Semaphore{nil, new(rlock.Semaphore), none.NewSemaphore("x")} {
		all = append(all, w.noSemaphore(s)...)
	}
	for _, s := range []*rlock.PlainSemaphore{nil, new(rlock.PlainSemaphore), none.NewPlainSemaphore("x")} {
		all = append(all, w.noPlainSemaphore(s)...)
	}
	for _, l := range []*rlock.CountDownLatch{nil, new(rlock.CountDownLatch), none.NewCountDownLatch("x")} {
		all = append(all, w.noLatch(l)...)
	}
	all = append(all, w.noGroup()...)
	w.fails(rlock.ErrInvalidOption, append(all, w.outOfRange()...))
	for _, h := range []*rlock.Hold{nil, new(rlock.Hold)} {
		w.noHold(h)
	}
}

// fails checks that methods returned this error.
func (w *worker) fails(want error, all []answer) {
	for _, a := range all {
		if !errors.Is(a.err, want) && !errors.Is(a.err, rlock.ErrClosed) && w.ctx.Err() == nil {
			w.note("misuse: %s returned %v instead of %v", a.of, a.err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func nop(context.Context) error { return nil }

func (w *worker) noLock(l *rlock.Lock) []answer {
	ctx := w.ctx
	_ = l.String()
	return []answer{
		{"Acquire of no lock", second(l.Acquire(ctx))},
		{"TryLock of no lock", second(l.TryLock(ctx))},
		{"TryDo of no lock", second(l.TryDo(ctx, nop))},
		{"Unlock of no lock", l.Unlock(ctx)},
		{"IsLocked of no lock", second(l.IsLocked(ctx))},
		{"TTL of no lock", second(l.TTL(ctx))},
		{"HoldCount of no lock", second(l.HoldCount(ctx))},
		{"ForceUnlock of no lock", second(l.ForceUnlock(ctx))},
		{"Inspect of no lock", second(l.Inspect(ctx))},
		{"Adopt of no lock", second(l.Adopt(ctx, "x"))},
	}
}

func (w *worker) noSemaphore(s *rlock.Semaphore) []answer {
	ctx := w.ctx
	_ = s.String()
	return []answer{
		{"Acquire of no semaphore", second(s.Acquire(ctx))},
		{"TrySetPermits of no semaphore", second(s.TrySetPermits(ctx, 1))},
		{"SetPermits of no semaphore", s.SetPermits(ctx, 1)},
		{"AddPermits of no semaphore", s.AddPermits(ctx, 1)},
		{"AvailablePermits of no semaphore", second(s.AvailablePermits(ctx))},
		{"Release of no semaphore", s.Release(ctx, "x")},
		{"Delete of no semaphore", second(s.Delete(ctx))},
	}
}

func (w *worker) noPlainSemaphore(s *rlock.PlainSemaphore) []answer {
	ctx := w.ctx
	_ = s.String()
	return []answer{
		{"Acquire of no plain semaphore", s.Acquire(ctx)},
		{"TrySetPermits of no plain semaphore", second(s.TrySetPermits(ctx, 1))},
		{"DrainPermits of no plain semaphore", second(s.DrainPermits(ctx))},
		{"Release of no plain semaphore", s.Release(ctx, 1)},
		{"Delete of no plain semaphore", second(s.Delete(ctx))},
	}
}

func (w *worker) noLatch(l *rlock.CountDownLatch) []answer {
	ctx := w.ctx
	_ = l.String()
	return []answer{
		{"TrySetCount of no latch", second(l.TrySetCount(ctx, 1))},
		{"CountDown of no latch", second(l.CountDown(ctx))},
		{"Count of no latch", second(l.Count(ctx))},
		{"Await of no latch", l.Await(ctx)},
		{"Delete of no latch", second(l.Delete(ctx))},
	}
}

func (w *worker) noGroup() (all []answer) {
	for _, g := range []handles.Any{
		rlock.NewMultiLock(), rlock.NewRedLock(), rlock.NewMultiLock((*rlock.Lock)(nil)), rlock.NewMultiLock(nil),
		rlock.NewRedLock(new(rlock.Lock)), (*rlock.MultiLock)(nil), (*rlock.RedLock)(nil),
	} {
		all = append(all,
			answer{"Acquire of no group", second(g.Acquire(w.ctx))},
			answer{"Do of no group", g.Do(w.ctx, func(context.Context) error { return nil })},
		)
	}
	return all
}

// outOfRange calls methods with arguments that are out of range.
func (w *worker) outOfRange() []answer {
	ctx, c := w.ctx, w.clients[0]
	s, plain, latch := c.NewSemaphore("apart"), c.NewPlainSemaphore("apart"), c.NewCountDownLatch("apart")
	return []answer{
		{"TrySetPermits of -1", second(s.TrySetPermits(ctx, -1))},
		{"SetPermits of -1", s.SetPermits(ctx, -1)},
		{"Release of nothing", s.Release(ctx)},
		{"Release of no id", s.Release(ctx, "x")},
		{"Acquire of no permits", second(s.Acquire(ctx, rlock.Permits(0)))},
		{"Acquire of permits of a lock", second(c.NewLock("apart").Acquire(ctx, rlock.Permits(2)))},
		{"Release of -1", plain.Release(ctx, -1)},
		{"a total of -1", second(c.NewSemaphore("apart", rlock.Total(-1)).Acquire(ctx))},
		{"Lease of a plain permit", plain.Acquire(ctx, rlock.Lease(time.Second))},
		{"TrySetCount of 0", second(latch.TrySetCount(ctx, 0))},
		{"Await with a lease", latch.Await(ctx, rlock.Lease(time.Second))},
		{"AtLeast of a multi lock", second(rlock.NewMultiLock(c.NewLock("apart")).Acquire(ctx, rlock.AtLeast(time.Second)))},
	}
}

// noHold uses a hold that is none: it is over.
func (w *worker) noHold(h *rlock.Hold) {
	ctx := w.ctx
	w.fails(rlock.ErrNotHeld, []answer{
		{"Unlock of no hold", h.Unlock(ctx)},
		{"Extend of no hold", h.Extend(ctx, time.Second)},
		{"Export of no hold", second(h.Export(ctx))},
		{"Err of no hold", h.Err()},
		{"the context of no hold", context.Cause(h.Context())},
	})
	select {
	case <-h.Done():
	default:
		w.note("misuse: no hold is not done")
	}
	if _ = h.LogValue(); h.Token() != 0 || h.PermitIDs() != nil || !h.Deadline().IsZero() {
		w.note("misuse: no hold has the token %d, the permits %v and the deadline %v", h.Token(), h.PermitIDs(), h.Deadline())
	}
}
